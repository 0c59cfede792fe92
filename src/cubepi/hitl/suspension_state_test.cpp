// A suspended run: the state that it saves besides its messages and requests, failures, and runs that answer with a value.

#include <cubepi/hitl/suspension_test_support.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/transcript.hpp>

namespace cubepi {
namespace {

using namespace hitl_test;
using namespace std::chrono_literals;

using Words = std::vector<std::string>;

struct SuspensionState : ::testing::Test {
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    Words effects;

    using Change = std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)>;

    void suspend(Change change = {}, int nth = 1) {
        Process first(store, faux, effects, {}, std::move(change));
        ASSERT_EQ(first.prompt_and_detach(nth).outcome, RunOutcome::suspended);
    }
    /// Answers c1 in another process. Returns the blocks of its notices about the prompt's prefix.
    Words breaks_after_answer(Change change) {
        Process second(store, faux, effects, {}, std::move(change));
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
        Words blocks;
        for (const Notice& notice : second.notices) {
            if (notice.code == "cache_prefix_break")
                blocks.emplace_back(notice.details.at("block").as_string());
        }
        return blocks;
    }
    CheckpointData thread() { return *run(store->load("t")); }
};

AnswerOrigin origin(std::string user, std::string channel) {
    AnswerOrigin made;
    made.user = std::move(user);
    made.channel = std::move(channel);
    return made;
}

Json trace_of(const Message& result) { return result.tool_result()->details.at("hitl"); }

void with_prompt(AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
    options.system_prompt = "Be brief.";
}

TEST_F(SuspensionState, D56_SamePromptInAnotherProcess_KeepsThePrefix) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend(with_prompt);
    EXPECT_EQ(breaks_after_answer(with_prompt), Words());
}

TEST_F(SuspensionState, D56_ChangedSystemPromptInAnotherProcess_IsReported) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend(with_prompt);
    EXPECT_EQ(breaks_after_answer({}), Words{"system_prompt"});
}

TEST_F(SuspensionState, D56_ChangedToolListInAnotherProcess_IsReported) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend();
    const auto more_tools = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tools.push_back(tool<PathArgs>("ls", "Lists.", [](PathArgs) { return ""; }));
    };
    EXPECT_EQ(breaks_after_answer(more_tools), Words{"tools/1"});
}

TEST_F(SuspensionState, D56_ChangedHistoryInAnotherProcess_IsReported) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend();
    const auto rewrite = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.transform_context = [](MessageList messages, HookContext&) -> Task<MessageList> {
            MessageList changed;
            changed.push_back(user_message("another prompt"));
            for (std::size_t i = 1; i < messages.size(); ++i) changed.push_back(messages[i]);
            co_return changed;
        };
    };
    EXPECT_EQ(breaks_after_answer(rewrite), Words{"messages"});
}

void inject_a_note(AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
    options.after_model_response = [](AssistantMessage answer,
                                      HookContext&) -> Task<std::optional<TurnAction>> {
        std::optional<TurnAction> action;
        if (answer.has_tool_calls()) {
            action.emplace();
            action->inject_messages.push_back(user_message("note"));
        }
        co_return action;
    };
}

TEST_F(SuspensionState, D59_InjectedMessages_AreAddedWhenTheTurnContinues) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend(inject_a_note);
    EXPECT_EQ(thread().extra.size(), 1u);
    EXPECT_EQ(breaks_after_answer(inject_a_note), Words());
    EXPECT_EQ(texts_of(thread().messages), (Words{"hi", "", "removed /a", "note", "done"}));
    EXPECT_TRUE(thread().extra.empty());
}

TEST_F(SuspensionState, D59_InjectedMessages_SurviveASecondSuspension) {
    faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), "done"});
    suspend(inject_a_note, 2);
    {
        Process second(store, faux, effects, {}, inject_a_note);
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::suspended);
        const RunResult again = second.run_with(
            second.agent->resume(), [&](const HitlRequest&) { (void)second.agent->detach(); });
        EXPECT_EQ(again.outcome, RunOutcome::suspended);
    }
    Process third(store, faux, effects, {}, inject_a_note);
    EXPECT_EQ(third.respond("c2", approve()).outcome, RunOutcome::completed);
    EXPECT_EQ(texts_of(thread().messages),
              (Words{"hi", "", "removed /a", "removed /b", "note", "done"}));
}

