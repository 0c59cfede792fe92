// The tools of MCP servers in turns of the gateway: the rules for the sender decide about them, also in sub-agents, and a server that
// does not start harms nothing.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <cubepi/core/run.hpp>

#include "gateway_process.hpp"
#include "source_tree.hpp"

namespace cubepi::gateway_tests {
namespace {

constexpr const char* calls_echo =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "mcp__fake__echo", "arguments": {"text": "hello"}}]}, "Done."]})";
constexpr const char* has_echo_called =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "subagent", "arguments": {"prompt": "call it"}}]}, {"stop_reason": "tool_use", "content": [{"type": "tool_call",
        "id": "c2", "name": "mcp__fake__echo", "arguments": {"text": "hello"}}]}, "Called.", "Done."]})";

std::filesystem::path requests_file(const GatewayHome& home) { return home.path() / "requests"; }

constexpr const char* dispatches_echo =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "deferred_tool_call", "arguments": {"tool_name": "mcp__fake__echo", "arguments": {"text": "hello"}}}]},
        "Done."]})";

/// Configures a server that cannot be started, and one whose requests are copied to a file.
void configure(const GatewayHome& home, const std::string& rules,
               const std::string& mode = "modern") {
    const std::string command = "tee -a '" + requests_file(home).string() + "' | python3 '" +
                                testing::source_path("src/cubepi/mcp/fake_server.py") + "' " + mode;
    home.configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}, rules: [)" + rules +
                   "]}\nmcp:\n  broken: {command: no-such-mcp-server}\n  fake: {command: sh, "
                   "args: [-c, \"" +
                   command + "\"]}");
}

HttpReply post(std::uint16_t port, JsonObject message) {
    message["session"] = "s1";
    return run(post_message(port, std::move(message)));
}

bool was_called(const GatewayHome& home) {
    std::ifstream file(requests_file(home));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.find("tools/call") != std::string::npos && text.find("hello") != std::string::npos;
}

TEST(GatewayMcp, Tool_IsAskedAboutAndCalled) {
    const GatewayHome home;
    configure(home, "");
    GatewayProcess gateway(home, {"--script", home.script(calls_echo)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply asked = post(port, {{"text", "call it"}, {"user", "ann"}});
    EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
    EXPECT_NE(asked.body.find("mcp__fake__echo"), std::string::npos) << asked.body;
    EXPECT_FALSE(was_called(home));
    const HttpReply answered = post(port, {{"text", ",approve c1"}, {"user", "olga"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    EXPECT_TRUE(was_called(home));
}

TEST(GatewayMcp, D164_DeferredTool_IsAskedAboutAndCalled) {
    const GatewayHome home;
    configure(home, "", "modern,fifty");
    GatewayProcess gateway(home, {"--script", home.script(dispatches_echo)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply asked = post(port, {{"text", "call it"}, {"user", "ann"}});
    EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
    EXPECT_NE(asked.body.find("mcp__fake__echo"), std::string::npos) << asked.body;
    EXPECT_FALSE(was_called(home));
    const HttpReply answered = post(port, {{"text", ",approve c1"}, {"user", "olga"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    EXPECT_TRUE(was_called(home));
}

TEST(GatewayMcp, Rule_AllowsToolInSubagent) {
    const GatewayHome home;
    configure(home, R"({user: ann, allow: ["mcp__fake__echo: *", "subagent: *"]})");
    GatewayProcess gateway(home, {"--script", home.script(has_echo_called)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply answered = post(port, {{"text", "call it"}, {"user", "ann"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    EXPECT_TRUE(was_called(home));
}

}  // namespace
}  // namespace cubepi::gateway_tests
