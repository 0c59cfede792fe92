// Calls of servers with sessions that wait on their connection while their runs are suspended.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/mcp/tools/suspended_thread_test.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;

constexpr const char* lost_text = "the call was not repeated";

struct WaitingThread : SuspendedThread {
    explicit WaitingThread(std::string its_mode) {
        mode = std::move(its_mode);
        suspended_call_time = std::chrono::hours(1);
    }
};

/// Runs prompts the agent and answers its questions in one process, each in a run of its own.
Task<std::vector<RunOutcome>> live(SuspendedThread& thread, std::vector<Json> answers) {
    const std::shared_ptr<McpClient> client = thread.client();
    const McpTools made = co_await mcp_tools(client);
    std::vector<RunOutcome> outcomes;
    std::string question;
    {
        const std::unique_ptr<Agent> agent = thread.agent(made.tools);
        const RunResult result = co_await agent->prompt("Go");
        outcomes.push_back(result.outcome);
        if (!result.pending_requests.empty()) question = result.pending_requests[0].question_id;
    }
    for (Json& answer : answers) {
        const std::unique_ptr<Agent> agent = thread.agent(made.tools);
        const RunResult result = co_await agent->respond(question, std::move(answer));
        outcomes.push_back(result.outcome);
        if (!result.pending_requests.empty()) question = result.pending_requests[0].question_id;
    }
    co_await client->close();
    co_return outcomes;
}

std::vector<Json> answered(std::vector<std::string> names) {
    std::vector<Json> answers;
    for (std::string& name : names) answers.push_back(named(std::move(name)));
    return answers;
}

TEST(McpWaitingCall, D130_SessionsQuestion_IsAnsweredInALaterRun) {
    WaitingThread thread("2025-11-25");
    thread.expect_call("mcp__fake__ask");
    const auto outcomes = run(live(thread, answered({"Ann"})));
    EXPECT_EQ(outcomes.at(0), RunOutcome::suspended);
    EXPECT_EQ(outcomes.at(1), RunOutcome::completed);
    EXPECT_EQ(thread.result_text(),
              R"({"action": "accept", "content": {"color": "blue", "name": "Ann"}})");
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

TEST(McpWaitingCall, D130_EqualQuestions_AreAnsweredOneByOne) {
    WaitingThread thread("2025-11-25,asks again");
    thread.expect_call("mcp__fake__ask");
    const auto outcomes = run(live(thread, answered({"Ann", "Bob"})));
    EXPECT_EQ(outcomes.at(1), RunOutcome::suspended);
    EXPECT_EQ(outcomes.at(2), RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr("Ann"));
    EXPECT_THAT(thread.result_text(), HasSubstr("Bob"));
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

TEST(McpWaitingCall, D130_Consent_IsGivenInALaterRun) {
    WaitingThread thread("2025-11-25,extra");
    thread.server_model.set_responses({"A greeting."});
    thread.expect_call("mcp__fake__sample");
    std::vector<Json> answers;
    answers.emplace_back(true);
    const auto outcomes = run(live(thread, std::move(answers)));
    EXPECT_EQ(outcomes.at(0), RunOutcome::suspended);
    EXPECT_EQ(outcomes.at(1), RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr("A greeting."));
}

TEST(McpWaitingCall, D130_SubagentsQuestion_IsAnsweredInALaterRun) {
    WaitingThread thread("2025-11-25");
    thread.in_subagent = true;
    thread.child.set_responses(
        {faux_assistant_message(faux_tool_call("mcp__fake__ask"), "tool_use"), "asked"});
    thread.faux.set_responses(
        {faux_assistant_message(faux_tool_call("subagent", {{"prompt", "ask"}}), "tool_use"),
         "done"});
    const auto outcomes = run(live(thread, answered({"Ann"})));
    EXPECT_EQ(outcomes.at(0), RunOutcome::suspended);
    EXPECT_EQ(outcomes.at(1), RunOutcome::completed);
    EXPECT_EQ(thread.child.call_count(), 2U);
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

TEST(McpWaitingCall, D130_AnswerInAnotherProcess_StatesTheLoss) {
    WaitingThread thread("2025-11-25");
    const RunResult first = thread.call("mcp__fake__ask");
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    EXPECT_EQ(thread.answer(first, named("Ann")).outcome, RunOutcome::completed);
    EXPECT_THAT(thread.result_text(), HasSubstr(lost_text));
    EXPECT_EQ(thread.log.lines().size(), 1U);
}

Task<> answer_after(SuspendedThread& thread, std::shared_ptr<testing::ManualClock> clock,
                    std::chrono::nanoseconds time) {
    const std::shared_ptr<McpClient> client = thread.client();
    const McpTools made = co_await mcp_tools(client);
    std::string question;
    {
        const std::unique_ptr<Agent> agent = thread.agent(made.tools);
        const RunResult result = co_await agent->prompt("Go");
        question = result.pending_requests.at(0).question_id;
    }
    clock->advance(time);
    {
        const std::unique_ptr<Agent> agent = thread.agent(made.tools);
        (void)co_await agent->respond(question, named("Ann"));
    }
    co_await client->close();
}

TEST(McpWaitingCall, D130_LateAnswer_StatesTheLoss) {
    for (const bool is_late : {false, true}) {
        WaitingThread thread("2025-11-25");
        const auto clock = std::make_shared<testing::ManualClock>();
        auto runtime = std::make_shared<Runtime>(*Runtime::standard());
        runtime->clock = clock;
        thread.runtime = runtime;
        thread.expect_call("mcp__fake__ask");
        run(answer_after(thread, clock, std::chrono::minutes(is_late ? 61 : 59)));
        EXPECT_EQ(thread.result_text().find(lost_text) != std::string::npos, is_late)
            << thread.result_text();
    }
}

}  // namespace
}  // namespace cubepi