/// Detaches the run at its first question.
RunResult until_question(Process& process, Task<RunResult> task) {
    return process.run_with(std::move(task),
                            [&](const HitlRequest&) { (void)process.agent->detach(); });
}

TEST_F(SuspensionState, D166_MaxTurns_CountsCallsBeforeTheSuspension) {
    faux.set_responses({calling({rm_call("/a", "c1")}), calling({rm_call("/b", "c2")}),
                        calling({rm_call("/c", "c3")}), "done"});
    const auto three_turns = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.limits.max_turns = 3;
    };
    suspend(three_turns);
    for (const std::string id : {"c1", "c2"}) {
        Process next(store, faux, effects, {}, three_turns);
        const RunResult waiting = until_question(next, next.agent->respond(id, approve()));
        EXPECT_EQ(waiting.outcome, RunOutcome::suspended);
    }
    Process last(store, faux, effects, {}, three_turns);
    EXPECT_EQ(last.respond("c3", approve()).outcome, RunOutcome::limited);
    EXPECT_EQ(faux.call_count(), 3u);
    EXPECT_EQ(effects, (Words{"/a", "/b", "/c"}));
    EXPECT_TRUE(is_legal_transcript(thread().messages));
    // The next prompt has limits of its own.
    EXPECT_EQ(last.prompt().outcome, RunOutcome::completed);
}

TEST_F(SuspensionState, D166_MaxSpend_CountsTheCostBeforeTheSuspension) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "never sent"});
    double limit = 0;  // none
    const auto priced = [&limit](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        Model model = options.model.spec();
        model.cost.emplace();
        model.cost->input = 1.0;
        model.cost->output = 1.0;
        model.cost->cache_read = 1.0;
        model.cost->cache_write = 1.0;
        options.model = BoundModel(options.model.provider(), std::move(model));
        options.limits.max_spend = limit;
    };
    {
        Process first(store, faux, effects, {}, priced);
        const RunResult waiting = first.prompt_and_detach();
        ASSERT_EQ(waiting.outcome, RunOutcome::suspended);
        ASSERT_TRUE(waiting.cost);
        limit = *waiting.cost;
        ASSERT_GT(limit, 0.0);
    }
    Process second(store, faux, effects, {}, priced);
    const RunResult end = second.respond("c1", approve());
    EXPECT_EQ(end.outcome, RunOutcome::limited);
    EXPECT_EQ(end.cost, 0.0) << "a result is about its own attempt, so that sums are right";
    EXPECT_EQ(effects, Words{"/a"});
    EXPECT_EQ(faux.call_count(), 1u);
}

/// Each call costs 0.4 USD, and the answers nothing.
void charge_calls(AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
    Model model = options.model.spec();
    ModelCost& cost = model.cost.emplace();
    cost.input = cost.output = cost.cache_read = cost.cache_write = 0.0;
    options.model = BoundModel(options.model.provider(), std::move(model));
    options.limits.max_spend = 0.7;
    options.tools = {tool<PathArgs>("rm", "Removes.", [](PathArgs args, ToolContext& context) {
        context.charge(Usage(), 0.4);
        return "removed " + args.path;
    })};
}

TEST_F(SuspensionState, D222_ChargesAfterAnAnswer_CountAfterKills) {
    for (const bool is_killed : {false, true}) {
        store = std::make_shared<MemoryCheckpointer>();
        faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), "never sent"});
        const std::size_t calls = faux.call_count();
        suspend(charge_calls, 2);
        const JsonObject before = thread().extra;
        {
            Process second(store, faux, effects, {}, charge_calls);
            EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::suspended);
        }
        // Killed before it has stored that the other call waits again.
        if (is_killed) run(store->save_extra("t", before));
        Process third(store, faux, effects, {}, charge_calls);
        EXPECT_EQ(third.respond("c2", approve()).outcome, RunOutcome::limited) << is_killed;
        EXPECT_EQ(faux.call_count(), calls + 1);
    }
}

