#include <cubepi/middleware/subagents_test_support.hpp>

// Sub-agents in the background (D115).

namespace cubepi {
namespace {

using namespace subagent_test;

const JsonObject in_background{{"run_in_background", true}};

struct Tasks : ::testing::Test {
    Family family;
    AsyncEvent gate;
    std::unique_ptr<Agent> agent;

    Tasks() {
        family.subagents.limits.max_background = 2;
        family.subagents.shared_tools.push_back(AgentTool(
            "wait", "Waits.", AgentTool::no_parameters(), [this](JsonObject, ToolContext&) {
                return MaybeTask<AgentToolResult>(waited(&gate));
            }));
        family.child.set_responses({calling("wait", {}), "found it"});
    }
    static Task<AgentToolResult> waited(AsyncEvent* event) {
        co_await event->wait();
        co_return "the wait is over";
    }
    RunResult prompt() {
        if (!agent) agent = family.agent();
        return run(agent->prompt("go"));
    }
    /// Opens the gate, and lets the task end.
    void finish() { run(finished(this)); }
    static Task<> finished(Tasks* test) {
        test->gate.set();
        while (test->family.middleware->tasks().at(0).state == SubagentTaskState::running)
            co_await yield_now();
    }
    /// A task whose text is being stored waits for another thread.
    static Task<> ended_task(Tasks* test) {
        while (test->task().state == SubagentTaskState::running)
            co_await Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
    }
    SubagentTask task() const { return family.middleware->tasks().at(0); }
};

std::vector<std::string> texts_of(const MessageList& messages) {
    std::vector<std::string> texts;
    for (const Message& message : messages) texts.push_back(message.text());
    return texts;
}

bool has_text(const MessageList& messages, std::string_view text) {
    for (const Message& message : messages) {
        if (message.text().find(text) != std::string::npos) return true;
    }
    return false;
}

TEST_F(Tasks, D115_TaskSurvivesRun_ReportsInTheNext) {
    family.parent.set_responses({delegating(in_background), "started"});
    const RunResult first = prompt();
    EXPECT_EQ(first.text(), "started");
    EXPECT_NE(result_text(first).find(task().id), std::string::npos);
    EXPECT_EQ(task().state, SubagentTaskState::running);
    finish();
    EXPECT_EQ(task().state, SubagentTaskState::completed);
    family.parent.set_responses({"hello", "It was found."});
    const RunResult second = prompt();
    EXPECT_EQ(second.text(), "It was found.");
    EXPECT_TRUE(has_text(second.new_messages, "found it"));
    // The run that receives the result is charged.
    EXPECT_GT(*second.usage.output_tokens, *family.middleware->spending().usage.output_tokens);
    family.parent.set_responses({"bye"});
    EXPECT_EQ(texts_of(prompt().new_messages), (std::vector<std::string>{"go", "bye"}));
    EXPECT_TRUE(family.middleware->tasks().empty());
    EXPECT_FALSE(agent->state().extra.contains("subagent_tasks"));
}

TEST_F(Tasks, D115_TaskEndsInRun_ReportsAfterCalls) {
    family.subagents.shared_tools.clear();
    family.child.set_responses({"found it"});
    family.options.tools.push_back(
        tool<PathArgs>("look", "Looks.", [](PathArgs) { return "seen"; }));
    const AssistantMessage look = calling("look", {{"path", "/"}});
    family.parent.set_responses({delegating(in_background), look, look, "done"});
    const RunResult result = prompt();
    EXPECT_EQ(result.text(), "done");
    EXPECT_TRUE(has_text(result.new_messages, "found it"));
    EXPECT_EQ(family.parent.pending_response_count(), 0u);
}

TEST_F(Tasks, D115_Tool_ListsReadsAndCancels) {
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    const auto use = [&](const char* action) {
        return calling("subagent_tasks", {{"action", action}, {"task_id", task().id}});
    };
    family.parent.set_responses({use("list"), use("read"), use("cancel"), "done"});
    const RunResult result = prompt();
    EXPECT_NE(result_text(result, 0).find(", do it"), std::string::npos);
    EXPECT_NE(result_text(result, 1).find("running"), std::string::npos);
    EXPECT_NE(result_text(result, 2).find("is being cancelled"), std::string::npos);
    finish();
    family.parent.set_responses({"ok", "fine"});
    EXPECT_TRUE(has_text(prompt().new_messages, "cancelled"));
}

TEST_F(Tasks, D115_HostCancels_TaskEnds) {
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    EXPECT_FALSE(family.middleware->cancel_task("other"));
    EXPECT_TRUE(family.middleware->cancel_task(task().id));
    finish();
    EXPECT_EQ(task().state, SubagentTaskState::cancelled);
    const MessageList results = family.middleware->take_results();
    EXPECT_TRUE(has_text(results, "cancelled"));
    EXPECT_TRUE(family.middleware->take_results().empty());
}

TEST_F(Tasks, D115_ResultsTaken_AreChargedToTheirPrompt) {
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    finish();
    family.parent.set_responses({"I see."});
    const RunResult result = run(agent->prompt(family.middleware->take_results()));
    EXPECT_EQ(result.text(), "I see.");
    EXPECT_TRUE(has_text(result.new_messages, "found it"));
    EXPECT_GT(*result.usage.output_tokens, *family.middleware->spending().usage.output_tokens);
}

TEST_F(Tasks, D115_LimitOfTasks_IsAnErrorResult) {
    family.subagents.limits.max_background = 1;
    family.parent.set_responses({delegating(in_background), delegating(in_background), "ok"});
    EXPECT_NE(result_text(prompt(), 1).find("max_background"), std::string::npos);
    finish();
}

TEST_F(Tasks, D115_OwnerDestroyed_CancelsItsTasks) {
    std::vector<std::string> ends;
    family.subagents.on_task_end = [&ends](const SubagentTask& one) { ends.push_back(one.id); };
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    agent.reset();
    family.options = AgentOptions();
    family.middleware.reset();
    gate.set();
    run([]() -> Task<> {
        for (int i = 0; i < 20; ++i) co_await yield_now();
    }());
    EXPECT_TRUE(ends.empty());
    EXPECT_EQ(family.child.call_count(), 1u) << "it has continued";
}

TEST_F(Tasks, D115_ProcessKilled_TaskIsInterruptedOnce) {
    const auto store = std::make_shared<MemoryCheckpointer>();
    family.options.checkpointer = store;
    family.options.thread_id = "t";
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    const std::string id = task().id;
    // Another process: it knows only what is stored.
    Family other;
    other.subagents.limits.max_background = 2;
    other.options.checkpointer = store;
    other.options.thread_id = "t";
    other.parent.set_responses({"hello", "I see."});
    const RunResult second = other.prompt();
    EXPECT_EQ(second.text(), "I see.");
    EXPECT_TRUE(has_text(second.new_messages, "Task " + id));
    EXPECT_TRUE(has_text(second.new_messages, "interrupted"));
    EXPECT_EQ(other.child.call_count(), 0u);
    other.parent.set_responses({"bye"});
    EXPECT_EQ(run(std::make_unique<Agent>(other.options)->prompt("go")).text(), "bye");
    EXPECT_EQ(other.parent.call_count(), 3u) << "it is reported once";
    finish();
}

TEST_F(Tasks, D115_DamagedRecord_IsDropped) {
    family.parent.set_responses({"a", "b", "c"});
    agent = family.agent();
    for (const Json& record : {Json(7), Json(JsonObject{{"x", 1}}), Json(JsonArray{"x"})}) {
        agent->set_extra("subagent_tasks", record);
        EXPECT_EQ(run(agent->prompt("go")).new_messages.size(), 2u);
        EXPECT_TRUE(family.middleware->tasks().empty());
    }
}

ConfirmToolCallOptions about_rm() {
    ConfirmToolCallOptions options;
    options.require_confirm = {"rm"};
    return options;
}

TEST_F(Tasks, D115_QuestionInTheBackground_IsRefused) {
    const auto channel = std::make_shared<InMemoryChannel>();
    family.options.channel = channel;
    family.options.middleware.emplace_back(ConfirmToolCallMiddleware(channel, about_rm()));
    family.child.set_responses({removing("/a"), "done"});
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    finish();
    EXPECT_TRUE(channel->pending().empty());
    EXPECT_TRUE(family.removed.empty());
    EXPECT_EQ(task().result.text, "done");
}

TEST_F(Tasks, D115_ChannelOfBackground_GetsTheQuestion) {
    const auto channel = std::make_shared<InMemoryChannel>();
    const auto others = std::make_shared<InMemoryChannel>();
    family.subagents.background_channel = others;
    family.options.channel = channel;
    family.options.middleware.emplace_back(ConfirmToolCallMiddleware(channel, about_rm()));
    family.child.set_responses({removing("/a"), "done"});
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    ASSERT_EQ(others->pending().size(), 1u);
    const HitlRequest question = others->pending().front();
    EXPECT_EQ(question.extra.at("agent_path"), JsonArray{"r"});
    run(others->answer(question.request_id, Json(to_json(ApproveAnswer()))));
    finish();
    EXPECT_EQ(family.removed, std::vector<std::string>{"/a"});
}

TEST_F(Tasks, D120_CancelledTask_LeavesMoneyForOthers) {
    Model priced;
    priced.id = "m";
    priced.max_tokens = 2000;
    priced.cost.emplace();
    priced.cost->input = priced.cost->output = 1;
    family.subagents.default_model =
        BoundModel(std::make_shared<FauxProvider>(family.child), priced);
    family.subagents.limits.max_spend = 1;
    family.child.set_responses({[this](const ModelRequest&) {
                                    family.middleware->cancel_task(task().id);
                                    return faux_assistant_message("never read");
                                },
                                "second"});
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    finish();
    ASSERT_EQ(task().state, SubagentTaskState::cancelled);
    const double spent = family.middleware->spending().cost.value_or(-1);
    EXPECT_GT(spent, 0.001) << "the call may be billed";
    EXPECT_LT(spent, 0.01);
    family.parent.set_responses({delegating(), "ok", "I see."});
    EXPECT_EQ(result_text(prompt()), "second");
}

/// A result of 60,000 characters.
std::string long_text() { return std::string(60'000, 'x'); }

struct Spilled : SpillSink {
    std::string spill(std::string_view, std::string_view, std::string_view text) override {
        size = text.size();
        return "Read it in /spilled.";
    }
    std::size_t size = 0;
};

TEST_F(Tasks, D24_LongResultInTheBackground_IsShortened) {
    const auto spilled = std::make_shared<Spilled>();
    family.subagents.spill = spilled;
    family.child.set_responses({calling("wait", {}), faux_assistant_message(long_text())});
    family.parent.set_responses({delegating(in_background), "started"});
    (void)prompt();
    gate.set();
    run(ended_task(this));
    family.parent.set_responses({"hello", "I see."});
    const MessageList messages = prompt().new_messages;
    EXPECT_TRUE(has_text(messages, "the first 50000 of 60000 characters"));
    EXPECT_TRUE(has_text(messages, "/spilled"));
    EXPECT_FALSE(has_text(messages, std::string(50'001, 'x')));
    EXPECT_EQ(spilled->size, 60'000u);
}

/// A thread with a task that runs, and an agent of another process.
struct CopiedThread : Tasks {
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    Family other;

    CopiedThread() {
        family.options.checkpointer = other.options.checkpointer = store;
        family.options.thread_id = "t";
        other.subagents.limits.max_background = 2;
        family.parent.set_responses({"before", delegating(in_background), "started"});
        agent = family.agent();
        (void)run(agent->prompt("go", PromptOptions().run_id("r0")));
        (void)run(agent->prompt("go", PromptOptions().run_id("r1")));
    }
};

TEST_F(CopiedThread, D115_Fork_DoesNotReportTheTask) {
    run(agent->fork("t", "copy", "r1"));
    other.options.thread_id = "copy";
    other.parent.set_responses({"hello"});
    EXPECT_EQ(texts_of(other.prompt().new_messages), (std::vector<std::string>{"go", "hello"}));
    EXPECT_TRUE(other.middleware->tasks().empty());
    // The thread itself still has it.
    finish();
    family.parent.set_responses({"hello", "It was found."});
    EXPECT_TRUE(has_text(prompt().new_messages, "found it"));
}

TEST_F(Tasks, D115_RecordWithoutThread_IsReported) {
    // As earlier versions have written it.
    agent = family.agent();
    agent->set_extra("subagent_tasks", JsonObject{{"task-1", JsonObject{{"name", "a"}}}});
    family.parent.set_responses({"hello", "I see."});
    EXPECT_TRUE(has_text(prompt().new_messages, "Task task-1"));
}

}  // namespace
}  // namespace cubepi
