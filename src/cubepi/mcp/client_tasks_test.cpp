#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/mcp_test.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string failure_of(const std::string& mode) {
    const auto client = FakeServer("modern,tasks," + mode).start();
    try {
        (void)run(client->call(McpCall("task", {})));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(McpTasks, D165_CallThatBecomesATask_IsAwaited) {
    std::vector<std::string> seen;
    McpCall call("task", {});
    call.on_progress = [&seen](const JsonObject& progress) {
        seen.emplace_back(progress.at("message").as_string());
    };
    const auto client = FakeServer("modern,tasks").start();
    EXPECT_EQ(text_of(run(client->call(std::move(call)))), "\"done\"");
    EXPECT_THAT(seen, ElementsAre("step 1", "step 2"));
}

TEST(McpTasks, Extension_IsDeclaredToServersThatHaveIt) {
    const auto tasks = FakeServer("modern,tasks").start();
    EXPECT_THAT(text_of(run(tasks->call(McpCall("meta", {})))),
                HasSubstr("io.modelcontextprotocol/tasks"));
    const auto other = FakeServer("modern").start();
    EXPECT_THAT(text_of(run(other->call(McpCall("meta", {})))),
                ::testing::Not(HasSubstr("io.modelcontextprotocol/tasks")));
}

TEST(McpTasks, FailedTask_IsTheServersError) {
    EXPECT_THAT(failure_of("failing"), HasSubstr("It broke."));
}

TEST(McpTasks, ForgedId_EndsTheCall) { EXPECT_THAT(failure_of("forged"), HasSubstr("invalid id")); }

Task<JsonObject> decline(std::string, JsonObject) {
    JsonObject answer;
    answer["action"] = "decline";
    co_return answer;
}

TEST(McpTasks, QuestionOfATask_IsAnswered) {
    McpCall call("task", {});
    call.on_input = decline;
    const auto client = FakeServer("modern,tasks,curious").start();
    EXPECT_EQ(text_of(run(client->call(std::move(call)))), R"({"who": {"action": "decline"}})");
    EXPECT_THAT(failure_of("curious"), HasSubstr("no user can be asked"));
}

TEST(McpTasks, D165_AbortedCall_CancelsTheTask) {
    const auto client = FakeServer("modern,tasks,hanging").start();
    run(client->connect());
    const auto abort_and_look = [](std::shared_ptr<McpClient> one) -> Task<std::string> {
        McpCall call("task", {});
        call.timeout = std::chrono::seconds(3);
        Task<JsonObject> calling = one->call(std::move(call));
        const Outcome<JsonObject> ended = co_await outcome_of(std::move(calling));
        EXPECT_FALSE(ended.ok());
        McpCall look("cancelled task", {});
        const JsonObject result = co_await one->call(std::move(look));
        co_return text_of(result);
    };
    EXPECT_EQ(run(abort_and_look(client)), "t-1");
}

}  // namespace
}  // namespace cubepi
