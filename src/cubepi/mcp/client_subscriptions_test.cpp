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

/// Returns what the server has subscribed to.
Task<std::string> touch(std::shared_ptr<McpClient> client) {
    McpCall call("touch", {});
    const JsonObject result = co_await client->call(std::move(call));
    co_return text_of(result);
}

Task<> subscribe_and_touch(std::shared_ptr<McpClient> client, std::vector<std::string>* touched) {
    co_await client->subscribe("file:///a");
    co_await client->subscribe("file:///a");
    co_await client->subscribe("file:///b");
    std::string first = co_await touch(client);
    co_await client->unsubscribe("file:///a");
    std::string second = co_await touch(client);
    *touched = {std::move(first), std::move(second)};
}

TEST(McpSubscriptions, Changes_AreReportedInBothEras) {
    for (const std::string era : {"modern", "2025-11-25"}) {
        std::vector<std::string> updated;
        FakeServer server(era);
        server.client.on_resource_updated = [&updated](const std::string& uri) {
            updated.push_back(uri);
        };
        std::vector<std::string> touched;
        const auto client = server.start();
        run(subscribe_and_touch(client, &touched));
        EXPECT_THAT(touched, ElementsAre("file:///a file:///b", "file:///b")) << era;
        EXPECT_THAT(updated, ElementsAre("file:///a", "file:///b", "file:///b")) << era;
        run(client->close());
    }
}

TEST(McpSubscriptions, ReplacedStream_ReportsWhatItMayHaveMissed) {
    std::vector<std::string> updated;
    FakeServer server("modern,acknowledging");
    server.client.on_resource_updated = [&updated](const std::string& uri) {
        updated.push_back(uri);
    };
    std::vector<std::string> touched;
    const auto client = server.start();
    run(subscribe_and_touch(client, &touched));
    // Twice because a stream was replaced, and three times because the resource was touched.
    EXPECT_THAT(updated, ElementsAre("file:///a", "file:///b", "file:///a", "file:///b",
                                     "file:///b", "file:///b"));
}

Task<> subscribe_and_lose(std::shared_ptr<McpClient> client, std::string* touched) {
    co_await client->subscribe("file:///a");
    McpCall call("die", {});
    Task<JsonObject> dying = client->call(std::move(call));
    const Outcome<JsonObject> died = co_await outcome_of(std::move(dying));
    EXPECT_FALSE(died.ok());
    *touched = co_await touch(client);
}

TEST(McpSubscriptions, LostConnection_IsSubscribedAgain) {
    for (const std::string era : {"modern", "2025-11-25"}) {
        std::string touched;
        const auto client = FakeServer(era).start();
        run(subscribe_and_lose(client, &touched));
        EXPECT_EQ(touched, "file:///a") << era;
        run(client->close());
    }
}

}  // namespace
}  // namespace cubepi
