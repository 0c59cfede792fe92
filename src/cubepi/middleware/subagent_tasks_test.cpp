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

}  // namespace
}  // namespace cubepi
