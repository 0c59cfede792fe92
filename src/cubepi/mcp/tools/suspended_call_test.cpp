// Calls of tools whose questions are answered by another process.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/agent/call_notes.hpp>
#include <cubepi/agent/tool_context.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/mcp/tools/suspended_call.hpp>
#include <cubepi/mcp/tools/suspended_thread_test.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

/// The process ends with the run, and so does the connection on which the server waits.
TEST(McpSuspendedCall, D130_ServerWithSession_IsCancelledWithANotice) {
    SuspendedThread thread;
    thread.mode = "2025-11-25";
    EXPECT_EQ(thread.call("mcp__fake__ask").outcome, RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr(R"({"action": "cancel"})"));
    EXPECT_THAT(thread.result_text(), HasSubstr("Ask the user for the input"));
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

TEST(McpSuspendedCall, D133_EachAnswerOfAModel_IsPaidOnce) {
    SuspendedThread thread;
    thread.mode = "modern,extra,double";
    thread.server_model.set_responses({"First.", "Second."});
    const RunResult first = thread.call("mcp__fake__sample");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    const RunResult second = thread.answer(first, Json(true));
    ASSERT_EQ(second.outcome, RunOutcome::suspended);
    EXPECT_EQ(thread.server_model.call_count(), 1U);
    EXPECT_EQ(thread.answer(second, Json(true)).outcome, RunOutcome::completed);
    EXPECT_EQ(thread.server_model.call_count(), 2U);
    EXPECT_THAT(thread.result_text(), HasSubstr("First."));
    EXPECT_THAT(thread.result_text(), HasSubstr("Second."));
    EXPECT_EQ(thread.log.lines().size(), 2U);
}

TEST(McpSuspendedCall, D133_TooManySamplings_AreRefusedUnpaid) {
    SuspendedThread thread;
    thread.mode = "modern,extra,double";
    thread.max_samplings = 1;
    EXPECT_EQ(thread.call("mcp__fake__sample").outcome, RunOutcome::completed);
    EXPECT_EQ(thread.server_model.call_count(), 0U);
    EXPECT_THAT(thread.result_text(), HasSubstr("too many times"));
}

/// The notes of a store that two processes share.
class SharedNotes final : public CallNotes {
public:
    Task<> save_note(std::string id, std::string text) override {
        notes_[std::move(id)] = std::move(text);
        co_return;
    }
    Task<std::optional<std::string>> load_note(std::string id) override {
        std::optional<std::string> found;
        if (notes_.contains(id)) found = notes_[id];
        co_return found;
    }

private:
    std::map<std::string, std::string> notes_;
};

/// A process that has slept for longer than its claim does not know that another one has made the call.
TEST(McpSuspendedCall, D133_SecondOwner_MakesNoCall) {
    const auto notes = std::make_shared<SharedNotes>();
    const ToolContext context("c1", "tool", std::stop_token(), Runtime::standard(), nullptr,
                              nullptr, nullptr, "m1.0", false);
    detail::McpSuspendedCall::Identity identity{"fake", "digest", "{}"};
    detail::McpSuspendedCall first(context, nullptr, notes, identity);
    detail::McpSuspendedCall second(context, nullptr, notes, identity);
    EXPECT_FALSE(run(first.begin()));
    EXPECT_THROW((void)run(second.begin()), Error);
}

TEST(McpSuspendedCall, D132_TaskQuestion_IsAnsweredInAnotherProcess) {
    SuspendedThread thread;
    thread.mode = "modern,extra,tasks,curious";
    const RunResult first = thread.call("mcp__fake__task");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    EXPECT_EQ(thread.answer(first, named("Ann")).outcome, RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr("Ann"));
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

/// Stores what a process leaves that is killed while it sends answers to a task: the note has them.
void lose_answers_of_task(const SuspendedThread& thread, const RunResult& suspended) {
    const std::string& question = suspended.pending_requests.at(0).question_id;
    HitlAnswer note;
    note.run_id = suspended.run_id;
    note.question_id = question.substr(0, question.find(".mcp") + 4);
    const auto stored = run(thread.store->load_hitl_answer("t", note.run_id, note.question_id));
    JsonObject changed = parse_json(std::string(stored->as_string())).as_object();
    changed["round"] = 1;
    changed["requests"] = JsonObject();
    JsonObject answer{{"action", "accept"}, {"content", JsonObject{{"name", "Bob"}}}};
    changed["responses"] = JsonObject{{"who", std::move(answer)}};
    note.answer = Json(json_text(Json(std::move(changed))));
    run(thread.store->save_hitl_answer("t", std::move(note)));
}

TEST(McpSuspendedCall, D132_AnswersOfKilledProcess_ReachTheTask) {
    SuspendedThread thread;
    thread.mode = "modern,extra,tasks,curious";
    const RunResult first = thread.call("mcp__fake__task");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    lose_answers_of_task(thread, first);
    EXPECT_EQ(thread.answer(first, named("Ann")).outcome, RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr("Bob"));
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

TEST(McpSuspendedCall, D132_SubagentsTask_IsAnsweredInAnotherProcess) {
    SuspendedThread thread;
    thread.mode = "modern,extra,tasks,curious";
    thread.in_subagent = true;
    thread.child.set_responses(
        {faux_assistant_message(faux_tool_call("mcp__fake__task"), "tool_use"), "asked"});
    thread.faux.set_responses(
        {faux_assistant_message(faux_tool_call("subagent", {{"prompt", "ask"}}), "tool_use"),
         "done"});
    const RunResult first = thread.process([](Agent& agent) { return agent.prompt("Go"); });
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    EXPECT_EQ(thread.answer(first, named("Ann")).outcome, RunOutcome::completed);
    EXPECT_EQ(thread.child.call_count(), 2U);
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

}  // namespace
}  // namespace cubepi
