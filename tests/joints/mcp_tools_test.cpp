// Servers of MCP in a conversation: many tools, which the model loads, under the rules of each; what servers may ask for.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"
#include "source_tree.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::read_file;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

SentCall dispatched(const std::string& tool) {
    const boost::json::object inner{{"text", "hi"}};
    return {"deferred_tool_call",
            boost::json::serialize(boost::json::object{{"tool_name", tool}, {"arguments", inner}})};
}

class McpConversation : public ::testing::Test {
protected:
    /// Configures a server of the mode. `more` are further keys, of the server and of the file.
    void configure(const std::string& mode, const std::string& of_server = {},
                   const std::string& of_file = {}) const {
        write_file(home.config(), "mcp:\n  fake: {command: python3, args: [\"" +
                                      testing::source_path("src/cubepi/mcp/fake_server.py") +
                                      "\", \"" + mode + "\"]" + of_server + "}\n" +
                                      "mcp_start_wait: 60\n" + of_file);
    }
    std::vector<std::string> chat_arguments(const ModelServer& server) const {
        return {"chat",       "--no-save",  "--provider", "openai",
                "--base-url", server.url(), "-m",         "local"};
    }
    static bool offers(const boost::json::value& body, const std::string& tool) {
        for (const boost::json::value& one : body.at("tools").as_array()) {
            if (one.at("function").at("name").as_string() == tool) return true;
        }
        return false;
    }

    Home home;
};

TEST_F(McpConversation, D164_ManyTools_AreDispatchedUnderTheirRules) {
    configure("modern,fifty", "", "allow: [\"mcp__fake__echo: *\"]\n");
    ModelServer server({chat_answer("", {dispatched("mcp__fake__echo")}), chat_answer("Done.")});
    const Piped run = run_at(home, server, {"--no-save", "go"});
    EXPECT_EQ(run.out, "Done.\n") << run.err;
    const auto bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 2U);
    EXPECT_TRUE(offers(bodies[0], "load_tools"));
    EXPECT_TRUE(offers(bodies[0], "read"));
    EXPECT_FALSE(offers(bodies[0], "mcp__fake__echo"));
    EXPECT_NE(server.requests()[1].find("echo: hi"), std::string::npos) << server.requests()[1];
}

TEST_F(McpConversation, D164_DispatchedTool_IsRefusedByItsName) {
    configure("modern,fifty", "",
              "allow: [\"deferred_tool_call: *\"]\ndeny: [\"mcp__fake__echo: *\"]\n");
    ModelServer server({chat_answer("", {dispatched("mcp__fake__echo")}), chat_answer("Done.")});
    const Piped run = run_at(home, server, {"--no-save", "--yes", "go"});
    EXPECT_EQ(run.out, "Done.\n") << run.err;
    EXPECT_EQ(server.requests().at(1).find("echo: hi"), std::string::npos);
}

TEST_F(McpConversation, D164_Setting_ListsAllTools) {
    configure("modern,fifty", "", "max_listed_mcp_tools: false\n");
    ModelServer server({chat_answer("Done.")});
    EXPECT_EQ(run_at(home, server, {"--no-save", "go"}).status, 0);
    EXPECT_TRUE(offers(server.bodies().at(0), "mcp__fake__echo"));
    EXPECT_FALSE(offers(server.bodies().at(0), "load_tools"));
}

TEST_F(McpConversation, D164_SuspendedDispatch_ContinuesInAnotherProcess) {
    configure("modern,fifty");
    ModelServer server({chat_answer("", {dispatched("mcp__fake__echo")}), chat_answer("Done.")});
    const Piped first = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(first.status, 7) << first.err;
    const Piped listed = run_piped(home, {"inbox", "--json"});
    EXPECT_NE(listed.out.find("mcp__fake__echo"), std::string::npos) << listed.out;
    const std::string id(
        boost::json::parse(listed.out).at(0).at("request").at("question_id").as_string());
    const Piped second =
        run_piped(home, {"inbox", "approve", id, "--session", "s1", "--provider", "openai",
                         "--base-url", server.url(), "--model", "local"});
    EXPECT_EQ(second.out, "Done.\n") << second.err;
    EXPECT_NE(server.requests().at(1).find("echo: hi"), std::string::npos);
}

