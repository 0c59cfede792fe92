// The history in memory and in the store: D1, D2, D3, D5, D19, D20, D34, D35, D37, D41, D42, D46, D49, D50, D87.

#include <cubepi/agent/agent_test_support.hpp>

#include <string>

#include <gtest/gtest.h>

#include <cubepi/provider/answer_end.hpp>

namespace cubepi {
namespace {

using ::testing::Test;
using namespace agent_test;

MessageList crashed_thread() {
    AssistantMessage caller = calling({echo_call("a")});
    caller.run_id = "old";
    MessageList thread;
    UserMessage start;
    start.content.emplace_back(TextContent{"start"});
    start.run_id = "old";
    thread.push_back(std::move(start));
    thread.push_back(std::move(caller));
    return thread;
}

TEST(History, D1_ThreadCutInTool_StoresAndAnnouncesResult) {
    auto store = std::make_shared<MemoryCheckpointer>();
    preload(*store, "t", crashed_thread());
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("fine")});
    Agent agent(
        {.model = faux.model(), .tools = {echo_tool()}, .checkpointer = store, .thread_id = "t"});
    Recorder recorder(agent);

    const RunResult result = run(agent.prompt("continue"));

    EXPECT_TRUE(result);
    const MessageList thread = stored(*store, "t");
    ASSERT_EQ(thread.size(), 5u);
    const ToolResultMessage* made_up = thread[2].tool_result();
    ASSERT_TRUE(made_up);
    EXPECT_TRUE(made_up->is_error);
    EXPECT_NE(thread[2].text().find("unknown"), std::string::npos);
    EXPECT_TRUE(is_legal_transcript(requests.seen.at(0).messages));
    EXPECT_TRUE(agent.state().messages == thread);
}

TEST(History, D37_SyntheticResult_KeepsRunIdWithoutToolEvents) {
    auto store = std::make_shared<MemoryCheckpointer>();
    preload(*store, "t", crashed_thread());
    FauxProvider faux;
    faux.set_responses({"fine"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    Recorder recorder(agent);

    run(agent.prompt("continue"));

    EXPECT_EQ(stored(*store, "t")[2].run_id(), "old");
    EXPECT_EQ(recorder.count(AgentEventType::tool_execution_start), 0u);
    const std::vector<std::string> words = recorder.words();
    ASSERT_GE(words.size(), 5u);
    EXPECT_EQ(words[2], "message_start:tool_result");
    EXPECT_EQ(words[3], "message_end:tool_result");
    EXPECT_EQ(words[4], "message_start:user");
}

TEST(History, D1_DeepDefect_IsRepairedInRequestAndReported) {
    auto store = std::make_shared<MemoryCheckpointer>();
    MessageList thread = crashed_thread();
    thread.push_back(user_message("later"));
    thread.push_back(faux_assistant_message("answer"));
    preload(*store, "t", thread);
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("fine")});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    Recorder recorder(agent);

    run(agent.prompt("continue"));

    EXPECT_TRUE(is_legal_transcript(requests.seen.at(0).messages));
    EXPECT_EQ(stored(*store, "t").size(), thread.size() + 2);
    EXPECT_EQ(recorder.notices(), std::vector<std::string>{"repair"});
}

TEST(History, D1_MessageBeforeResult_IsMovedInRequestOnly) {
    auto store = std::make_shared<MemoryCheckpointer>();
    MessageList thread = crashed_thread();
    thread.push_back(user_message("between"));
    ToolResultMessage result;
    result.tool_call_id = "c1";
    result.tool_name = "echo";
    result.content.emplace_back(TextContent{"the result"});
    thread.push_back(std::move(result));
    preload(*store, "t", thread);
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer(calling({echo_call("a", "c2")})), requests.answer("fine"),
                        requests.answer("fine")});
    Agent agent(
        {.model = faux.model(), .tools = {echo_tool()}, .checkpointer = store, .thread_id = "t"});
    Recorder recorder(agent);

    EXPECT_TRUE(run(agent.prompt("continue")));
    EXPECT_TRUE(run(agent.prompt("again")));

    ASSERT_EQ(requests.seen.size(), 3u);
    for (const ModelRequest& request : requests.seen) {
        EXPECT_TRUE(is_legal_transcript(request.messages));
        EXPECT_EQ(request.messages[2].text(), "the result");
        EXPECT_EQ(request.messages[3].text(), "between");
    }
    const MessageList log = stored(*store, "t");
    EXPECT_EQ(log[2].text(), "between");
    EXPECT_EQ(log[3].text(), "the result");
    EXPECT_TRUE(agent.state().messages == log);
    EXPECT_EQ(recorder.notices(), std::vector<std::string>{"repair"});
}

