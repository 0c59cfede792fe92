// Calls of tools whose questions are answered by another process.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/mcp/sampling.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/middleware/subagents.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// The requests of a server's clients for calls, in a file that all its processes write.
class CallLog {
public:
    CallLog() {
        std::string path = (std::filesystem::temp_directory_path() / "mcp-calls-XXXXXX").string();
        directory_ = ::mkdtemp(path.data());
    }
    ~CallLog() {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }
    CallLog(const CallLog&) = delete;
    CallLog& operator=(const CallLog&) = delete;

    std::string path() const { return (directory_ / "log").string(); }
    std::vector<std::string> lines() const {
        std::ifstream file(path());
        std::vector<std::string> found;
        for (std::string line; std::getline(file, line);) found.push_back(line);
        return found;
    }

private:
    std::filesystem::path directory_;
};

/// A thread whose runs are continued by one process after the other, each with a process of the server.
struct SuspendedThread {
    CallLog log;
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    FauxProvider child;  ///< of the sub-agent
    FauxProvider server_model;
    std::string mode = "modern,extra";
    std::string server = "fake";
    bool asks_before = false;  ///< the user approves each call
    bool has_channel = true;
    bool in_subagent = false;  ///< which has the tools of the server

    /// Runs `go` in a new process, which is suspended at a question.
    template <class Go>
    RunResult process(Go go) {
        FakeServer settings(mode + ",log=" + log.path());
        settings.client.server = server;
        auto sampling = std::make_shared<McpSamplingOptions>();
        sampling->model = [this] { return server_model.model(); };
        settings.client.sampling = sampling;
        const auto client = settings.start();
        const McpTools made = run(mcp_tools(client));
        auto channel = std::make_shared<CheckpointedChannel>(store, "t");
        AgentOptions options{.model = faux.model(), .tools = made.tools};
        if (in_subagent) {
            SubagentOptions subagents;
            subagents.shared_tools = made.tools;
            options.tools.clear();
            subagents.default_model = child.model();
            subagents.checkpointer = store;
            subagents.make_channel = [](std::shared_ptr<Checkpointer> to, std::string thread_id) {
                return std::make_shared<CheckpointedChannel>(std::move(to), std::move(thread_id));
            };
            options.middleware.emplace_back(SubagentMiddleware(std::move(subagents)));
        }
        if (asks_before) {
            ConfirmToolCallOptions confirm;
            confirm.require_confirm = {"mcp__fake__echo"};
            options.middleware.push_back(ConfirmToolCallMiddleware(channel, std::move(confirm)));
        }
        options.checkpointer = store;
        options.thread_id = "t";
        if (has_channel) options.channel = channel;
        Agent agent(std::move(options));
        const Subscription subscription = agent.subscribe([&agent](const AgentEvent& event) {
            if (event.get_if<HitlRequestEvent>()) (void)agent.detach();
        });
        RunResult result = run(go(agent));
        run(client->close());
        return result;
    }
    RunResult call(std::string tool) {
        faux.set_responses(
            {faux_assistant_message(faux_tool_call(std::move(tool)), "tool_use"), "done"});
        return process([](Agent& agent) { return agent.prompt("Go"); });
    }
    /// Answers the only question.
    RunResult answer(const RunResult& suspended, Json value) {
        return process([&](Agent& agent) {
            return agent.respond(suspended.pending_requests.at(0).question_id, std::move(value));
        });
    }
    std::string result_text() {
        std::string text = "none";
        const auto thread = run(store->load("t"));
        for (const Message& message : thread->messages) {
            if (message.tool_result()) text = message.text();
        }
        return text;
    }
};

Json named(std::string name) {
    JsonObject answers;
    answers["name"] = std::move(name);
    return Json(std::move(answers));
}

TEST(McpSuspendedCall, D176_Question_IsAnsweredInAnotherProcess) {
    SuspendedThread thread;
    const RunResult first = thread.call("mcp__fake__ask");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    ASSERT_EQ(first.pending_requests.size(), 1U);
    EXPECT_THAT(std::get<AskRequest>(first.pending_requests[0].payload).questions[0].prompt,
                HasSubstr("The server fake asks: Who are you?"));
    const RunResult second = thread.answer(first, named("Ann"));
    EXPECT_EQ(second.outcome, RunOutcome::completed);
    EXPECT_EQ(thread.result_text(),
              R"([{"action": "accept", "content": {"color": "blue", "name": "Ann"}}, "opaque"])");
    // The tool was called once; the second request is the answer.
    EXPECT_THAT(thread.log.lines(),
                ElementsAre(Not(HasSubstr("inputResponses")), HasSubstr("inputResponses")));
}

TEST(McpSuspendedCall, D176_EachRound_HasItsOwnQuestion) {
    SuspendedThread thread;
    thread.mode = "modern,insatiable";
    const RunResult first = thread.call("mcp__fake__ask");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    const RunResult second = thread.answer(first, named("Ann"));
    ASSERT_EQ(second.outcome, RunOutcome::suspended);
    EXPECT_NE(first.pending_requests.at(0).question_id, second.pending_requests.at(0).question_id);
    const RunResult third = thread.answer(second, named("Bob"));
    ASSERT_EQ(third.outcome, RunOutcome::suspended);
    EXPECT_THAT(thread.log.lines(),
                ElementsAre(Not(HasSubstr("inputResponses")), HasSubstr("Ann"), HasSubstr("Bob")));
}