TEST_F(SuspensionState, D222_RepeatedCalls_CountFromTheLastBegin) {
    const auto ls = [](const char* id) {
        return calling({faux_tool_call("ls", {{"path", "/"}}, id)});
    };
    faux.set_responses({ls("l1"), ls("l2"), ls("l3"), ls("l4"), calling({rm_call("/a", "c1")}),
                        ls("l5"), calling({rm_call("/b", "c2")}), "done"});
    const auto listing = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.limits.max_repeated_calls = 3;
        options.tools.push_back(tool<PathArgs>("ls", "Lists.", [](PathArgs) { return "a"; }));
    };
    {
        Process first(store, faux, effects, {}, listing);
        EXPECT_EQ(first.prompt().outcome, RunOutcome::limited);
    }
    {
        // It begins again.
        Process second(store, faux, effects, {}, listing);
        EXPECT_EQ(until_question(second, second.agent->resume()).outcome, RunOutcome::suspended);
    }
    {
        Process third(store, faux, effects, {}, listing);
        const RunResult waiting = until_question(third, third.agent->respond("c1", approve()));
        EXPECT_EQ(waiting.outcome, RunOutcome::suspended);
    }
    Process last(store, faux, effects, {}, listing);
    EXPECT_EQ(last.respond("c2", approve()).outcome, RunOutcome::completed);
}

TEST_F(SuspensionState, D166_DamagedSpending_DoesNotStopTheRun) {
    for (const Json& turns : {Json(), Json(1.5), Json("x"), Json(-7), Json(1)}) {
        faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
        store = std::make_shared<MemoryCheckpointer>();
        suspend();
        JsonObject turn = thread().extra.at("cubepi.suspended_turn").as_object();
        turn["turns"] = turns;
        turn["cost"] = "much";
        run(store->save_extra("t", JsonObject{{"cubepi.suspended_turn", turn}}));
        Process second(store, faux, effects);
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
    }
}

TEST_F(SuspensionState, D60_AbandonedTurn_LeavesNoState) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "fresh"});
    suspend(inject_a_note);
    Process second(store, faux, effects);
    run(second.agent->abort_pending("left"));
    EXPECT_TRUE(thread().extra.empty());
    EXPECT_EQ(second.prompt().outcome, RunOutcome::completed);
    EXPECT_EQ(thread().messages.size(), 6u);  // without the note
}

TEST_F(SuspensionState, D60_RequestOfHiddenCall_IsNotPending) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "fresh"});
    suspend();
    AppendOptions options;
    (void)run(store->append("t", {user_message("behind the call")}, std::move(options)));
    Process second(store, faux, effects);
    EXPECT_TRUE(run(second.agent->load_pending_hitl_requests()).empty());
    EXPECT_EQ(run(store->load_pending_requests("t")).size(), 1u);
    run(second.agent->abort_pending("left"));
    EXPECT_TRUE(run(store->load_pending_requests("t")).empty());
    EXPECT_EQ(second.prompt().outcome, RunOutcome::completed);
}

TEST_F(SuspensionState, D59_AnswerInTheSameProcess_LeavesNoState) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    Process only(store, faux, effects, {}, inject_a_note);
    (void)only.prompt([&](const HitlRequest&) { only.answer("c1", approve()); });
    EXPECT_EQ(texts_of(thread().messages), (Words{"hi", "", "removed /a", "note", "done"}));
    EXPECT_TRUE(thread().extra.empty());
}

TEST_F(SuspensionState, D54_Result_NamesWhoAnswered) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    Process only(store, faux, effects);
    (void)only.prompt(
        [&](const HitlRequest&) { only.answer("c1", approve(), origin("ann", "terminal")); });
    EXPECT_EQ(trace_of(thread().messages[2]),
              Json({{"decision", "human_approve"}, {"user", "ann"}, {"channel", "terminal"}}));
}