TEST(History, D2_Resume_RepairsAndRunsTheStoredThread) {
    auto store = std::make_shared<MemoryCheckpointer>();
    preload(*store, "t", crashed_thread());
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("fine")});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});

    const RunResult result = run(agent.resume());

    EXPECT_EQ(result.text(), "fine");
    EXPECT_TRUE(is_legal_transcript(requests.seen.at(0).messages));
}

TEST(History, D2_ResumeOfEmptyOrFinishedThread_Fails) {
    FauxProvider faux;
    Agent empty({.model = faux.model()});
    EXPECT_THROW(run(empty.resume()), Error);
    Agent finished(
        {.model = faux.model(), .messages = {user_message("hi"), faux_assistant_message("ok")}});
    try {
        run(finished.resume());
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::cannot_continue);
    }
    finished.steer("more");
    faux.set_responses({"yes"});
    EXPECT_EQ(run(finished.resume()).text(), "yes");
}

TEST(History, D3_CallsOfTruncatedAnswer_AreNotExecuted) {
    FauxProvider faux;
    int ran = 0;
    auto counting = tool<EchoArgs>("echo", "Counts.", [&](EchoArgs) {
        ++ran;
        return std::string("ran");
    });
    faux.set_responses({calling({echo_call("a")}, stop_reason::length), "done"});
    Agent agent({.model = faux.model(), .tools = {counting}});

    const RunResult result = run(agent.prompt("hi"));

    EXPECT_EQ(ran, 0);
    ASSERT_EQ(result.new_messages.size(), 4u);
    EXPECT_TRUE(result.new_messages[2].tool_result()->is_error);
    EXPECT_NE(result.new_messages[2].text().find("cut off"), std::string::npos);
}

/// Runs one call of an answer that ends with the stop reason; counts how often its tool is executed.
RunResult run_call_that_ends(const std::string& reason, int& ran) {
    FauxProvider faux;
    auto counting = tool<EchoArgs>("echo", "Counts.", [&](EchoArgs) {
        ++ran;
        return std::string("ran");
    });
    faux.set_responses({calling({echo_call("a")}, reason), "done"});
    Agent agent({.model = faux.model(), .tools = {counting}});
    return run(agent.prompt("hi"));
}

TEST(History, D3_D87_CallsOfIncompleteAnswer_AreNotExecuted) {
    for (const char* reason : {"abort", "server_error", "network_error", "new_reason", "incomplete",
                               "MALFORMED_FUNCTION_CALL", "model_context_window_exceeded"}) {
        int ran = 0;
        const RunResult result = run_call_that_ends(reason, ran);
        EXPECT_EQ(ran, 0) << reason;
        ASSERT_EQ(result.new_messages.size(), 4u) << reason;
        const std::string text = result.new_messages[2].text();
        EXPECT_TRUE(result.new_messages[2].tool_result()->is_error) << reason;
        EXPECT_NE(text.find("is incomplete"), std::string::npos) << text;
        EXPECT_NE(text.find("'" + std::string(reason) + "'). The call was not executed. Make it"),
                  std::string::npos)
            << text;
        EXPECT_EQ(result.text(), "done");
    }
}

TEST(History, D3_D87_SecondIncompleteAnswer_EndsTheRun) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}, "new_reason"),
                        calling({echo_call("b")}, "new_reason"), "never"});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    const RunResult result = run(agent.prompt("hi"));
    ASSERT_EQ(result.new_messages.size(), 5u);
    EXPECT_NE(result.new_messages[2].text().find("Make it again"), std::string::npos);
    EXPECT_EQ(result.new_messages[4].text().find("Make it again"), std::string::npos);
}

TEST(History, D3_D87_RefusalWithCalls_EndsTheRun) {
    for (const char* reason : {"refusal", "content_filter", "SAFETY"}) {
        int ran = 0;
        const RunResult result = run_call_that_ends(reason, ran);
        EXPECT_EQ(ran, 0) << reason;
        EXPECT_TRUE(result);
        ASSERT_EQ(result.new_messages.size(), 3u) << reason;
        EXPECT_EQ(answer_end(*result.new_messages[1].assistant()), AnswerEnd::refused) << reason;
        EXPECT_TRUE(result.new_messages[2].tool_result()->is_error) << reason;
    }
}

