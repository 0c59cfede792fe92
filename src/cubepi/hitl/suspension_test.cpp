#include <cubepi/hitl/suspension_test_support.hpp>

#include <algorithm>
#include <random>

#include <cubepi/agent/blocking.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/sanitizer_test_support.hpp>

namespace cubepi {
namespace {

using namespace hitl_test;
using namespace std::chrono_literals;

using Words = std::vector<std::string>;

struct Suspension : ::testing::Test {
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    std::vector<std::string> effects;

    void one_call() { faux.set_responses({calling({rm_call("/a", "c1")}), "done"}); }
    void two_calls() {
        faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), "done"});
    }
    Process process() { return Process(store, faux, effects); }
    /// Suspends at the n-th request and ends the process.
    RunResult suspend(int nth = 1) {
        Process first(store, faux, effects);
        return first.prompt_and_detach(nth);
    }
    MessageList history() { return run(store->load("t"))->messages; }
    std::size_t stored_requests() { return run(store->load_pending_requests("t")).size(); }
    ErrorCode code_of(const std::function<void()>& call) {
        try {
            call();
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::unknown;
    }
};

TEST_F(Suspension, D59_SuspendedRun_HasItsRequestsAndNoOwner) {
    one_call();
    Process first(store, faux, effects);
    const RunResult result = first.prompt_and_detach();
    EXPECT_EQ(result.outcome, RunOutcome::suspended);
    EXPECT_EQ(ids_of(result.pending_requests), Words{"c1"});
    EXPECT_EQ(result.error().code(), ErrorCode::pending_requests);
    EXPECT_EQ(first.events.back(), "agent_suspended");
    EXPECT_EQ(first.agent->state().last_outcome, LastOutcome::suspended);
    EXPECT_TRUE(first.agent->state().active_run_id.empty());
    EXPECT_EQ(stored_requests(), 1u);
    EXPECT_FALSE(run(store->is_run_complete("t", result.run_id)));
    // It has no owner: another process can claim it at once.
    ClaimOwner owner;
    owner.owner_id = "other";
    EXPECT_NO_THROW(run(store->claim_run("t", result.run_id, owner, ClaimKind::continue_run)));
}

TEST_F(Suspension, D82_BlockingLoop_ThrowsTheQuestions) {
    one_call();
    Process first(store, faux, effects);
    try {
        for (const AgentEvent& event : blocking(first.agent->start("hi"))) {
            if (event.get_if<HitlRequestEvent>()) (void)first.agent->detach();
        }
        ADD_FAILURE() << "nothing was thrown";
    } catch (const RunFailedError& error) {
        EXPECT_EQ(error.code(), ErrorCode::pending_requests);
        EXPECT_EQ(error.result().outcome, RunOutcome::suspended);
        EXPECT_EQ(ids_of(error.result().pending_requests), Words{"c1"});
    }
    EXPECT_EQ(stored_requests(), 1u);
}

TEST_F(Suspension, D59_AnotherProcess_AnswersAndContinues) {
    one_call();
    const RunResult suspended = suspend();
    EXPECT_TRUE(effects.empty());
    Process second(store, faux, effects);
    const RunResult result = second.respond("c1", approve());
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(result.run_id, suspended.run_id);
    EXPECT_NE(result.attempt_id, suspended.attempt_id);
    EXPECT_EQ(effects, Words{"/a"});
    EXPECT_EQ(stored_requests(), 0u);
    EXPECT_TRUE(run(store->is_run_complete("t", result.run_id)));
    EXPECT_EQ(texts_of(history()), (Words{"hi", "", "removed /a", "done"}));
    const Words first_events{"agent_start", "turn_start", "hitl_answer:c1",
                             "tool_execution_start:c1"};
    EXPECT_EQ(Words(second.events.begin(), second.events.begin() + 4), first_events);
}

TEST_F(Suspension, D18_PartialAnswer_IsStoredWithoutEvents) {
    two_calls();
    (void)suspend(2);
    Process second(store, faux, effects);
    const RunResult partly = second.respond("c2", approve());
    EXPECT_EQ(partly.outcome, RunOutcome::suspended);
    EXPECT_EQ(ids_of(partly.pending_requests), Words{"c1"});
    EXPECT_TRUE(second.events.empty());
    EXPECT_TRUE(effects.empty());
    Process third(store, faux, effects);
    EXPECT_EQ(third.respond("", approve()).outcome, RunOutcome::completed);
    EXPECT_EQ(effects, (Words{"/a", "/b"}));
}