TEST_F(SuspensionState, D54_AnswerBeforeRestart_IsNamedInTheResult) {
    faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), "done"});
    suspend({}, 2);
    Process second(store, faux, effects);
    Task<RunResult> first_answer =
        second.agent->respond("c2", deny("no"), origin("bob", "telegram:42"));
    EXPECT_EQ(run(std::move(first_answer)).outcome, RunOutcome::suspended);
    Process third(store, faux, effects);
    Task<RunResult> second_answer = third.agent->respond("c1", approve(), origin("ann", ""));
    EXPECT_EQ(run(std::move(second_answer)).outcome, RunOutcome::completed);
    EXPECT_EQ(trace_of(thread().messages[2]),
              Json({{"decision", "human_approve"}, {"user", "ann"}}));
    EXPECT_EQ(trace_of(thread().messages[3]), Json({{"decision", "human_deny"},
                                                    {"reason", "no"},
                                                    {"user", "bob"},
                                                    {"channel", "telegram:42"}}));
}

// Faults while a run waits for the user, or before it continues. Each has a defined outcome and leaves a history that
// the next prompt can use.

using Words = std::vector<std::string>;

struct SuspensionFaults : ::testing::Test {
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<MemoryCheckpointer> store =
        std::make_shared<MemoryCheckpointer>(MemoryOptions{.clock = clock});
    FauxProvider faux;
    Words effects;

    SuspensionFaults() { faux.set_responses({calling({rm_call("/a", "c1")}), "done"}); }

    RunResult suspend(
        std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> change = {}) {
        Process first(store, faux, effects, clock, std::move(change));
        return first.prompt_and_detach();
    }
    MessageList history() { return run(store->load("t"))->messages; }
    std::size_t stored_requests() { return run(store->load_pending_requests("t")).size(); }
    /// The thread has no open call and takes another prompt.
    void expect_usable() {
        EXPECT_EQ(stored_requests(), 0u);
        EXPECT_TRUE(open_tool_calls(history()).empty());
        faux.set_responses({"fresh"});
        Process next(store, faux, effects, clock);
        EXPECT_EQ(next.prompt().outcome, RunOutcome::completed);
        EXPECT_EQ(history().back().text(), "fresh");
    }
    ErrorCode code_of(const std::function<void()>& call) {
        try {
            call();
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::unknown;
    }
};

void with_timeout_of_a_minute(AgentOptions& options, const std::shared_ptr<HitlChannel>& channel) {
    ConfirmToolCallOptions confirm;
    confirm.timeout = 60s;
    options.middleware = {ConfirmToolCallMiddleware(channel, std::move(confirm))};
}

TEST_F(SuspensionFaults, AnswerDuringAbort_HasNoEffect) {
    {
        Process first(store, faux, effects, clock);
        const RunResult result = first.prompt([&](const HitlRequest&) {
            first.agent->abort();
            first.answer("c1", approve());
        });
        EXPECT_EQ(result.outcome, RunOutcome::aborted);
        EXPECT_EQ(first.events.back(), "agent_end");
    }
    EXPECT_TRUE(effects.empty());
    expect_usable();
}

TEST_F(SuspensionFaults, AbortAfterAcceptedAnswer_RunsNoTool) {
    {
        Process first(store, faux, effects, clock);
        const RunResult result = first.prompt([&](const HitlRequest&) {
            first.answer("c1", approve());
            first.agent->abort();
        });
        EXPECT_EQ(result.outcome, RunOutcome::aborted);
    }
    EXPECT_TRUE(effects.empty());
    expect_usable();
}

struct TargetArgs {
    std::string target;
};

TEST_F(SuspensionFaults, ToolSchemaChangedAfterRestart_ReturnsErrorResult) {
    (void)suspend();
    const auto changed = [this](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tools = {tool<TargetArgs>("rm", "Removes a file.", [this](TargetArgs args) {
            effects.push_back(args.target);
            return "removed";
        })};
    };
    {
        Process second(store, faux, effects, clock, changed);
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
    }
    EXPECT_TRUE(effects.empty());
    EXPECT_TRUE(history()[2].tool_result()->is_error);
    EXPECT_NE(history()[2].text().find("target"), std::string::npos) << history()[2].text();
    expect_usable();
}

/// Fails when it is asked.
class BrokenChannel final : public HitlChannel {
public:
    Task<Json> request(HitlPayload, HitlOptions) override {
        throw std::runtime_error("the display is gone");
    }
    std::vector<HitlRequest> pending() const override { return {}; }
    HitlRequestStream subscribe() override { return feed_.subscribe(); }
    Task<> answer(std::string, Json, AnswerOrigin) override { co_return; }
    Task<> cancel(std::string, std::string) override { co_return; }

private:
    HitlRequestFeed feed_;
};

TEST_F(SuspensionFaults, ThrowingChannel_RefusesTheCall) {
    const auto broken = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        const auto channel = std::make_shared<BrokenChannel>();
        options.channel = channel;
        options.middleware = {ConfirmToolCallMiddleware(channel, ConfirmToolCallOptions())};
    };
    {
        Process first(store, faux, effects, clock, broken);
        EXPECT_EQ(first.prompt().outcome, RunOutcome::completed);
    }
    EXPECT_TRUE(effects.empty());
    EXPECT_EQ(history()[2].text(), "the display is gone");
    expect_usable();
}