TEST(History, D87_WordsForCompleteAnswers_ExecuteTheirCalls) {
    for (const char* reason : {"tool_use", "tool_calls", "tools", "function_calls", "function_call",
                               "stop", "STOP", "eos", "end_turn", "COMPLETE", "completed"}) {
        int ran = 0;
        EXPECT_EQ(run_call_that_ends(reason, ran).text(), "done") << reason;
        EXPECT_EQ(ran, 1) << reason;
    }
}

TEST(History, D5_Terminate_LeavesQueuedMessagesToNextRun) {
    FauxProvider faux;
    Requests requests;
    auto last = tool<EchoArgs>("echo", "Ends.", [](EchoArgs) {
        AgentToolResult result("bye");
        result.terminate = true;
        return result;
    });
    faux.set_responses({requests.answer(calling({echo_call("a")})), requests.answer("second")});
    Agent agent({.model = faux.model(), .tools = {last}});
    agent.follow_up("later");

    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(requests.seen.size(), 1u);
    faux.append_responses({requests.answer("third")});
    run(agent.prompt("next"));

    EXPECT_EQ(requests.seen.size(), 3u);
    EXPECT_EQ(requests.seen.back().messages.back().text(), "later");
}

TEST(History, D19_FailedRun_SavesExtraAndRemovesNullKeys) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({faux_failure("down")});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    agent.set_extra("kept", 1);
    agent.set_extra("gone", 2);
    EXPECT_FALSE(run(agent.prompt("hi")));
    EXPECT_EQ(run(store->load("t"))->extra, (JsonObject{{"kept", 1}, {"gone", 2}}));

    agent.set_extra("gone", nullptr);
    faux.set_responses({"ok"});
    run(agent.prompt("again"));

    EXPECT_EQ(run(store->load("t"))->extra, (JsonObject{{"kept", 1}}));
    EXPECT_EQ(agent.state().extra, (JsonObject{{"kept", 1}}));
}

TEST(History, D19_ChangedExtra_IsSavedAlone) {
    auto store = std::make_shared<MemoryCheckpointer>();
    run(store->save_extra("t", {{"shared", "old"}, {"mine", 1}}));
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    auto host = tool<EchoArgs>("echo", "The host saves.", [&](EchoArgs) -> Task<std::string> {
        JsonObject extra{{"shared", "of the host"}};
        co_await store->save_extra("t", std::move(extra));
        co_return std::string("saved");
    });
    Agent agent({.model = faux.model(), .tools = {host}, .checkpointer = store, .thread_id = "t"});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::tool_execution_end) agent.set_extra("mine", 2);
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(run(store->load("t"))->extra, (JsonObject{{"shared", "of the host"}, {"mine", 2}}));
}

TEST(History, D49_Extra_IsStoredWithAppendsOfTurn) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model(),
                 .transform_context =
                     [](MessageList messages, HookContext& ctx) {
                         ctx.extra["turns"] = ctx.turn;
                         return messages;
                     },
                 .checkpointer = store,
                 .thread_id = "t"});
    JsonObject at_message_end;
    agent.subscribe([&](const AgentEvent& event) -> Task<void> {
        if (event.type() != AgentEventType::turn_end) co_return;
        const std::optional<CheckpointData> data = co_await store->load("t");
        at_message_end = data->extra;
    });
    run(agent.prompt("hi"));
    EXPECT_EQ(at_message_end, (JsonObject{{"turns", 1}}));
}

TEST(History, D35_FailedAppend_FailsRunAndMemoryEqualsStore) {
    for (int fail_at = 1; fail_at <= 4; ++fail_at) {
        auto inner = std::make_shared<MemoryCheckpointer>();
        FauxProvider faux;
        faux.set_responses({calling({echo_call("a")}), "done"});
        Agent agent({.model = faux.model(),
                     .tools = {echo_tool()},
                     .checkpointer = std::make_shared<FailingStore>(inner, fail_at),
                     .thread_id = "t"});
        Recorder recorder(agent);
        EXPECT_THROW(run(agent.prompt("hi")), CheckpointerError) << fail_at;
        EXPECT_TRUE(agent.state().messages == stored(*inner, "t")) << fail_at;
        EXPECT_TRUE(is_legal_transcript(agent.state().messages)) << fail_at;
        EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1u) << fail_at;
        EXPECT_EQ(agent.state().last_outcome, LastOutcome::abandoned);
        faux.set_responses({"fine"});
        EXPECT_TRUE(run(agent.prompt("again"))) << fail_at;
    }
}

