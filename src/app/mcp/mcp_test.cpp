#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "failure.hpp"
#include "mcp/mcp_hub.hpp"
#include "mcp/mcp_offers.hpp"
#include "mcp/mcp_serve.hpp"
#include "mcp/mcp_settings.hpp"
#include "program.hpp"
#include "source_tree.hpp"

// The servers that a run calls first when it continues.

namespace cubepi::app {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using What = McpArguments::What;

std::string fake_server() { return testing::source_path("src/cubepi/mcp/fake_server.py"); }

McpServerSettings fake(const std::string& name, const std::string& mode) {
    McpServerSettings server;
    server.name = name;
    server.command = "/usr/bin/python3";
    server.args = {fake_server(), mode};
    return server;
}

std::string problem_of(const std::string& json) {
    try {
        (void)mcp_settings(parse_json(json));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(McpSettings, CommonShape_IsRead) {
    const auto servers = mcp_settings(parse_json(
        R"({"git":{"command":"uvx","args":["mcp-server-git",3],"env":{"LOG":1},"cwd":"/x"},
            "web":{"type":"http","url":"https://host/mcp?key=1","headers":{"A":"b"},"disabled":true}})"));
    ASSERT_EQ(servers.size(), 2U);
    EXPECT_THAT(servers[0].args, ElementsAre("mcp-server-git", "3"));
    EXPECT_EQ(servers[0].env.at("LOG"), "1");
    EXPECT_EQ(servers[0].address(), "uvx mcp-server-git 3");
    EXPECT_EQ(servers[1].address(), "https://host/mcp");
    EXPECT_TRUE(servers[1].disabled);
    EXPECT_TRUE(mcp_settings(Json()).empty());
}

TEST(McpSettings, Mistakes_AreNamed) {
    EXPECT_THAT(problem_of("[]"), HasSubstr("must be a mapping"));
    EXPECT_THAT(problem_of(R"({"a b":{"command":"x"}})"), HasSubstr("'a b'"));
    EXPECT_THAT(problem_of(R"({"git":{}})"), HasSubstr("either a command or a url"));
    EXPECT_THAT(problem_of(R"({"git":{"command":"x","url":"y"}})"), HasSubstr("either"));
    EXPECT_THAT(problem_of(R"({"git":{"comand":"x"}})"), HasSubstr("unknown key 'comand'"));
    EXPECT_THAT(problem_of(R"({"git":{"command":"x","args":"y"}})"), HasSubstr("args"));
    EXPECT_THAT(problem_of(R"({"git":{"command":"x","env":{"A":[]}}})"), HasSubstr("env"));
    EXPECT_THAT(problem_of(R"({"git":{"command":"x","sampling":"always"}})"),
                HasSubstr("sampling must be ask or off"));
    EXPECT_THAT(problem_of(R"({"git":{"command":"x","roots":"all"}})"), HasSubstr("roots must be"));
    EXPECT_THAT(problem_of(R"({"web":{"url":"x","oauth":{"client":"c"}}})"), HasSubstr("'client'"));
    EXPECT_THAT(problem_of(R"({"web":{"url":"x","oauth":{"client_secret":"c"}}})"),
                HasSubstr("need client_id and issuer"));
    EXPECT_THAT(problem_of(R"({"web":{"url":"x","oauth":{"grant":"password"}}})"),
                HasSubstr("grant must be"));
    EXPECT_THAT(problem_of(R"({"git":{"command":"x","oauth":{"scope":"s"}}})"),
                HasSubstr("for a server with a url"));
}

TEST(McpSettings, D163_Sampling_IsOffUntilTheUserAllowsIt) {
    const auto servers = mcp_settings(parse_json(
        R"({"a":{"command":"x"},"b":{"command":"x","sampling":"ask","roots":false},
            "c":{"command":"x","sampling":"off"}})"));
    EXPECT_FALSE(servers.at(0).sampling);
    EXPECT_TRUE(servers.at(0).roots);
    EXPECT_TRUE(servers.at(1).sampling);
    EXPECT_FALSE(servers.at(1).roots);
    EXPECT_FALSE(servers.at(2).sampling);
    const ProjectMcpServers project = project_mcp_servers(
        "/p/.mcp.json", R"({"mcpServers":{"d":{"command":"x","sampling":"ask"}}})");
    EXPECT_FALSE(project.servers.at(0).sampling);
}

TEST(McpSettings, MissingVariable_IsNamedWithoutValues) {
    McpServerSettings server = fake("git", "modern");
    server.env["TOKEN"] = "secret-${MCP_TEST_MISSING}";
    try {
        (void)mcp_client(server, EnvironmentPolicy(), Runtime::standard());
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("MCP_TEST_MISSING"));
        EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
    }
}

Task<> start(McpHub* hub) { co_await hub->start(std::chrono::seconds(60)); }

TEST(McpSettings, D148_NameOfTwoServers_IdentifiesNone) {
    std::vector<McpServerSettings> servers(2);
    servers[0].name = "a";
    servers[1].name = "a__b";
    EXPECT_FALSE(server_identity(servers, "mcp__a__b__x"));
    EXPECT_EQ(server_identity(servers, "mcp__a__x"), servers[0].identity());
    EXPECT_FALSE(server_identity(servers, "mcp__c__x"));
    servers.erase(servers.begin());
    EXPECT_EQ(server_identity(servers, "mcp__a__b__x"), servers[0].identity());
}

TEST(McpHubTest, BrokenServer_IsReportedOnceAndSkipped) {
    McpServerSettings disabled = fake("off", "modern");
    disabled.disabled = true;
    McpHub hub({fake("broken", "die"), fake("good", "modern"), disabled}, EnvironmentPolicy(),
               Runtime::standard());
    run(start(&hub));
    const std::vector<std::string> problems = hub.take_problems();
    EXPECT_THAT(problems, ElementsAre(HasSubstr("broken exited with status 4")));
    EXPECT_TRUE(hub.take_problems().empty());
    const std::vector<AgentTool> tools = hub.tools();
    ASSERT_FALSE(tools.empty());
    for (const AgentTool& tool : tools) {
        EXPECT_EQ(tool.name.str().substr(0, 11), "mcp__good__");
        EXPECT_EQ(tool.risk_level, ToolRisk::irreversible);
    }
}

Task<> start_briefly(McpHub* hub) { co_await hub->start(std::chrono::milliseconds(10)); }

TEST(McpHubTest, SilentServer_DelaysNothing) {
    McpHub hub({fake("silent", "silent")}, EnvironmentPolicy(), Runtime::standard());
    run(start_briefly(&hub));
    EXPECT_THAT(hub.take_problems(), ElementsAre(HasSubstr("has not answered yet")));
    EXPECT_TRUE(hub.tools().empty());
}

Task<std::size_t> wait_for_tools(McpHub* hub) {
    while (hub->tools().empty()) co_await yield_now();
    co_return hub->tools().size();
}

TEST(McpHubTest, FailedServer_IsTriedAgainAfterDelay) {
    const ScopedTestDirectory directory;
    const auto clock = std::make_shared<testing::ManualClock>();
    auto runtime = std::make_shared<Runtime>();
    runtime->clock = clock;
    const std::string mark = (directory.path() / "started").string();
    McpHub hub({fake("late", "modern,once=" + mark)}, EnvironmentPolicy(), runtime);
    run(start(&hub));
    EXPECT_THAT(hub.take_problems(), ElementsAre(HasSubstr("late exited with status 4")));
    EXPECT_TRUE(hub.tools().empty());
    clock->advance(std::chrono::minutes(1));
    EXPECT_EQ(run(wait_for_tools(&hub)), 14U);
    EXPECT_TRUE(hub.take_problems().empty());
}

Task<bool> reconnect(McpHub* hub, std::string name) {
    co_return co_await hub->reconnect(std::move(name), std::chrono::seconds(60));
}

TEST(McpHubTest, Status_ShowsServersAndReconnects) {
    const ScopedTestDirectory directory;
    const std::string mark = (directory.path() / "mark").string();
    McpHub hub({fake("late", "modern,once=" + mark)}, EnvironmentPolicy(), Runtime::standard());
    run(start(&hub));
    EXPECT_THAT(hub.status().at(0).problem, HasSubstr("status 4"));
    EXPECT_TRUE(hub.status().at(0).program.empty());
    EXPECT_FALSE(run(reconnect(&hub, "other")));
    EXPECT_TRUE(run(reconnect(&hub, "late")));
    // The server is not started again before its delay has passed.
    EXPECT_FALSE(hub.status().at(0).is_connecting);
    McpHub good({fake("good", "modern")}, EnvironmentPolicy(), Runtime::standard());
    run(start(&good));
    EXPECT_TRUE(run(reconnect(&good, "")));
    EXPECT_EQ(good.status().at(0).tools, 14U);
    EXPECT_THAT(good.status().at(0).program, HasSubstr("protocol 2026-07-28"));
    EXPECT_TRUE(good.status().at(0).problem.empty());
}

TEST(McpHubTest, RepeatedNames_AreReportedAndSkipped) {
    McpHub hub({fake("same", "modern"), fake("same", "modern")}, EnvironmentPolicy(),
               Runtime::standard());
    run(start(&hub));
    EXPECT_EQ(hub.tools().size(), 14U);
    EXPECT_EQ(hub.tools().size(), 14U);
    EXPECT_EQ(hub.take_problems().size(), 14U);
}

TEST(McpPromptInput, ServerAndPrompt_AreRead) {
    const auto input = mcp_prompt_input("/git:review  monday fast ");
    ASSERT_TRUE(input);
    EXPECT_EQ(input->server, "git");
    EXPECT_EQ(input->prompt, "review");
    EXPECT_EQ(input->arguments, "monday fast");
    for (const std::string text :
         {"/git", "git:x", "/git:", "/:x", "//git:x", "/a/b:c", "/git:a:b"})
        EXPECT_FALSE(mcp_prompt_input(text)) << text;
}

std::string arguments_problem(const McpPrompt& prompt, const std::string& words) {
    try {
        (void)mcp_prompt_arguments(prompt, words);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(McpPromptInput, Words_AreArgumentsInOrder) {
    McpPrompt prompt;
    prompt.name = "review";
    EXPECT_TRUE(mcp_prompt_arguments(prompt, " ").empty());
    EXPECT_THAT(arguments_problem(prompt, "x"), HasSubstr("no arguments"));
    prompt.arguments = {{"day", "", true}, {"focus", "", false}};
    const auto values = mcp_prompt_arguments(prompt, "monday the long text");
    EXPECT_EQ(values.at("day"), "monday");
    EXPECT_EQ(values.at("focus"), "the long text");
    EXPECT_EQ(mcp_prompt_arguments(prompt, "monday").size(), 1U);
    EXPECT_THAT(arguments_problem(prompt, ""), HasSubstr("needs day [focus]"));
}

class McpCommand : public ::testing::Test {
protected:
    McpCommand() {
        ::setenv("XDG_CONFIG_HOME", directory_.path().c_str(), 1);
        std::filesystem::create_directories(directory_.path() / "cubepi");
        configure("mcp:\n  good: {command: python3, args: [" + fake_server() +
                  ", modern]}\n  broken: {command: no-such-mcp-server}\n");
    }
    ~McpCommand() override { ::unsetenv("XDG_CONFIG_HOME"); }

    void configure(const std::string& text) {
        std::ofstream(directory_.path() / "cubepi" / "config.yaml") << text;
    }
    int use(What what, const std::string& server = {}, const std::string& tool = {},
            const std::string& arguments = {}) {
        McpArguments made;
        made.what = what;
        made.server = server;
        made.tool = tool;
        made.arguments = arguments;
        out.str({});
        err.str({});
        return use_mcp(made, out, err);
    }

    const std::filesystem::path& directory() const { return directory_.path(); }
    std::string text() const {
        std::ifstream file(directory() / "cubepi" / "config.yaml");
        return std::string(std::istreambuf_iterator<char>(file), {});
    }

    std::ostringstream out;
    std::ostringstream err;

private:
    ScopedTestDirectory directory_;
};

TEST_F(McpCommand, List_ShowsServersWithoutConnecting) {
    EXPECT_EQ(use(What::list), exit_ok);
    EXPECT_THAT(out.str(), HasSubstr("broken  no-such-mcp-server"));
    configure("");
    EXPECT_EQ(use(What::list), exit_ok);
    EXPECT_THAT(err.str(), HasSubstr("No MCP servers are configured"));
}

TEST_F(McpCommand, Check_ReportsEachServer) {
    EXPECT_EQ(use(What::check), exit_failed);
    EXPECT_THAT(out.str(), HasSubstr("good: fake 1, protocol 2026-07-28, 14 tools"));
    EXPECT_THAT(err.str(), HasSubstr("broken: The program no-such-mcp-server was not found"));
    EXPECT_EQ(use(What::check, "good"), exit_ok);
    EXPECT_THROW(use(What::check, "other"), Error);
}

TEST_F(McpCommand, Call_PrintsTheResult) {
    EXPECT_EQ(use(What::call, "good", "echo", R"({"text":"hi"})"), exit_ok);
    EXPECT_EQ(out.str(), "echo: hi\n");
    EXPECT_EQ(use(What::call, "good", "fail"), exit_failed);
    EXPECT_EQ(out.str(), "It failed.\n");
    EXPECT_THROW(use(What::call, "good", "echo", "7"), Error);
}

TEST_F(McpCommand, AddAndRemove_EditTheConfiguration) {
    configure("# mine\nmodel: m\nmcp:\n  good: {command: python3}  # keep\n");
    McpArguments added;
    added.what = What::add;
    added.server = "git";
    added.command = {"uvx", "mcp-server-git", "--verbose"};
    added.env = {"TOKEN=${GIT_TOKEN}"};
    EXPECT_EQ(use_mcp(added, out, err), exit_ok);
    EXPECT_THAT(out.str(), HasSubstr("cubepi mcp check git"));
    EXPECT_THROW(use_mcp(added, out, err), Error);
    McpArguments web;
    web.what = What::add;
    web.server = "web";
    web.command = {"https://host/mcp"};
    web.headers = {"Authorization: Bearer ${T}"};
    EXPECT_EQ(use_mcp(web, out, err), exit_ok);
    const auto servers = configured_mcp_servers(directory() / "cubepi" / "config.yaml");
    ASSERT_EQ(servers.size(), 3U);
    EXPECT_THAT(servers[1].args, ElementsAre("mcp-server-git", "--verbose"));
    EXPECT_EQ(servers[1].env.at("TOKEN"), "${GIT_TOKEN}");
    EXPECT_EQ(servers[2].headers.at("Authorization"), "Bearer ${T}");
    EXPECT_EQ(use(What::remove, "git"), exit_ok);
    EXPECT_EQ(use(What::remove, "web"), exit_ok);
    EXPECT_THROW(use(What::remove, "web"), Error);
    EXPECT_EQ(text(), "# mine\nmodel: m\nmcp:\n  good: {command: python3}  # keep\n");
}

TEST_F(McpCommand, InvalidServer_IsNotAdded) {
    const std::string before = text();
    McpArguments added;
    added.what = What::add;
    added.server = "a b";
    added.command = {"x"};
    EXPECT_THROW(use_mcp(added, out, err), Error);
    added.server = "ok";
    added.env = {"no-value"};
    EXPECT_THROW(use_mcp(added, out, err), Error);
    added.env = {};
    added.headers = {"A: b"};
    EXPECT_THROW(use_mcp(added, out, err), Error);
    EXPECT_EQ(text(), before);
}

Task<> note_report(std::vector<std::string>* reports, Json text) {
    reports->emplace_back(text.as_string());
    co_return;
}

Task<AgentToolResult> call_agent(const AgentTool* tool, std::vector<std::string>* reports) {
    ToolContext context(SharedString("1"), tool->name, {}, Runtime::standard(),
                        [reports](Json text) { return note_report(reports, std::move(text)); });
    JsonObject arguments;
    arguments["prompt"] = "list the files";
    MaybeTask<AgentToolResult> called = tool->execute(std::move(arguments), context);
    EXPECT_TRUE(called.is_pending());
    co_return co_await std::move(called).task();
}

TEST_F(McpCommand, WrongArgument_IsReportedBeforeConfiguration) {
    configure("mcp: [");
    const auto problem = [this](const McpArguments& made) {
        try {
            (void)use_mcp(made, out, err);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    McpArguments made;
    made.what = What::serve;
    EXPECT_THAT(problem(made), HasSubstr("config.yaml"));
    made.listen = "0.0.0.0:1";
    EXPECT_THAT(problem(made), HasSubstr("--listen"));
    made.listen = "127.0.0.1:0";
    EXPECT_THAT(problem(made), HasSubstr("CUBEPI_MCP_TOKEN"));
    made.scopes = {"agent"};
    EXPECT_THAT(problem(made), HasSubstr("--scope"));
    made.listen.clear();
    made.issuer = "https://login.example";
    EXPECT_THAT(problem(made), HasSubstr("--issuer needs --listen"));
    made = McpArguments();
    made.what = What::call;
    made.arguments = "7";
    EXPECT_THAT(problem(made), HasSubstr("a JSON object"));
    made.arguments = "{";
    EXPECT_THAT(problem(made), HasSubstr("not JSON"));
    made.what = What::add;
    made.arguments.clear();
    made.server = "a b";
    made.command = {"x"};
    EXPECT_THAT(problem(made), HasSubstr("a b"));
}

TEST_F(McpCommand, AgentTool_AnswersAndReportsItsCalls) {
    ConversationFlags flags;
    flags.model.script = (directory() / "script.json").string();
    std::ofstream(flags.model.script) << R"({"tokens_per_second": 100000, "answers": [
        {"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "list", "arguments": {}}]},
        {"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c2", "name": "shell", "arguments": {"command": "touch x"}}]},
        "Listed."]})";
    const AgentTool tool = mcp_agent_tool(flags);
    std::vector<std::string> reports;
    const AgentToolResult result = run(call_agent(&tool, &reports));
    EXPECT_EQ(result.text(), "Listed.");
    EXPECT_THAT(reports, ElementsAre("calls list", "calls shell"));
    EXPECT_FALSE(std::filesystem::exists("x")) << "no rule allows the command";
    flags.model.script = "missing.json";
    const AgentTool broken = mcp_agent_tool(flags);
    EXPECT_THROW(run(call_agent(&broken, &reports)), Error);
}

using ::testing::IsEmpty;

const std::vector<std::string> servers = {"git", "docs", "a__b"};

ToolCall call(const std::string& id, const std::string& tool, JsonObject arguments = {}) {
    ToolCall made;
    made.id = id;
    made.name = tool;
    made.arguments = std::move(arguments);
    return made;
}

Message calls(const std::vector<ToolCall>& all) {
    AssistantMessage answer;
    for (const ToolCall& one : all) answer.content.emplace_back(one);
    return Message(std::move(answer));
}

Message result(const std::string& id) {
    ToolResultMessage made;
    made.tool_call_id = id;
    return Message(std::move(made));
}

TEST(OpenMcpCalls, CallsWithoutResult_NameTheirServers) {
    MessageList messages;
    messages.push_back(calls({call("1", "mcp__docs__read")}));
    messages.push_back(result("1"));
    messages.push_back(calls({call("1", "mcp__git__log"), call("2", "mcp__docs__read"),
                              call("3", "shell"), call("4", "mcp__other__x")}));
    messages.push_back(result("2"));
    EXPECT_THAT(servers_of_open_calls(messages, servers), ElementsAre("git"));
    messages.push_back(result("1"));
    EXPECT_THAT(servers_of_open_calls(messages, servers), IsEmpty());
}

TEST(OpenMcpCalls, DeferredCall_NamesTheServerOfItsTool) {
    MessageList messages;
    messages.push_back(calls({call("1", "deferred_tool_call", {{"tool_name", "mcp__a__b__x"}})}));
    EXPECT_THAT(servers_of_open_calls(messages, servers), ElementsAre("a__b"));
}

TEST(OpenMcpCalls, Subagent_MayCallAllServers) {
    MessageList messages;
    EXPECT_EQ(servers_of_open_calls(messages, servers), servers) << "nothing is known";
    messages.push_back(calls({call("1", "subagent")}));
    EXPECT_EQ(servers_of_open_calls(messages, servers), servers);
}

}  // namespace

}  // namespace cubepi::app