TEST_F(Suspension, D18_SeveralGates_AreAskedTogether) {
    two_calls();
    Process first(store, faux, effects);
    const RunResult suspended = first.prompt([&](const HitlRequest& request) {
        // Both wait. The second one is answered, then the run is suspended.
        if (request.question_id != "c2") return;
        EXPECT_EQ(ids_of(first.channel->pending()), (Words{"c1", "c2"}));
        first.answer("c2", approve());
        (void)first.agent->detach();
    });
    EXPECT_EQ(suspended.outcome, RunOutcome::suspended);
    EXPECT_EQ(ids_of(suspended.pending_requests), Words{"c1"});
    EXPECT_TRUE(effects.empty());
    Process second(store, faux, effects);
    EXPECT_EQ(second.respond("c1", deny("no")).outcome, RunOutcome::completed);
    EXPECT_EQ(effects, Words{"/b"});
    EXPECT_EQ(texts_of(history()), (Words{"hi", "", "no", "removed /b", "done"}));
}

TEST_F(Suspension, AnswersBeforeSuspension_ContinueTheRun) {
    one_call();
    Process first(store, faux, effects);
    const RunResult result = first.prompt([&](const HitlRequest&) {
        first.answer("c1", approve());
        (void)first.agent->detach();
    });
    // Either order is valid; nothing is lost and nothing happens twice.
    if (result.outcome == RunOutcome::suspended) {
        Process second(store, faux, effects);
        EXPECT_EQ(run(second.agent->resume()).outcome, RunOutcome::completed);
    }
    EXPECT_EQ(effects, Words{"/a"});
}

TEST_F(Suspension, Detach_NeedsARequestAndDurableChannel) {
    one_call();
    Process first(store, faux, effects);
    EXPECT_FALSE(first.agent->detach()) << "no run is active";
    Agent without_channel({.model = faux.model()});
    EXPECT_EQ(code_of([&] { (void)without_channel.detach(); }), ErrorCode::no_channel);
    Agent without_store({.model = faux.model(), .channel = first.channel});
    EXPECT_EQ(code_of([&] { (void)without_store.detach(); }), ErrorCode::invalid_state);
}

TEST_F(Suspension, D60_PromptOnSuspendedThread_IsRefused) {
    one_call();
    (void)suspend();
    Process second(store, faux, effects);
    try {
        (void)second.prompt();
        FAIL() << "the prompt was accepted";
    } catch (const PendingRequestsError& error) {
        EXPECT_EQ(error.question_ids(), Words{"c1"});
    }
    EXPECT_EQ(stored_requests(), 1u);
    EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
}

TEST_F(Suspension, D60_AbandonPending_ClosesTheSuspendedRunFirst) {
    one_call();
    (void)suspend();
    faux.set_responses({"fresh"});
    Process second(store, faux, effects);
    PromptOptions options = PromptOptions().abandon_pending();
    const RunResult result = run(second.agent->prompt("again", std::move(options)));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(second.events.front(), "agent_aborted");
    EXPECT_TRUE(effects.empty());
    EXPECT_EQ(stored_requests(), 0u);
    EXPECT_EQ(texts_of(history()),
              (Words{"hi", "", "aborted: abandoned by a new prompt",
                     "Conversation aborted: abandoned by a new prompt", "again", "fresh"}));
}

TEST_F(Suspension, D60_KnownInput_ReturnsTheSuspendedResult) {
    one_call();
    Message input = user_message("hi").with_id("m1");
    Process first(store, faux, effects);
    const RunResult suspended = first.run_with(
        first.agent->prompt(input), [&](const HitlRequest&) { (void)first.agent->detach(); });
    ASSERT_EQ(suspended.outcome, RunOutcome::suspended);
    Process second(store, faux, effects);
    const RunResult again = run(second.agent->prompt(input));
    EXPECT_EQ(again.outcome, RunOutcome::suspended);
    EXPECT_EQ(ids_of(again.pending_requests), Words{"c1"});
    EXPECT_EQ(again.run_id, suspended.run_id);
    EXPECT_TRUE(second.events.empty());
}