TEST(History, D20_StaleWriter_IsRefusedAndForksNothing) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two", "three"});
    Agent first({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    run(first.prompt("a"));
    Agent second({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    run(second.prompt("b"));
    const MessageList before = stored(*store, "t");

    EXPECT_THROW(run(first.prompt("c")), StaleAppendError);

    EXPECT_TRUE(stored(*store, "t") == before);
}

TEST(History, D41_MessageId_IsTheSameEverywhere) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer(calling({echo_call("a")})), requests.answer("done")});
    Agent agent(
        {.model = faux.model(), .tools = {echo_tool()}, .checkpointer = store, .thread_id = "t"});
    Recorder recorder(agent);
    run(agent.prompt("hi"));

    const MessageList thread = stored(*store, "t");
    std::vector<std::string> started;
    std::vector<std::string> ended;
    for (const AgentEvent& event : recorder.events) {
        if (const auto* start = event.get_if<MessageStartEvent>())
            started.push_back(start->message.id());
        if (const auto* end = event.get_if<MessageEndEvent>()) ended.push_back(end->message.id());
        if (const StreamEvent* stream = event.stream_event()) {
            EXPECT_EQ(stream->partial.get().id, started.back());
        }
    }
    ASSERT_EQ(thread.size(), 4u);
    for (std::size_t i = 0; i < thread.size(); ++i) {
        EXPECT_FALSE(thread[i].id().empty());
        EXPECT_EQ(thread[i].id(), started.at(i));
        EXPECT_EQ(thread[i].id(), ended.at(i));
    }
    EXPECT_EQ(requests.seen.at(1).messages[1].id(), thread[1].id());
}

