// The tools of MCP servers in turns of the gateway: the rules for the sender decide about them, also in sub-agents, and a server that
// does not start harms nothing.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <app/conversation/tool_approval.hpp>
#include <app/mcp/mcp_hub.hpp>
#include <app/mcp/mcp_settings.hpp>
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

constexpr const char* continues = R"({"tokens_per_second": 100000, "answers": ["Done."]})";

std::filesystem::path requests_file(const GatewayHome& home) { return home.path() / "requests"; }

constexpr const char* dispatches_echo =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "deferred_tool_call", "arguments": {"tool_name": "mcp__fake__echo", "arguments": {"text": "hello"}}}]},
        "Done."]})";

/// Configures a server that cannot be started, and one whose requests are copied to a file.
void configure(const GatewayHome& home, const std::string& rules,
               const std::string& mode = "modern", bool is_shared = false,
               const std::string& start_wait = "60") {
    // tee writes to its standard output first, which is the file here: a request is in it before the server reads it.
    const std::string command = "tee /dev/fd/3 3>&1 >> '" + requests_file(home).string() +
                                "' | python3 '" +
                                testing::source_path("src/cubepi/mcp/fake_server.py") + "' " + mode;
    home.configure(std::string(is_shared ? "{shared_workspace: true, " : "{") +
                   R"(http: {listen: "127.0.0.1:0", operators: [olga]}, rules: [)" + rules +
                   "]}\nmcp:\n  broken: {command: no-such-mcp-server}\n  fake: {command: sh, "
                   "args: [-c, \"" +
                   command + "\"]}\nmcp_start_wait: " + start_wait);
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

/// The turn of the answer does not begin before the server of the call has started, however long others may wait for theirs.
TEST(GatewayMcp, D139_ApprovedCall_WaitsForItsServer) {
    const GatewayHome home;
    configure(home, "");
    {
        GatewayProcess gateway(home, {"--script", home.script(calls_echo)});
        const HttpReply asked =
            post(gateway.wait_until_running(), {{"text", "call it"}, {"user", "ann"}});
        EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
        gateway.kill();
    }
    configure(home, "", "modern,slow", false, "0.001");
    GatewayProcess gateway(home, {"--script", home.script(continues)});
    const HttpReply answered =
        post(gateway.wait_until_running(), {{"text", ",approve c1"}, {"user", "olga"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    EXPECT_TRUE(was_called(home));
}

constexpr const char* calls_ask =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "mcp__fake__ask", "arguments": {}}]}]})";

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

/// A process of the fake server over HTTP, which is killed with its object.
class WebServerProcess {
public:
    explicit WebServerProcess(const std::string& mode) {
        std::array<int, 2> ends = {};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        const std::string script = testing::source_path("src/cubepi/mcp/fake_server.py");
        pid_ = ::fork();
        if (pid_ == 0) {
            ::dup2(ends[1], STDOUT_FILENO);
            ::execlp("/usr/bin/python3", "python3", script.c_str(), mode.c_str(), nullptr);
            ::_exit(127);
        }
        ::close(ends[1]);
        for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) port_ += c;
        ::close(ends[0]);
    }
    ~WebServerProcess() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    WebServerProcess(const WebServerProcess&) = delete;
    WebServerProcess& operator=(const WebServerProcess&) = delete;
    std::string url() const { return "http://127.0.0.1:" + port_ + "/mcp"; }

private:
    pid_t pid_ = -1;
    std::string port_;
};

TEST(GatewayMcp, D130_QuestionOverHttp_IsAnsweredByLaterMessage) {
    const GatewayHome home;
    const WebServerProcess server("2025-11-25,http,log=" + requests_file(home).string());
    home.configure(
        R"({http: {listen: "127.0.0.1:0"}, rules: [{user: ann, allow: ["mcp__fake__ask: *"]}]})"
        "\nmcp_start_wait: 60\nmcp:\n  fake: {url: \"" +
        server.url() + "\"}");
    GatewayProcess gateway(home, {"--script", home.script(calls_ask_and_ends)});
    const std::uint16_t port = gateway.wait_until_running();
    const Json question = first_question(port);
    const HttpReply answered = answer(port, question);
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    const std::string calls = requests_in(home);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 1) << calls;
}

/// The ways in which the gateway, or its configuration, ends while a server waits on its connection.
class WaitingCall : public ::testing::Test {
protected:
    WaitingCall() {
        configure(home, R"({user: ann, allow: ["mcp__fake__ask: *"]})", "2025-11-25");
        gateway = std::make_unique<GatewayProcess>(
            home, std::vector<std::string>{"--script", home.script(calls_ask)});
        port = gateway->wait_until_running();
        question = first_question(port);
    }
    void restart() {
        gateway = std::make_unique<GatewayProcess>(
            home, std::vector<std::string>{"--script", home.script(continues)});
        port = gateway->wait_until_running();
    }
    /// The question is open, its answer ends the run, and neither the answer nor the call is sent again.
    void expect_stated_loss() {
        const HttpReply answered = answer(port, question);
        EXPECT_EQ(answered.text(), "Done.") << answered.body;
        const std::string text = requests_in(home);
        EXPECT_EQ(calls_in(text), 1U) << text;
        EXPECT_EQ(text.find(R"("action":"accept")"), std::string::npos) << text;
    }

    GatewayHome home;
    std::unique_ptr<GatewayProcess> gateway;
    std::uint16_t port = 0;
    Json question;
};

TEST_F(WaitingCall, D130_Reload_EndsItAndStatesTheLoss) {
    (void)home.script(continues);
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    expect_stated_loss();
}

TEST_F(WaitingCall, D130_Drain_DoesNotWaitForIt) {
    EXPECT_EQ(run_command(home, {"gateway", "drain"}).status, 0);
    EXPECT_EQ(gateway->wait(), 0) << gateway->output();
    restart();
    expect_stated_loss();
}

TEST_F(WaitingCall, D130_Stop_StatesTheLoss) {
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0) << gateway->output();
    restart();
    expect_stated_loss();
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
                       place.string() + "'}\nmcp_start_wait: 60");
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