TEST_F(Suspension, D60_Resume_AsksTheStoredRequestsAgain) {
    one_call();
    const RunResult suspended = suspend();
    Process second(store, faux, effects);
    HitlRequest asked;
    const RunResult result =
        second.run_with(second.agent->resume(), [&](const HitlRequest& request) {
            asked = request;
            second.answer("c1", approve());
        });
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(result.run_id, suspended.run_id);
    EXPECT_EQ(asked.created_at, suspended.pending_requests.front().created_at);
    EXPECT_EQ(effects, Words{"/a"});
}

TEST_F(Suspension, UnknownQuestionsAndBadAnswers_AreRefused) {
    one_call();
    (void)suspend();
    Process second(store, faux, effects);
    EXPECT_EQ(code_of([&] { (void)second.respond("c9", approve()); }), ErrorCode::stale_answer);
    EXPECT_EQ(code_of([&] { (void)second.respond("c1", Json("yes")); }), ErrorCode::bad_answer);
    // D63: the edited arguments are checked before they are stored.
    Json edit(to_json(ApproveAnswer::edit({{"path", 5}})));
    EXPECT_EQ(code_of([&] { (void)second.respond("c1", edit); }), ErrorCode::bad_answer);
    EXPECT_EQ(stored_requests(), 1u);
    EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
    EXPECT_EQ(code_of([&] { (void)second.respond("c1", approve()); }), ErrorCode::stale_answer);
    EXPECT_EQ(effects, Words{"/a"});
}

TEST_F(Suspension, D83_CallIdRepeated_RequestIdNamesOneQuestion) {
    faux.set_responses({calling({rm_call("/a", "c1")}), calling({rm_call("/b", "c1")}), "done"});
    const std::string first = suspend().pending_requests.front().request_id;
    Process second(store, faux, effects);
    const RunResult asked_again =
        second.run_with(second.agent->respond(first, approve()),
                        [&](const HitlRequest&) { (void)second.agent->detach(); });
    ASSERT_EQ(asked_again.outcome, RunOutcome::suspended);
    EXPECT_EQ(effects, Words{"/a"});
    Process third(store, faux, effects);
    EXPECT_EQ(code_of([&] { (void)third.respond(first, approve()); }), ErrorCode::stale_answer);
    EXPECT_EQ(effects, Words{"/a"});
    const std::string next = asked_again.pending_requests.front().request_id;
    EXPECT_EQ(third.respond(next, approve()).outcome, RunOutcome::completed);
    EXPECT_EQ(effects, (Words{"/a", "/b"}));
}

TEST_F(Suspension, D83_ResumedRun_AsksTheSameRequest) {
    one_call();
    const RunResult suspended = suspend();
    Process second(store, faux, effects);
    std::string asked;
    (void)second.run_with(second.agent->resume(), [&](const HitlRequest& request) {
        asked = request.request_id;
        second.answer(request.request_id, approve());
    });
    EXPECT_EQ(asked, suspended.pending_requests.front().request_id);
    EXPECT_EQ(effects, Words{"/a"});
}

TEST_F(Suspension, D105_TwoProcessesAnswer_OneSucceeds) {
    one_call();
    (void)suspend();
    Process second(store, faux, effects);
    Process third(store, faux, effects);
    EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
    EXPECT_EQ(code_of([&] { (void)third.respond("c1", deny("no")); }), ErrorCode::stale_answer);
    EXPECT_EQ(effects, Words{"/a"});
}

TEST_F(Suspension, D17_AnswerForOtherArguments_IsNotUsed) {
    one_call();
    const RunResult suspended = suspend();
    // The answer is stored; before its run continues, a hook changes the call.
    AnswerRecord record;
    record.run_id = suspended.run_id;
    record.question_id = "c1";
    record.answer = approve();
    run(store->answer_request("t", std::move(record)));
    const auto redirect = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.resolve_tool_call = [](ToolCall call,
                                       HookContext&) -> Task<std::optional<ToolCall>> {
            ToolCall other = call;
            other.arguments["path"] = "/etc";
            co_return std::optional<ToolCall>(std::move(other));
        };
    };
    Process second(store, faux, effects, {}, redirect);
    std::string asked;
    const RunResult result =
        second.run_with(second.agent->resume(), [&](const HitlRequest& request) {
            asked =
                std::string(std::get<ApproveRequest>(request.payload).args.at("path").as_string());
            second.answer("c1", deny("not this one"));
        });
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(asked, "/etc");
    EXPECT_TRUE(effects.empty());
}