TEST(History, D42_PromptWithAnsweredId_ReturnsTheStoredResult) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"only once"});
    {
        Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
        EXPECT_EQ(run(agent.prompt(user_message("hi", "input-1"))).text(), "only once");
    }
    Agent again({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    const RunResult result = run(again.prompt(user_message("hi", "input-1")));

    EXPECT_TRUE(result);
    EXPECT_EQ(result.text(), "only once");
    EXPECT_EQ(stored(*store, "t").size(), 2u);
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST(History, D42_PromptOfContinuedRun_ContinuesTheRun) {
    // Middleware had continued the run after its answer when the process was killed.
    const std::vector<Message> killed = {
        user_message("/goal write", "input-1").with_run_id("r1"),
        Message(faux_assistant_message("Begun.")).with_id("a1").with_run_id("r1"),
        synthetic_user_message("not yet", "goal_continuation").with_id("g1").with_run_id("r1")};
    for (const bool answered : {false, true}) {
        auto store = std::make_shared<MemoryCheckpointer>();
        MessageList messages;
        for (const Message& message : killed) messages.push_back(message);
        if (answered)
            messages.push_back(
                Message(faux_assistant_message("Written.")).with_id("a2").with_run_id("r1"));
        preload(*store, "t", messages);
        FauxProvider faux;
        faux.set_responses({"Finished."});
        Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
        const RunResult result = run(agent.prompt(user_message("/goal write", "input-1")));
        EXPECT_EQ(result.text(), answered ? "Written." : "Finished.");
        EXPECT_EQ(faux.call_count(), answered ? 0u : 1u);
        EXPECT_EQ(stored(*store, "t").size(), 4u);
    }
}

TEST(History, D42_PromptWithUnansweredId_ContinuesTheRun) {
    auto store = std::make_shared<MemoryCheckpointer>();
    preload(*store, "t", {user_message("hi", "input-1")});
    FauxProvider faux;
    faux.set_responses({"now"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});

    const RunResult result = run(agent.prompt(user_message("hi", "input-1")));

    EXPECT_EQ(result.text(), "now");
    EXPECT_EQ(stored(*store, "t").size(), 2u);

    // The run that has answered is not that of the message.
    const RunResult repeated = run(agent.prompt(user_message("hi", "input-1")));
    EXPECT_EQ(repeated.text(), "now");
    EXPECT_EQ(repeated.run_id, result.run_id);
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST(History, D263_AnswerOfOlderRun_IsNotReturned) {
    auto store = std::make_shared<MemoryCheckpointer>();
    preload(*store, "t",
            {user_message("first", "input-0").with_run_id("r0"), user_message("hi", "input-1"),
             Message(faux_assistant_message("to the first")).with_run_id("r0")});
    FauxProvider faux;
    faux.set_responses({"now"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(run(agent.prompt(user_message("hi", "input-1"))).text(), "now");
    EXPECT_EQ(run(agent.prompt(user_message("first", "input-0"))).text(), "to the first");
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST(History, D42_Receipts_ReportTheStateOfAnInput) {
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    Agent agent({.model = faux.model()});
    const Receipt taken = agent.steer(user_message("a", "steer-1"));
    const Receipt twice = agent.steer(user_message("a", "steer-1"));
    const Receipt cancelled = agent.steer("b");
    EXPECT_EQ(taken.state(), ReceiptState::queued);
    EXPECT_TRUE(agent.cancel_steer(cancelled.message_id()));
    EXPECT_FALSE(agent.cancel_steer("no such id"));
    EXPECT_EQ(cancelled.state(), ReceiptState::cancelled);
    const Receipt other_run = agent.steer("c", "another run");

    run(agent.prompt("hi"));

    EXPECT_EQ(taken.state(), ReceiptState::committed);
    EXPECT_EQ(twice.state(), ReceiptState::committed);
    EXPECT_EQ(other_run.state(), ReceiptState::refused);
    EXPECT_EQ(agent.state().messages.size(), 3u);
}

TEST(History, D46_StoreWithoutThreadId_PersistsNothingWithNotice) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    Agent agent({.model = faux.model(), .checkpointer = store});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    run(agent.prompt("again"));
    EXPECT_EQ(recorder.notices(), std::vector<std::string>{"no_persistence"});
    EXPECT_TRUE(run(store->list_threads()).empty());
}

TEST(History, D50_ThreadOfLiveOwner_RefusesOtherOwners) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done", "other"});
    Agent other({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    std::string refused;
    auto intrude =
        tool<EchoArgs>("echo", "Prompts the same thread.", [&](EchoArgs) -> Task<std::string> {
            try {
                co_await other.prompt("me too");
            } catch (const RunAlreadyClaimedError& error) {
                refused = error.what();
            }
            co_return std::string("tried");
        });
    Agent agent(
        {.model = faux.model(), .tools = {intrude}, .checkpointer = store, .thread_id = "t"});

    EXPECT_TRUE(run(agent.prompt("hi")));

    EXPECT_NE(refused.find("pid"), std::string::npos) << refused;
    EXPECT_EQ(stored(*store, "t").size(), 4u);
}

TEST(History, D41_MessageWithReasoning_HasIdFromTheStart) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    ReasoningControl control;
    control.mode = ReasoningMode::on;
    Agent agent({.model = faux.model(), .reasoning = control});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    for (const AgentEvent& event : recorder.events) {
        if (const StreamEvent* stream = event.stream_event()) {
            EXPECT_EQ(stream->partial.get().id, result.new_messages.back().id());
        }
    }
}

TEST(History, D50_RunWithSupersededClaim_IsFenced) {
    auto clock = std::make_shared<testing::ManualClock>();
    MemoryOptions options;
    options.clock = clock;
    auto store = std::make_shared<MemoryCheckpointer>(options);
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "never"});
    bool superseded = false;
    auto frozen = tool<EchoArgs>("echo", "Sleeps.", [&](EchoArgs) -> Task<std::string> {
        clock->advance(std::chrono::seconds(61));
        ClaimOwner other;
        other.owner_id = "other";
        other.host = "elsewhere";
        const ClaimResult claim =
            co_await store->claim_run("t", "other-run", other, ClaimKind::new_run);
        superseded = claim.superseded.has_value();
        JsonObject extra{{"who", "other"}};
        co_await store->save_extra("t", std::move(extra));
        co_return std::string("awake again");
    });
    Agent agent(
        {.model = faux.model(), .tools = {frozen}, .checkpointer = store, .thread_id = "t"});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::tool_execution_end) agent.set_extra("who", "frozen");
    });
    EXPECT_THROW(run(agent.prompt("hi")), StaleAppendError);
    EXPECT_TRUE(superseded);
    EXPECT_EQ(stored(*store, "t").size(), 2u);
    EXPECT_EQ(run(store->load("t"))->extra, (JsonObject{{"who", "other"}}));
}

TEST(History, CompletedRun_IsMarkedComplete) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"ok", faux_failure("down")});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    const RunResult good = run(agent.prompt("hi"));
    const RunResult bad = run(agent.prompt("again"));
    EXPECT_TRUE(run(store->is_run_complete("t", good.run_id)));
    EXPECT_FALSE(run(store->is_run_complete("t", bad.run_id)));
}