/// The words of a prompt on the command line name resources, those of standard input do not.
TEST_F(McpConversation, D188_NamedResource_IsPartOfThePrompt) {
    configure("modern,docs");
    ModelServer server({chat_answer("Friday."), chat_answer("Unknown.")});
    const Piped named = run_at(
        home, server, {"--no-save", "When do we meet? @fake:docs://notes @fake:docs://logo"});
    EXPECT_EQ(named.out, "Friday.\n");
    EXPECT_NE(named.err.find("Attached: fake:docs://notes 50 bytes, fake:docs://logo 8 bytes"),
              std::string::npos)
        << named.err;
    const std::string request = server.requests().at(0);
    EXPECT_NE(request.find("from=\\\"the MCP server fake\\\""), std::string::npos) << request;
    EXPECT_NE(request.find("The meeting is on Friday."), std::string::npos);
    EXPECT_NE(request.find("data:image/png;base64,iVBORw0KGgo="), std::string::npos);
    const boost::json::value body = server.bodies().at(0);
    const auto& messages = body.at("messages").as_array();
    EXPECT_EQ(boost::json::serialize(messages.at(0)).find("Friday"), std::string::npos)
        << "never in the system prompt";
    const Piped piped = run_piped(home,
                                  {"run", "--no-save", "--provider", "openai", "--base-url",
                                   server.url(), "-m", "local", "-"},
                                  "see @fake:docs://notes");
    EXPECT_EQ(piped.out, "Unknown.\n") << piped.err;
    EXPECT_EQ(server.requests().at(1).find("The meeting"), std::string::npos);
}

TEST_F(McpConversation, D188_PopupCompletesAResource_TheChatSendsIt) {
    configure("2025-11-25,docs");
    ModelServer server({chat_answer("On Friday.")});
    Terminal chat(home, chat_arguments(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "see @notes")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("❯ @fake:docs://notes", "\t")) << chat.shown();
    chat.type("@fake:docs://days/tu");
    ASSERT_TRUE(chat.answer_on_screen("@fake:docs://days/tuesday/log", "\t")) << chat.shown();
    chat.type("\r");
    ASSERT_TRUE(chat.expect_on_screen("fake:docs://notes 50 bytes")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("On Friday.", "/mcp\r")) << chat.screen().text();
    EXPECT_NE(server.requests().at(0).find("Log of tuesday"), std::string::npos);
    ASSERT_TRUE(chat.expect_on_screen("resources: @fake:docs://notes")) << chat.screen().text();
}

TEST_F(McpConversation, D176_ServersQuestion_IsAnsweredInAnotherProcess) {
    for (const bool is_dispatched : {false, true}) {
        configure(is_dispatched ? "modern,fifty" : "modern", "",
                  "allow: [\"mcp__fake__ask: *\"]\n");
        SentCall call{"mcp__fake__ask", "{}"};
        if (is_dispatched) call = dispatched("mcp__fake__ask");
        ModelServer server({chat_answer("", {call}), chat_answer("Done.")});
        const std::string session = is_dispatched ? "s2" : "s1";
        const Piped first = run_at(home, server, {"-s", session, "go"});
        EXPECT_EQ(first.status, 7) << first.err;
        const Piped listed = run_piped(home, {"inbox", "--json"});
        EXPECT_NE(listed.out.find("Who are you?"), std::string::npos) << listed.out;
        // The state of the server is none of the user's.
        EXPECT_EQ(listed.out.find("opaque"), std::string::npos) << listed.out;
        const std::string id(
            boost::json::parse(listed.out).at(0).at("request").at("question_id").as_string());
        const Piped second = run_piped(
            home, {"inbox", "answer", id, R"({"name": "Ann"})", "--session", session, "--provider",
                   "openai", "--base-url", server.url(), "--model", "local"});
        EXPECT_EQ(second.out, "Done.\n") << second.err;
        const std::string result = server.requests().at(1);
        EXPECT_NE(result.find("Ann"), std::string::npos) << result;
        EXPECT_NE(result.find("opaque"), std::string::npos) << result;
    }
}