TEST_F(Suspension, D59_HookThatCatchesEverything_DoesNotPreventSuspension) {
    one_call();
    const auto greedy = [](AgentOptions& options, const std::shared_ptr<HitlChannel>& channel) {
        options.before_tool_call =
            [channel](BeforeToolCallContext& call) -> Task<std::optional<BeforeToolCallResult>> {
            Task<ApproveAnswer> asking =
                channel->approve(call.tool_call.name.str(), call.tool_call.id.str(), call.args);
            (void)co_await outcome_of(std::move(asking));
            co_return std::optional<BeforeToolCallResult>();  // "approved", whatever happened
        };
    };
    Process first(store, faux, effects, {}, greedy);
    EXPECT_EQ(first.prompt_and_detach().outcome, RunOutcome::suspended);
    EXPECT_TRUE(effects.empty());
    EXPECT_EQ(stored_requests(), 1u);
}

TEST_F(Suspension, Abort_OverridesASuspension) {
    one_call();
    Process first(store, faux, effects);
    const RunResult result = first.prompt([&](const HitlRequest&) {
        (void)first.agent->detach();
        first.agent->abort();
    });
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(first.events.back(), "agent_end");
    EXPECT_EQ(stored_requests(), 0u);
    EXPECT_TRUE(open_tool_calls(history()).empty());
}

TEST_F(Suspension, D68_AbortWhileWaiting_RemovesTheRequest) {
    one_call();
    Process first(store, faux, effects);
    const RunResult result = first.prompt([&](const HitlRequest&) { first.agent->abort(); });
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(stored_requests(), 0u);
    const std::string notice = "notice:hitl_request_ended";
    EXPECT_NE(std::find(first.events.begin(), first.events.end(), notice), first.events.end());
}

TEST_F(Suspension, AbortPendingWithoutSuspendedRun_EmitsItsEvent) {
    faux.set_responses({"done"});
    Process first(store, faux, effects);
    (void)first.prompt();
    first.events.clear();
    run(first.agent->abort_pending("left"));
    EXPECT_EQ(first.events, Words{"agent_aborted"});
    EXPECT_EQ(history().size(), 2u);
}

TEST_F(Suspension, RunningTools_EndBeforeTheRunIsSuspended) {
    faux.set_responses(
        {calling({faux_tool_call(
             "ask_user",
             {{"questions", JsonArray{JsonObject{{"key", "color"}, {"prompt", "Which?"}}}}},
             "c1")}),
         "done"});
    const auto with_ask = [](AgentOptions& options, const std::shared_ptr<HitlChannel>& channel) {
        options.tools.push_back(ask_user_tool(channel));
    };
    Process first(store, faux, effects, {}, with_ask);
    const RunResult suspended = first.prompt_and_detach();
    ASSERT_EQ(suspended.outcome, RunOutcome::suspended);
    ASSERT_EQ(suspended.pending_requests.size(), 1u);
    Process second(store, faux, effects, {}, with_ask);
    const RunResult result = second.respond("", JsonObject{{"color", "teal"}});
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_NE(history()[2].text().find("teal"), std::string::npos);
    EXPECT_EQ(stored_requests(), 0u);
}

struct NoArgs {};

Task<std::string> confirm_in_body(std::shared_ptr<HitlChannel> channel) {
    const bool sure = co_await channel->confirm("Sure?");
    co_return sure ? std::string("yes") : std::string("no");
}

AgentTool asking_tool() {
    return tool<NoArgs>("asking", "Asks in its body.", [](NoArgs, ToolContext& context) {
        return confirm_in_body(context.channel());
    });
}

TEST_F(Suspension, D69_NonRepeatableTool_CannotAskInItsBody) {
    faux.set_responses({calling({faux_tool_call("asking", JsonObject(), "c1")}), "done"});
    const auto add = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tools.push_back(asking_tool());
    };
    Process first(store, faux, effects, {}, add);
    EXPECT_EQ(first.prompt().outcome, RunOutcome::completed);
    EXPECT_NE(history()[2].text().find("replay_policy"), std::string::npos);
    EXPECT_TRUE(history()[2].tool_result()->is_error);
}

TEST_F(Suspension, D69_IdempotentTool_IsRunAgain) {
    faux.set_responses({calling({faux_tool_call("asking", JsonObject(), "c1")}), "done"});
    const auto add = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tools.push_back(asking_tool().replay(ReplayPolicy::idempotent));
    };
    Process first(store, faux, effects, {}, add);
    ASSERT_EQ(first.prompt_and_detach().outcome, RunOutcome::suspended);
    Process second(store, faux, effects, {}, add);
    EXPECT_EQ(second.respond("", Json(true)).outcome, RunOutcome::completed);
    EXPECT_EQ(history()[2].text(), "yes");
}

