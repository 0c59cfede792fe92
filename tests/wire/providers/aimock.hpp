#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/provider/provider.hpp>

#include "../net/child_process.hpp"

// The third-party mock @copilotkit/aimock, which implements the protocols of all providers. Its journal records requests.

namespace cubepi::wire {

inline std::string mocks_directory() {
    const char* given = std::getenv("CUBEPI_MOCKS_DIR");
    return given ? given : CUBEPI_MOCKS_DIR;
}

/// The configuration of a test's provider.
struct Given {
    std::vector<std::pair<std::string, std::string>> headers = {};
    int retries = 0;
};

template <class Options>
Options options_for(std::string base_url, Given given) {
    Options options;
    options.api_key = "sk-test-key";
    options.base_url = std::move(base_url);
    options.extra_headers = std::move(given.headers);
    options.retry.max_retries = given.retries;
    options.retry.base_delay = std::chrono::milliseconds(1);
    return options;
}

/// One server for all tests of a suite. Its answers are in aimock_server.mjs.
class AimockTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        const std::string script = std::string(CUBEPI_PROVIDER_WIRE_DIR) + "/aimock_server.mjs";
        server = std::make_unique<ChildProcess>(
            std::vector<std::string>{"node", script, mocks_directory()});
        const std::string line = server->read_line();
        ASSERT_FALSE(line.empty())
            << "aimock did not start: run tools/setup, which installs it in tools/mocks";
        url = std::string(boost::json::parse(line).at("url").as_string());
    }
    static void TearDownTestSuite() { server.reset(); }

    void SetUp() override { control("POST", "/__aimock/reset/journal"); }

    static Json control(const std::string& method, const std::string& path) {
        HttpRequest request(method, url + path);
        const auto exchange = [](HttpRequest asked) -> Task<std::string> {
            HttpClient client;
            HttpResponse response = co_await client.send(std::move(asked));
            std::string body;
            while (co_await response.body->read(body)) {
            }
            co_return body;
        };
        const std::string body = run(exchange(std::move(request)));
        boost::json::error_code ignored;
        return boost::json::parse(body, ignored);
    }

    static Json journal() { return control("GET", "/__aimock/journal"); }

    static AssistantMessage ask(const BoundModel& model, std::string text,
                                std::shared_ptr<const ToolDefinitions> tools = {}) {
        MessageList messages{user_message(std::move(text))};
        return run(model.generate(std::move(messages), "Be brief.", std::move(tools)));
    }

    static std::shared_ptr<const ToolDefinitions> weather_tool() {
        ToolDefinition tool;
        tool.name = "weather";
        tool.description = "Weather of a city.";
        tool.parameters = std::make_shared<const Json>(boost::json::parse(
            R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"]})"));
        ToolDefinitions tools;
        tools.push_back(std::move(tool));
        return std::make_shared<const ToolDefinitions>(std::move(tools));
    }

    static Message weather_result(const ToolCall& call) {
        ToolResultMessage result;
        result.tool_call_id = call.id;
        result.tool_name = "weather";
        result.content.emplace_back(TextContent{"21.5"});
        return result;
    }

    static inline std::unique_ptr<ChildProcess> server;
    static inline std::string url;
};

}  // namespace cubepi::wire