/// The server of the second process has the task of the first one.
TEST_F(McpConversation, D132_TasksQuestion_IsAnsweredInAnotherProcess) {
    const std::string tasks = (home.work().parent_path() / "tasks").string();
    configure("modern,extra,tasks,curious,tasks in=" + tasks, "",
              "allow: [\"mcp__fake__task: *\"]\n");
    ModelServer server({chat_answer("", {{"mcp__fake__task", "{}"}}), chat_answer("Done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    const Piped listed = run_piped(home, {"inbox", "--json"});
    const std::string id(
        boost::json::parse(listed.out).at(0).at("request").at("question_id").as_string());
    const Piped second =
        run_piped(home, {"inbox", "answer", id, R"({"name": "Ann"})", "--session", "s1",
                         "--provider", "openai", "--base-url", server.url(), "--model", "local"});
    EXPECT_EQ(second.out, "Done.\n") << second.err;
    EXPECT_NE(server.requests().at(1).find("Ann"), std::string::npos) << server.requests().at(1);
}

/// A process that ends with its run cannot hold the connection open on which such a server waits.
TEST_F(McpConversation, D130_RunRefusesSessionsQuestion_AndSaysWhy) {
    configure("2025-11-25", "", "allow: [\"mcp__fake__ask: *\"]\n");
    ModelServer server({chat_answer("", {{"mcp__fake__ask", "{}"}}), chat_answer("Done.")});
    const Piped run = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(run.out, "Done.\n") << run.err;
    const std::string result = server.requests().at(1);
    EXPECT_NE(result.find("cancel"), std::string::npos) << result;
    EXPECT_NE(result.find("Ask the user for the input"), std::string::npos) << result;
}

/// The session of such a run is made when it is suspended, and has what the next process needs to repeat nothing.
TEST_F(McpConversation, D176_RunWithoutSession_RepeatsNoCall) {
    const std::filesystem::path log = home.work().parent_path() / "calls";
    configure("modern,log=" + log.string(), "", "allow: [\"mcp__fake__ask: *\"]\n");
    ModelServer server({chat_answer("", {{"mcp__fake__ask", "{}"}}), chat_answer("Done.")});
    EXPECT_EQ(run_at(home, server, {"go"}).status, 7);
    const Piped listed = run_piped(home, {"inbox", "--json"});
    const std::string id(
        boost::json::parse(listed.out).at(0).at("request").at("question_id").as_string());
    const Piped second =
        run_piped(home, {"inbox", "answer", id, R"({"name": "Ann"})", "--provider", "openai",
                         "--base-url", server.url(), "--model", "local"});
    EXPECT_EQ(second.out, "Done.\n") << second.err;
    const std::string calls = read_file(log);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 2) << calls;
    EXPECT_GT(calls.find("inputResponses"), calls.find('\n')) << "only the second has answers";
}

TEST_F(McpConversation, D164_RestrictedSubagent_HasNoDeferredTools) {
    configure("modern,fifty", "", "allow: [\"mcp__fake__echo: *\", \"subagent: *\"]\n");
    const std::string arguments =
        R"({"prompt":"call it","session":"temp","allowed_tools":["read"]})";
    ModelServer server({chat_answer("", {{"subagent", arguments}}),
                        chat_answer("", {dispatched("mcp__fake__echo")}), chat_answer("Tried."),
                        chat_answer("Done.")});
    const Piped run = run_at(home, server, {"--no-save", "go"});
    EXPECT_EQ(run.out, "Done.\n") << run.err;
    const auto bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 4U);
    EXPECT_FALSE(offers(bodies[1], "load_tools"));
    EXPECT_EQ(server.requests()[2].find("echo: hi"), std::string::npos);
}

TEST_F(McpConversation, D164_Subagent_LoadsToolsToo) {
    configure("modern,fifty", "", "allow: [\"mcp__fake__echo: *\", \"subagent: *\"]\n");
    ModelServer server({chat_answer("", {{"subagent", R"({"prompt":"call it"})"}}),
                        chat_answer("", {dispatched("mcp__fake__echo")}), chat_answer("Called."),
                        chat_answer("Done.")});
    const Piped run = run_at(home, server, {"--no-save", "go"});
    EXPECT_EQ(run.out, "Done.\n") << run.err;
    ASSERT_EQ(server.bodies().size(), 4U);
    EXPECT_NE(server.requests()[2].find("echo: hi"), std::string::npos);
}

/// The chat asks on the connection on which the server waits, and the turn continues with the answer.
TEST_F(McpConversation, D130_ChatAnswersSessionsQuestion_OnItsConnection) {
    const std::filesystem::path log = home.work().parent_path() / "calls";
    configure("2025-11-25,one question,log=" + log.string(), "",
              "allow: [\"mcp__fake__ask: *\"]\n");
    ModelServer server({chat_answer("", {{"mcp__fake__ask", "{}"}}), chat_answer("Done.")});
    Terminal chat(home, chat_arguments(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("Who are you?")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("answer >", "Ann\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Done.")) << chat.screen().text();
    EXPECT_NE(server.requests().at(1).find("Ann"), std::string::npos) << server.requests().at(1);
    const std::string calls = read_file(log);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 1) << calls;
}

TEST_F(McpConversation, D163_ChatAllowsSampling_TheModelAnswersTheServer) {
    configure("2025-11-25,extra", ", sampling: ask", "allow: [\"mcp__fake__sample: *\"]\n");
    ModelServer server({chat_answer("", {{"mcp__fake__sample", "{}"}}), chat_answer("A greeting."),
                        chat_answer("Done.")});
    Terminal chat(home, chat_arguments(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("The server fake asks the model")) << chat.shown();
    EXPECT_EQ(server.requests().size(), 1U) << "before the answer";
    ASSERT_TRUE(chat.answer_on_screen("[y]es", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("Done.")) << chat.screen().text();
    ASSERT_EQ(server.requests().size(), 3U);
    EXPECT_NE(server.requests()[1].find("Say hello."), std::string::npos);
    EXPECT_NE(server.requests()[2].find("A greeting."), std::string::npos);
}

TEST_F(McpConversation, D163_RunWithoutUser_RefusesSampling) {
    for (const char* era : {"2025-11-25,extra", "modern,extra"}) {
        configure(era, ", sampling: ask");
        ModelServer server({chat_answer("", {{"mcp__fake__sample", "{}"}}), chat_answer("Done.")});
        const Piped run = run_at(home, server, {"--no-save", "--yes", "go"});
        EXPECT_EQ(run.out, "Done.\n") << run.err;
        EXPECT_EQ(server.requests().size(), 2U) << era;
    }
}

TEST_F(McpConversation, Roots_AreTheDirectoriesOfTheConversation) {
    configure("modern,extra", "", "allow: [\"mcp__fake__roots: *\"]\n");
    ModelServer server({chat_answer("", {{"mcp__fake__roots", "{}"}}), chat_answer("Done.")});
    EXPECT_EQ(run_at(home, server, {"--no-save", "--add-dir", home.root().string(), "go"}).out,
              "Done.\n");
    const std::string result = server.requests().at(1);
    EXPECT_NE(result.find("file://" + home.work().string()), std::string::npos) << result;
    EXPECT_NE(result.find("file://" + home.root().string() + "\\"), std::string::npos) << result;
}

}  // namespace
}  // namespace cubepi::joint_tests
