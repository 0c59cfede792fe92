// The tools of MCP servers in turns of the gateway: the rules for the sender decide about them, also in sub-agents, and a server that
// does not start harms nothing.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <app/mcp/mcp_hub.hpp>
#include <app/mcp/mcp_settings.hpp>
#include <app/mcp/mcp_tool_rule.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>

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
               const std::string& mode = "modern", bool is_shared = false) {
    // tee writes to its standard output first, which is the file here: a request is in it before the server reads it.
    const std::string command = "tee /dev/fd/3 3>&1 >> '" + requests_file(home).string() +
                                "' | python3 '" +
                                testing::source_path("src/cubepi/mcp/fake_server.py") + "' " + mode;
    home.configure(std::string(is_shared ? "{shared_workspace: true, " : "{") +
                   R"(http: {listen: "127.0.0.1:0", operators: [olga]}, rules: [)" + rules +
                   "]}\nmcp:\n  broken: {command: no-such-mcp-server}\n  fake: {command: sh, "
                   "args: [-c, \"" +
                   command + "\"]}");
}

HttpReply post(std::uint16_t port, JsonObject message) {
    message["session"] = "s1";
    return run(post_message(port, std::move(message)));
}

std::string requests_in(const GatewayHome& home) {
    std::ifstream file(requests_file(home));
    return std::string(std::istreambuf_iterator<char>(file), {});
}

bool was_called(const GatewayHome& home) {
    const std::string text = requests_in(home);
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

constexpr const char* calls_ask =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "mcp__fake__ask", "arguments": {}}]}]})";
constexpr const char* continues = R"({"tokens_per_second": 100000, "answers": ["Done."]})";

std::size_t calls_in(const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("tools/call"); at != std::string::npos;
         at = text.find("tools/call", at + 1))
        ++count;
    return count;
}

TEST(GatewayMcp, D176_ServersQuestion_IsAnsweredAfterRestart) {
    const GatewayHome home;
    configure(home, R"({user: ann, allow: ["mcp__fake__ask: *"]})");
    std::string name;
    {
        GatewayProcess gateway(home, {"--script", home.script(calls_ask)});
        const std::uint16_t port = gateway.wait_until_running();
        const HttpReply asked = post(port, {{"text", "call it"}, {"user", "ann"}});
        const Json output = asked.json().at("outputs").at(0);
        EXPECT_EQ(output.at("kind"), "question") << asked.body;
        EXPECT_NE(asked.body.find("Who are you?"), std::string::npos) << asked.body;
        EXPECT_EQ(asked.body.find("opaque"), std::string::npos) << asked.body;
        name = output.at("question").at("request_id").as_string();
        gateway.kill();
    }
    GatewayProcess gateway(home, {"--script", home.script(continues)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply refused =
        post(port, {{"answer_to", name}, {"answer", {{"name", "Bob"}}}, {"user", "bob"}});
    EXPECT_NE(refused.text().find("You may not answer"), std::string::npos) << refused.body;
    const HttpReply answered =
        post(port, {{"answer_to", name}, {"answer", {{"name", "Ann"}}}, {"user", "ann"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    const std::string text = requests_in(home);
    EXPECT_NE(text.find("inputResponses"), std::string::npos) << text;
    EXPECT_EQ(calls_in(text), 2U) << text;
}

/// Returns the question to the user with which the first turn ends.
Json first_question(std::uint16_t port) {
    const HttpReply asked = post(port, {{"text", "call it"}, {"user", "ann"}});
    EXPECT_NE(asked.body.find("Who are you?"), std::string::npos) << asked.body;
    return asked.json().at("outputs").at(0).at("question").at("request_id");
}

HttpReply answer(std::uint16_t port, const Json& question) {
    return post(port, {{"answer_to", question}, {"answer", {{"name", "Ann"}}}, {"user", "ann"}});
}

constexpr const char* calls_ask_and_ends =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "mcp__fake__ask", "arguments": {}}]}, "Done."]})";

/// The server waits on its connection while the turn has ended.
TEST(GatewayMcp, D130_SessionsQuestion_IsAnsweredByLaterMessage) {
    const GatewayHome home;
    configure(home, R"({user: ann, allow: ["mcp__fake__ask: *"]})", "2025-11-25");
    GatewayProcess gateway(home, {"--script", home.script(calls_ask_and_ends)});
    const std::uint16_t port = gateway.wait_until_running();
    const Json question = first_question(port);
    const HttpReply answered = answer(port, question);
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    const std::string text = requests_in(home);
    EXPECT_EQ(calls_in(text), 1U) << text;
    EXPECT_NE(text.find(R"("action":"accept")"), std::string::npos) << text;
}

