#include <cubepi/hitl/ask_user_tool.hpp>

#include <chrono>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;

Task<> answer_with(std::shared_ptr<InMemoryChannel> channel, HitlRequestStream stream,
                   Json answer) {
    const std::optional<HitlRequest> request = co_await stream.next();
    std::string id = request->question_id;
    if (answer.is_null()) {
        co_await channel->cancel(std::move(id), "no time");
    } else {
        co_await channel->answer(std::move(id), std::move(answer));
    }
}

Task<RunResult> prompt_and_answer(Agent& agent, std::shared_ptr<InMemoryChannel> channel,
                                  std::optional<Json> answer) {
    BackgroundScope host(co_await this_executor);
    if (answer) host.spawn(answer_with(channel, channel->subscribe(), std::move(*answer)));
    Outcome<RunResult> result = co_await outcome_of(agent.prompt("hi"));
    co_await host.close();
    co_return std::move(result).value();
}

/// Returns the result of a call of ask_user with one question, which is answered, cancelled (null) or left open.
ToolResultMessage ask(std::optional<Json> answer) {
    auto clock = std::make_shared<testing::ManualClock>();
    InMemoryChannelOptions options;
    options.clock = clock;
    options.default_timeout = 30s;
    auto channel = std::make_shared<InMemoryChannel>(options);
    JsonObject question{{"key", "color"}, {"prompt", "Which?"}};
    FauxProvider faux;
    faux.set_responses({faux_assistant_message(
                            faux_tool_call("ask_user", {{"questions", JsonArray{question}}}, "c1"),
                            stop_reason::tool_use),
                        "done"});
    Agent agent({.model = faux.model(),
                 .tools = {ask_user_tool(channel)},
                 .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
    const RunResult result =
        testing::run_advancing(*clock, prompt_and_answer(agent, channel, std::move(answer)));
    return *result.new_messages[2].tool_result();
}

TEST(AskUserTool, TheAnswersAreTheResult) {
    const JsonObject answers{{"color", "teal"}};
    const ToolResultMessage result = ask(Json(answers));
    EXPECT_FALSE(result.is_error);
    EXPECT_EQ(result.details,
              Json(JsonObject{{"hitl", JsonObject{{"kind", "ask"}, {"answers", answers}}}}));
    EXPECT_NE(Message(result).text().find("\"color\":\"teal\""), std::string::npos);
}

TEST(AskUserTool, ARequestThatIsCancelledOrTimesOutIsAnErrorResult) {
    const ToolResultMessage cancelled = ask(Json(nullptr));
    EXPECT_TRUE(cancelled.is_error);
    EXPECT_EQ(
        cancelled.details,
        Json(JsonObject{{"hitl", JsonObject{{"outcome", "cancelled"}, {"reason", "no time"}}}}));
    const ToolResultMessage late = ask(std::nullopt);
    EXPECT_TRUE(late.is_error);
    EXPECT_EQ(late.details,
              Json(JsonObject{{"hitl", JsonObject{{"outcome", "timed_out"}, {"seconds", 30.0}}}}));
}

}  // namespace
}  // namespace cubepi