TEST_F(SuspensionFaults, D65_ClockSetBack_ExpiresNoRequest) {
    ASSERT_EQ(suspend(with_timeout_of_a_minute).outcome, RunOutcome::suspended);
    clock->set_wall(clock->wall() - 24h);
    {
        Process second(store, faux, effects, clock, with_timeout_of_a_minute);
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
    }
    EXPECT_EQ(effects, Words{"/a"});
    expect_usable();
}

TEST_F(SuspensionFaults, D65_ClockJumpingAhead_ExpiresTheWaitingRequest) {
    {
        Process first(store, faux, effects, clock, with_timeout_of_a_minute);
        const RunResult result = first.prompt([&](const HitlRequest&) { clock->advance(24h); });
        EXPECT_EQ(result.outcome, RunOutcome::completed);
    }
    EXPECT_TRUE(effects.empty());
    EXPECT_EQ(history()[2].tool_result()->details.at("hitl").at("decision"), "timed_out");
    expect_usable();
}

TEST_F(SuspensionFaults, LateAnswerToClosedRun_IsRefused) {
    (void)suspend();
    {
        Process second(store, faux, effects, clock);
        run(second.agent->abort_pending("too late"));
        EXPECT_EQ(code_of([&] { (void)second.respond("c1", approve()); }), ErrorCode::stale_answer);
    }
    EXPECT_TRUE(effects.empty());
    expect_usable();
}

TEST_F(SuspensionFaults, D62_ForgedAnswerOfAnotherRun_IsRefused) {
    const RunResult suspended = suspend();
    AnswerRecord forged;
    forged.run_id = "another run";
    forged.question_id = "c1";
    forged.answer = approve();
    EXPECT_EQ(code_of([&] { run(store->answer_request("t", std::move(forged))); }),
              ErrorCode::stale_answer);
    EXPECT_EQ(stored_requests(), 1u);
    // An answer that was stored without the checks is dropped, and the question is asked again (D17).
    HitlAnswer written;
    written.run_id = suspended.run_id;
    written.question_id = "c1";
    written.answer = "yes";
    run(store->save_hitl_answer("t", std::move(written)));
    {
        Process second(store, faux, effects, clock);
        bool asked = false;
        const RunResult result = second.run_with(second.agent->resume(), [&](const HitlRequest&) {
            asked = true;
            second.answer("c1", deny("not this one"));
        });
        EXPECT_EQ(result.outcome, RunOutcome::completed);
        EXPECT_TRUE(asked);
    }
    EXPECT_TRUE(effects.empty());
    expect_usable();
}

struct Cleanup {
    int files;
};

Task<RunResult> untyped(Task<TypedResult<Cleanup>> task) {
    RunResult result = co_await std::move(task);
    co_return result;
}

AssistantMessage answer(int files) {
    return calling({faux_tool_call("structured_output", {{"files", files}}, "a1")});
}