TEST(GatewayMcp, D130_SessionsQuestionAfterRestart_StatesTheLoss) {
    const GatewayHome home;
    configure(home, R"({user: ann, allow: ["mcp__fake__ask: *"]})", "2025-11-25");
    Json question;
    {
        GatewayProcess gateway(home, {"--script", home.script(calls_ask)});
        question = first_question(gateway.wait_until_running());
        gateway.kill();
    }
    GatewayProcess gateway(home, {"--script", home.script(continues)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply answered = answer(port, question);
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    const std::string text = requests_in(home);
    EXPECT_EQ(calls_in(text), 1U) << text;
    EXPECT_EQ(text.find(R"("action":"accept")"), std::string::npos) << text;
}

constexpr const char* calls_task =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "mcp__fake__task", "arguments": {}}]}]})";

/// The server of the second gateway has the task of the first one.
TEST(GatewayMcp, D132_TasksQuestion_IsAnsweredAfterRestart) {
    const GatewayHome home;
    const std::string tasks = (home.path() / "tasks").string();
    configure(home, R"({user: ann, allow: ["mcp__fake__task: *"]})",
              "'modern,extra,tasks,curious,tasks in=" + tasks + "'");
    Json question;
    {
        GatewayProcess gateway(home, {"--script", home.script(calls_task)});
        question = first_question(gateway.wait_until_running());
        gateway.kill();
    }
    GatewayProcess gateway(home, {"--script", home.script(continues)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply answered = answer(port, question);
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    const std::string text = requests_in(home);
    EXPECT_EQ(calls_in(text), 1U) << text;
    EXPECT_NE(text.find("tasks/update"), std::string::npos) << text;
}

constexpr const char* calls_roots =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "mcp__fake__roots", "arguments": {}}]}, "Done."]})";

TEST(GatewayMcp, Roots_AreTheSharedWorkspace) {
    for (const bool is_shared : {true, false}) {
        const GatewayHome home;
        configure(home, R"({user: ann, allow: ["mcp__fake__roots: *"]})", "modern,extra",
                  is_shared);
        GatewayProcess gateway(home, {"--script", home.script(calls_roots)});
        const std::uint16_t port = gateway.wait_until_running();
        const HttpReply answered = post(port, {{"text", "call it"}, {"user", "ann"}});
        EXPECT_EQ(answered.text(), "Done.") << answered.body;
        const std::string sent = requests_in(home);
        EXPECT_EQ(sent.find("file://" + home.workspaces().string()) != sent.npos, is_shared)
            << sent;
    }
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

/// An MCP server whose description of its tool is in a file.
constexpr const char* described_server = R"(import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    method = asked["method"]
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "echo", "description": open("about").read(),
                                       "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        open("called", "a").write("x")
        answer["result"] = {"content": [{"type": "text", "text": "echoed"}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
)";

/// Returns the rule that an answer "always" adds for the server's tool.
std::string rule_of(const std::filesystem::path& config) {
    const std::vector<app::McpServerSettings> servers = app::configured_mcp_servers(config);
    app::McpHub hub(servers, EnvironmentPolicy(), Runtime::standard());
    std::string rule;
    run(hub.start(std::chrono::seconds(60)));
    for (const AgentTool& tool : hub.tools()) {
        const std::optional<std::string> server = app::server_identity(servers, tool.name.str());
        if (server) rule = app::mcp_tool_rule(tool, *server)->text();
    }
    EXPECT_TRUE(rule.starts_with("mcp__fake__echo: sha256:")) << rule;
    return rule;
}

TEST(GatewayMcp, D148_RuleForDefinition_HoldsForThatOnly) {
    const GatewayHome home;
    const std::filesystem::path place = home.path();
    std::ofstream(place / "server.py") << described_server;
    std::ofstream(place / "about") << "echoes";
    const auto configure_rule = [&](const std::string& rules) {
        home.configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}, rules: [)" + rules +
                       "]}\nmcp:\n  fake: {command: python3, args: [server.py], cwd: '" +
                       place.string() + "'}");
    };
    configure_rule("");
    const std::string rule = rule_of(place / ".config/cubepi/config.yaml");
    configure_rule("{user: ann, allow: [\"" + rule + "\"]}");
    const auto asks = [&](const std::string& session, const char* user) {
        GatewayProcess gateway(home, {"--script", home.script(calls_echo)});
        const std::uint16_t port = gateway.wait_until_running();
        const HttpReply reply =
            run(post_message(port, {{"text", "call it"}, {"user", user}, {"session", session}}));
        return reply.json().at("outputs").at(0).at("kind") == "question";
    };
    EXPECT_FALSE(asks("s1", "ann"));
    EXPECT_TRUE(std::filesystem::exists(place / "called"));
    EXPECT_TRUE(asks("s2", "eve")) << "the rule is another user's";
    std::ofstream(place / "about") << "deletes";
    EXPECT_TRUE(asks("s3", "ann"));
    EXPECT_EQ(std::filesystem::file_size(place / "called"), 1u);
}

}  // namespace
}  // namespace cubepi::gateway_tests