TEST_F(Suspension, ToolMissingAfterRestart_GetsAnErrorResult) {
    one_call();
    (void)suspend();
    const auto without = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tools = ToolList();
    };
    Process second(store, faux, effects, {}, without);
    EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
    EXPECT_EQ(history()[2].text(), "Tool rm not found");
    EXPECT_EQ(stored_requests(), 0u);
}

TEST_F(Suspension, D65_ExpiredRequest_IsATimeout) {
    one_call();
    auto clock = std::make_shared<testing::ManualClock>();
    store = std::make_shared<MemoryCheckpointer>(MemoryOptions{.clock = clock});
    const auto short_time = [](AgentOptions& options, const std::shared_ptr<HitlChannel>& channel) {
        ConfirmToolCallOptions confirm;
        confirm.timeout = 60s;
        options.middleware = {ConfirmToolCallMiddleware(channel, std::move(confirm))};
    };
    {
        Process first(store, faux, effects, clock, short_time);
        ASSERT_EQ(first.prompt_and_detach().outcome, RunOutcome::suspended);
    }
    clock->advance(61s);
    {
        Process second(store, faux, effects, clock, short_time);
        EXPECT_EQ(code_of([&] { (void)second.respond("c1", approve()); }), ErrorCode::stale_answer);
        const RunResult result = run(second.agent->resume());
        EXPECT_EQ(result.outcome, RunOutcome::completed);
    }
    EXPECT_TRUE(effects.empty());
    EXPECT_EQ(stored_requests(), 0u);
    const Json details = history()[2].tool_result()->details;
    EXPECT_EQ(details.at("hitl").at("decision"), "timed_out");
}

TEST_F(Suspension, D65_Prompt_StoresTheResultsOfExpiredRequests) {
    one_call();
    auto clock = std::make_shared<testing::ManualClock>();
    const auto short_time = [](AgentOptions& options, const std::shared_ptr<HitlChannel>& channel) {
        ConfirmToolCallOptions confirm;
        confirm.timeout = 60s;
        options.middleware = {ConfirmToolCallMiddleware(channel, std::move(confirm))};
    };
    {
        Process first(store, faux, effects, clock, short_time);
        ASSERT_EQ(first.prompt_and_detach().outcome, RunOutcome::suspended);
    }
    clock->advance(61s);
    faux.set_responses({"fresh"});
    Process second(store, faux, effects, clock, short_time);
    EXPECT_EQ(second.prompt().outcome, RunOutcome::completed);
    EXPECT_EQ(stored_requests(), 0u);
    const Json details = history()[2].tool_result()->details;
    EXPECT_EQ(details.at("hitl").at("decision"), "timed_out");
}

TEST_F(Suspension, D65_ExpiredRequest_IsNotPending) {
    one_call();
    auto clock = std::make_shared<testing::ManualClock>();
    const auto short_time = [](AgentOptions& options, const std::shared_ptr<HitlChannel>& channel) {
        ConfirmToolCallOptions confirm;
        confirm.timeout = 60s;
        options.middleware = {ConfirmToolCallMiddleware(channel, std::move(confirm))};
    };
    Process first(store, faux, effects, clock, short_time);
    ASSERT_EQ(first.prompt_and_detach().outcome, RunOutcome::suspended);
    EXPECT_EQ(run(first.agent->load_pending_hitl_requests()).size(), 1u);
    clock->advance(61s);
    EXPECT_TRUE(run(first.agent->load_pending_hitl_requests()).empty());
}

TEST_F(Suspension, D64_WaitingTime_DoesNotCountTowardRunLimits) {
    one_call();
    auto clock = std::make_shared<testing::ManualClock>();
    const auto limited = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.limits.max_duration = 10s;
    };
    Process first(store, faux, effects, clock, limited);
    const RunResult result = first.prompt([&](const HitlRequest&) {
        clock->advance(1h);
        first.answer("c1", approve());
    });
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(effects, Words{"/a"});
}

TEST_F(Suspension, ListenerThrowsAtRequest_EndsTheRun) {
    one_call();
    Process first(store, faux, effects);
    (void)first.agent->subscribe([](const AgentEvent& event) {
        if (event.type() == AgentEventType::hitl_request) throw std::runtime_error("broken view");
    });
    EXPECT_THROW((void)first.prompt(), std::runtime_error);
    EXPECT_TRUE(effects.empty());
    EXPECT_EQ(stored_requests(), 0u);
    EXPECT_TRUE(open_tool_calls(history()).empty());
}