/// Stores what a process leaves that is killed while the server has the answers.
void lose_answers(const SuspendedThread& thread, const RunResult& suspended) {
    const std::string& question = suspended.pending_requests.at(0).question_id;
    HitlAnswer note;
    note.run_id = suspended.run_id;
    note.question_id = question.substr(0, question.find(".mcp") + 4);
    note.answer = R"({"called":true})";
    run(thread.store->save_hitl_answer("t", std::move(note)));
}

TEST(McpSuspendedCall, D176_AnswersThatWereSent_AreNotSentAgain) {
    SuspendedThread thread;
    const RunResult first = thread.call("mcp__fake__ask");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    lose_answers(thread, first);
    EXPECT_EQ(thread.answer(first, named("Ann")).outcome, RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr(std::string(interrupted_call_text)));
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

TEST(McpSuspendedCall, D176_ChangedTool_DoesNotGetTheAnswer) {
    SuspendedThread thread;
    const RunResult first = thread.call("mcp__fake__ask");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    // The state of one server is not sent to another one, which has its name.
    thread.mode = "modern,changed";
    EXPECT_EQ(thread.answer(first, named("Ann")).outcome, RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr(std::string(interrupted_call_text)));
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

TEST(McpSuspendedCall, D176_CallThatNeverBegan_IsMade) {
    SuspendedThread thread;
    thread.asks_before = true;
    const RunResult first = thread.call("mcp__fake__echo");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    EXPECT_TRUE(thread.log.lines().empty());
    const RunResult second = thread.answer(first, Json(to_json(ApproveAnswer())));
    EXPECT_EQ(second.outcome, RunOutcome::completed);
    EXPECT_EQ(thread.result_text(), "echo: ");
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

/// Stores a run whose process was killed, with a call of `echo` that has no result.
void store_killed_run(const SuspendedThread& thread) {
    AssistantMessage answer =
        faux_assistant_message(faux_tool_call("mcp__fake__echo"), stop_reason::tool_use);
    answer.id = "a1";
    answer.run_id = "r1";
    MessageList messages{user_message("Go").with_id("u1").with_run_id("r1")};
    messages.push_back(Message(std::move(answer)));
    (void)run(thread.store->append("t", std::move(messages), {}));
}

TEST(McpSuspendedCall, D176_KilledCall_IsMadeOnceAtMost) {
    for (const bool was_called : {false, true}) {
        SuspendedThread thread;
        store_killed_run(thread);
        if (was_called) {
            HitlAnswer note;
            note.run_id = "r1";
            note.question_id = "a1.0.mcp";
            note.answer = R"({"called":true})";
            run(thread.store->save_hitl_answer("t", std::move(note)));
        }
        thread.faux.set_responses({"done"});
        const RunResult result = thread.process([](Agent& agent) { return agent.resume(); });
        EXPECT_EQ(result.outcome, RunOutcome::completed);
        EXPECT_EQ(thread.result_text(), was_called ? std::string(interrupted_call_text) : "echo: ");
        EXPECT_EQ(thread.log.lines().size(), was_called ? 0U : 1U);
    }
}

TEST(McpSuspendedCall, D176_KilledCallWithoutNotes_IsNotRepeated) {
    SuspendedThread thread;
    store_killed_run(thread);
    thread.faux.set_responses({"done"});
    thread.has_channel = false;
    const RunResult result = thread.process([](Agent& agent) { return agent.resume(); });
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(thread.result_text(), interrupted_call_text);
    EXPECT_TRUE(thread.log.lines().empty());
}

TEST(McpSuspendedCall, D176_SubagentsQuestion_IsAnsweredInAnotherProcess) {
    SuspendedThread thread;
    thread.in_subagent = true;
    thread.child.set_responses(
        {faux_assistant_message(faux_tool_call("mcp__fake__ask"), "tool_use"), "asked"});
    thread.faux.set_responses(
        {faux_assistant_message(faux_tool_call("subagent", {{"prompt", "ask"}}), "tool_use"),
         "done"});
    const RunResult first = thread.process([](Agent& agent) { return agent.prompt("Go"); });
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    EXPECT_EQ(thread.answer(first, named("Ann")).outcome, RunOutcome::completed);
    EXPECT_EQ(thread.child.call_count(), 2U);
    EXPECT_THAT(thread.log.lines(),
                ElementsAre(Not(HasSubstr("inputResponses")), HasSubstr("Ann")));
}

TEST(McpSuspendedCall, D176_LargeState_IsNotStored) {
    SuspendedThread thread;
    thread.mode = "modern,vast";
    EXPECT_EQ(thread.call("mcp__fake__ask").outcome, RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr("more than can be stored"));
}

TEST(McpSuspendedCall, D176_ServerWithSession_IsCancelled) {
    SuspendedThread thread;
    thread.mode = "2025-11-25";
    EXPECT_EQ(thread.call("mcp__fake__ask").outcome, RunOutcome::completed);
    EXPECT_EQ(thread.result_text(), R"({"action": "cancel"})");
}

TEST(McpSuspendedCall, D176_Consent_IsGivenInAnotherProcess) {
    SuspendedThread thread;
    thread.server_model.set_responses({"A greeting."});
    const RunResult first = thread.call("mcp__fake__sample");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    EXPECT_EQ(thread.server_model.call_count(), 0U);
    EXPECT_EQ(thread.answer(first, Json(true)).outcome, RunOutcome::completed);
    EXPECT_EQ(thread.server_model.call_count(), 1U);
    EXPECT_THAT(thread.result_text(), HasSubstr("A greeting."));
}

}  // namespace
}  // namespace cubepi