/// Runs prompt<Cleanup>() in a process that ends while its first call waits for the user.
RunResult suspend(std::shared_ptr<Checkpointer> store, FauxProvider& faux,
                  std::vector<std::string>& effects) {
    Process process(std::move(store), faux, effects);
    return process.run_with(untyped(process.agent->prompt<Cleanup>("hi")),
                            [&](const HitlRequest&) { (void)process.agent->detach(); });
}

TEST(TypedAnswerSuspension, D80_SuspendedRun_ContinuesToItsValue) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    std::vector<std::string> effects;
    faux.set_responses({calling({rm_call("/a", "c1")}), answer(1)});
    EXPECT_EQ(suspend(store, faux, effects).outcome, RunOutcome::suspended);
    Process second(store, faux, effects);
    const TypedResult<Cleanup> result = run(second.agent->respond<Cleanup>("c1", approve()));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->files, 1);
    EXPECT_EQ(effects, std::vector<std::string>{"/a"});
    EXPECT_TRUE(is_legal_transcript(run(store->load("t"))->messages));
}

TEST(TypedAnswerSuspension, D80_ValueBeforeTheQuestion_IsTheAnswer) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    std::vector<std::string> effects;
    const auto one_by_one = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tool_execution = ExecutionMode::sequential;
    };
    faux.set_responses({calling(
        {faux_tool_call("structured_output", {{"files", 1}}, "a1"), rm_call("/a", "c1")})});
    {
        Process process(store, faux, effects, {}, one_by_one);
        const RunResult first =
            process.run_with(untyped(process.agent->prompt<Cleanup>("hi")),
                             [&](const HitlRequest&) { (void)process.agent->detach(); });
        EXPECT_EQ(first.outcome, RunOutcome::suspended);
    }
    Process second(store, faux, effects, {}, one_by_one);
    const TypedResult<Cleanup> result = run(second.agent->respond<Cleanup>("c1", approve()));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->files, 1);
    EXPECT_EQ(effects, std::vector<std::string>{"/a"});
    EXPECT_EQ(faux.call_count(), 1u) << "the model is not called again";
}

TEST(TypedAnswerSuspension, D80_AnswersOneByOne_SuspendUntilTheLast) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    std::vector<std::string> effects;
    faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), answer(1)});
    {
        Process process(store, faux, effects);
        int asked = 0;
        const RunResult first = process.run_with(untyped(process.agent->prompt<Cleanup>("hi")),
                                                 [&](const HitlRequest&) {
                                                     if (++asked == 2)
                                                         (void)process.agent->detach();
                                                 });
        EXPECT_EQ(first.pending_requests.size(), 2u);
    }
    Process second(store, faux, effects);
    const TypedResult<Cleanup> waiting = run(second.agent->respond<Cleanup>("c1", approve()));
    EXPECT_EQ(waiting.outcome, RunOutcome::suspended);
    EXPECT_FALSE(waiting.value);
    const TypedResult<Cleanup> result = run(second.agent->respond<Cleanup>("c2", deny("no")));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->files, 1);
    EXPECT_EQ(effects, std::vector<std::string>{"/a"});
}

TEST(TypedAnswerSuspension, D166_PriorSpendingOfAnswer_CountsTowardLimits) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    std::vector<std::string> effects;
    faux.set_responses({calling({rm_call("/a", "c1")}), answer(1)});
    const auto three_turns = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.limits.max_turns = 3;
    };
    Process process(store, faux, effects, {}, three_turns);
    const RunResult first =
        process.run_with(untyped(process.agent->prompt<Cleanup>("hi")),
                         [&](const HitlRequest&) { (void)process.agent->detach(); });
    EXPECT_EQ(first.outcome, RunOutcome::suspended);
    PriorSpending before;
    before.turns = 2;
    Task<TypedResult<Cleanup>> answering = process.agent->respond<Cleanup>(
        "c1", approve(), {}, PromptOptions().prior_spending(before));
    EXPECT_EQ(run(std::move(answering)).outcome, RunOutcome::limited);
    EXPECT_EQ(faux.call_count(), 1u);
}

}  // namespace
}  // namespace cubepi