TEST(History, SeveralRuns_LoadTheThreadOnce) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    {
        Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
        run(agent.prompt("hi"));
    }
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    const RunResult result = run(agent.prompt("again"));
    EXPECT_EQ(agent.state().messages.size(), 4u);
    EXPECT_EQ(result.new_messages.size(), 2u);
}

Message result_of(std::string id, std::string text = "r") {
    ToolResultMessage result;
    result.tool_call_id = std::move(id);
    result.tool_name = "echo";
    result.content.emplace_back(TextContent{std::move(text)});
    return result;
}

Message caller(std::vector<std::string> ids) {
    std::vector<ToolCall> calls;
    for (std::string& id : ids) calls.push_back(echo_call("v", std::move(id)));
    return calling(std::move(calls));
}

TEST(Transcript, LegalHistories_AreUnchanged) {
    const MessageList list{user_message("a"), caller({"1", "2"}), result_of("2"), result_of("1"),
                           faux_assistant_message("b")};
    EXPECT_TRUE(is_legal_transcript(list));
    EXPECT_FALSE(repair_request(list).changed());
}

TEST(Transcript, D1_MissingResults_AreMadeUpAndStraysDropped) {
    const MessageList list{result_of("0"), caller({"1", "2"}), result_of("2"), user_message("a")};
    EXPECT_FALSE(is_legal_transcript(list));
    const RepairedTranscript repaired = repair_request(list);
    EXPECT_TRUE(is_legal_transcript(repaired.messages));
    EXPECT_EQ(repaired.repairs.added_results, 1u);
    EXPECT_EQ(repaired.repairs.left_out, 1u);
    EXPECT_EQ(repaired.messages.size(), 4u);
}

TEST(Transcript, D1_ResultBehindUserMessage_MovesToItsCall) {
    const MessageList list{caller({"1"}), user_message("a"), result_of("1", "mine")};
    const RepairedTranscript repaired = repair_request(list);
    EXPECT_TRUE(is_legal_transcript(repaired.messages));
    EXPECT_TRUE(repaired.changed());
    EXPECT_EQ(repaired.repairs.moved_results, 1u);
    EXPECT_EQ(repaired.repairs.added_results, 0u);
    EXPECT_EQ(repaired.messages[1].text(), "mine");
}

TEST(Transcript, D1_MisplacedResults_AreTheOnlyOnesMoved) {
    const MessageList list{caller({"1", "2", "3"}),     result_of("1"),
                           user_message("a"),           result_of("3", "three"),
                           faux_assistant_message("b"), result_of("2", "two")};
    const RepairedTranscript repaired = repair_request(list);
    EXPECT_TRUE(is_legal_transcript(repaired.messages));
    EXPECT_EQ(repaired.repairs, (TranscriptRepairs{0, 2, 0}));
    EXPECT_EQ(texts(repaired.messages),
              (std::vector<std::string>{"", "r", "three", "two", "a", "b"}));
}

TEST(Transcript, D1_ResultAfterRepeatedId_BelongsToLaterCall) {
    const MessageList list{caller({"1"}), user_message("a"), caller({"1"}),
                           result_of("1", "second"), result_of("1", "duplicate")};
    const RepairedTranscript repaired = repair_request(list);
    EXPECT_TRUE(is_legal_transcript(repaired.messages));
    EXPECT_EQ(repaired.repairs, (TranscriptRepairs{1, 0, 1}));
    EXPECT_EQ(repaired.messages.back().text(), "second");
}

TEST(Transcript, D1_EqualIdsInLaterTurns_AnswerOwnCalls) {
    const MessageList list{caller({"1"}), result_of("1", "first"), caller({"1"}),
                           result_of("1", "second")};
    EXPECT_TRUE(is_legal_transcript(list));
}

TEST(Transcript, OpenCalls_AreUnansweredOnesOfLastAnswer) {
    EXPECT_EQ(open_tool_calls({user_message("a"), caller({"1", "2"}), result_of("1")}).size(), 1u);
    EXPECT_TRUE(open_tool_calls({caller({"1"}), result_of("1")}).empty());
    EXPECT_TRUE(open_tool_calls({caller({"1"}), user_message("a")}).empty());
    EXPECT_TRUE(open_tool_calls({}).empty());
}

}  // namespace
}  // namespace cubepi