TEST_F(Suspension, RequestInFlight_IsVisible) {
    one_call();
    Process first(store, faux, effects);
    Words in_flight;
    (void)first.prompt([&](const HitlRequest&) {
        in_flight = ids_of(first.agent->in_flight_hitl_requests());
        (void)first.agent->detach();
    });
    EXPECT_EQ(in_flight, Words{"c1"});
    EXPECT_TRUE(first.agent->in_flight_hitl_requests().empty());
    EXPECT_EQ(ids_of(run(first.agent->load_pending_hitl_requests())), Words{"c1"});
}

TEST_F(Suspension, Response_IsPulledAsEvents) {
    one_call();
    (void)suspend();
    Process second(store, faux, effects);
    struct Pull {
        static Task<Words> all(Agent& agent) {
            AgentRun pulled = agent.start_response("c1", approve());
            Words types;
            while (true) {
                const std::optional<AgentEvent> event = co_await pulled.next();
                if (!event) break;
                types.emplace_back(to_string(event->type()));
            }
            co_return types;
        }
    };
    const Words types = run(Pull::all(*second.agent));
    EXPECT_EQ(types.front(), "agent_start");
    EXPECT_EQ(types.back(), "agent_end");
    EXPECT_EQ(effects, Words{"/a"});
}

TEST_F(Suspension, RequestAfterResume_EqualsTheOneWithoutPause) {
    const auto request_after = [this](bool pause) {
        store = std::make_shared<MemoryCheckpointer>();
        ModelRequest seen;
        faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}),
                            FauxStep([&seen](const ModelRequest& request) {
                                seen = request;
                                return faux_assistant_message("done");
                            })});
        if (pause) {
            (void)suspend(2);
            Process second(store, faux, effects);
            (void)second.respond("c2", approve());
            Process third(store, faux, effects);
            (void)third.respond("c1", approve());
        } else {
            Process only(store, faux, effects);
            (void)only.prompt(
                [&](const HitlRequest& one) { only.answer(one.question_id, approve()); });
        }
        std::string text = seen.system_prompt.str();
        for (const Message& message : seen.messages) text += "|" + message.text();
        return text;
    };
    const std::string without = request_after(false);
    EXPECT_EQ(request_after(true), without);
    EXPECT_EQ(without, "|hi||removed /a|removed /b");
}

/// Answers a batch of gated calls in random order, partly before and partly after restarts.
TEST_F(Suspension, D62_RandomAnswerOrders_CauseEachEffectOnce) {
    constexpr int calls = 8;
    for (unsigned seed = 0; seed < 1000; seed += test_step) {
        std::mt19937 random(seed);
        store = std::make_shared<MemoryCheckpointer>();
        effects.clear();
        std::vector<ToolCall> batch;
        Words expected;
        for (int i = 0; i < calls; ++i) {
            batch.push_back(rm_call("/" + std::to_string(i), "c" + std::to_string(i)));
            expected.push_back("/" + std::to_string(i));
        }
        faux.set_responses({calling(std::move(batch)), "done"});
        std::vector<int> order;
        for (int i = 0; i < calls; ++i) order.push_back(i);
        std::shuffle(order.begin(), order.end(), random);
        const std::size_t before = random() % calls;
        std::size_t next = 0;
        {
            Process first(store, faux, effects);
            const RunResult suspended = first.prompt([&](const HitlRequest& request) {
                if (request.question_id != "c7") return;
                for (; next < before; ++next)
                    first.answer("c" + std::to_string(order[next]), approve());
                (void)first.agent->detach();
            });
            ASSERT_EQ(suspended.outcome, RunOutcome::suspended) << "seed " << seed;
        }
        EXPECT_TRUE(effects.empty());
        RunResult result;
        while (next < order.size()) {
            Process other(store, faux, effects);
            do {
                result = other.respond("c" + std::to_string(order[next++]), approve());
            } while (next < order.size() && random() % 2 == 0);
        }
        ASSERT_EQ(result.outcome, RunOutcome::completed) << "seed " << seed;
        ASSERT_EQ(effects, expected) << "seed " << seed;
        ASSERT_EQ(stored_requests(), 0u);
    }
}

}  // namespace
}  // namespace cubepi
