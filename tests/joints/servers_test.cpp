// MCP servers where they meet the other parts of the program: questions without a user, runs that continue, approvals of a server that was
// removed and added again.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::read_file;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

/// A server with the tool `touch`. With the argument `ask` the tool asks its user first; with `wait` the server notes in the file
/// `started` that it runs, and answers when the pipe `go` was opened.
constexpr const char* server_program = R"(import json, sys
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
if "wait" in sys.argv:
    open("started", "w").write("x")
    open("go").read()
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if "id" not in asked or not method: continue
    if method == "initialize":
        send({"id": asked["id"], "result": {"protocolVersion": "2025-06-18",
              "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}})
    elif method == "tools/list":
        send({"id": asked["id"], "result": {"tools": [{"name": "touch", "description": "touches",
              "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        answer = {"action": "none"}
        if "ask" in sys.argv:
            send({"id": "q", "method": "elicitation/create", "params": {"message": "Really?",
                  "requestedSchema": {"type": "object", "properties": {}}}})
            while True:
                got = json.loads(sys.stdin.readline())
                if got.get("id") == "q": break
            answer = got.get("result") or got["error"]
        open("called", "a").write("x")
        send({"id": asked["id"], "result": {"content": [
              {"type": "text", "text": "the user: " + json.dumps(answer)}]}})
    else:
        send({"id": asked["id"], "error": {"code": -32601, "message": "unknown"}})
)";

const SentCall to_touch{"mcp__fake__touch", "{}"};

class Servers : public ::testing::Test {
protected:
    Servers() {
        write_file(home.root() / "server.py", server_program);
        write_file(home.config(), "mcp_start_wait: 60\n");
    }

    std::string server(const std::string& arguments, const std::string& start_wait = "60") const {
        return "mcp_start_wait: " + start_wait + "\nmcp: {fake: {command: python3, args: [" +
               (home.root() / "server.py").string() + arguments + "], cwd: '" +
               home.work().string() + "'}}\n";
    }
    std::size_t calls() const {
        std::error_code none;
        const auto size = std::filesystem::file_size(home.work() / "called", none);
        return none ? 0 : static_cast<std::size_t>(size);
    }

    Home home;
    int sessions = 0;
};

/// The tool gets an answer, and the run ends.
TEST_F(Servers, D136_QuestionWithoutUser_IsCancelled) {
    write_file(home.config(), server(", ask") + "allow: ['mcp__fake__touch: *']\n");
    for (const std::vector<std::string>& how :
         {std::vector<std::string>{"--yes", "go"}, {"--no-save", "go"}, {"-s", "s1", "go"}}) {
        ModelServer model({chat_answer("", {to_touch}), chat_answer("All done.")});
        const Piped run = run_at(home, model, how);
        EXPECT_EQ(run.status, 0) << how.front() << run.err;
        EXPECT_EQ(run.out, "All done.\n") << run.err;
        ASSERT_EQ(model.requests().size(), 2u);
        EXPECT_NE(model.requests()[1].find(R"(the user: {\"action\": \"cancel\"})"),
                  std::string::npos)
            << model.requests()[1];
    }
}

TEST_F(Servers, D139_ApprovedCall_WaitsForItsServer) {
    write_file(home.config(), server(""));
    ModelServer model({chat_answer("", {to_touch}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, model, {"-s", "s1", "go"}).status, 7);
    EXPECT_EQ(calls(), 0u);
    write_file(home.config(), server(", wait", "0.001"));
    ASSERT_EQ(::mkfifo((home.work() / "go").c_str(), 0600), 0);
    Terminal answering(home, {"inbox", "approve", "call_0", "--session", "s1", "--provider",
                              "openai", "--base-url", model.url(), "-m", "local"});
    // Opens when the server does.
    std::ofstream(home.work() / "go") << "x";
    EXPECT_EQ(answering.wait(), 0) << answering.shown();
    EXPECT_NE(answering.shown().find("All done."), std::string::npos) << answering.shown();
    EXPECT_EQ(calls(), 1u);
    EXPECT_TRUE(std::filesystem::exists(home.work() / "started"));
}

TEST_F(Servers, D148_ServerAddedAgain_KeepsItsApprovals) {
    const std::string program = (home.root() / "server.py").string();
    const auto add = [&](std::vector<std::string> more) {
        std::vector<std::string> words = {"mcp",  "add", "--cwd",   home.work().string(),
                                          "fake", "--",  "python3", program};
        words.insert(words.end(), more.begin(), more.end());
        const Piped added = run_piped(home, std::move(words));
        EXPECT_EQ(added.status, 0) << added.err;
    };
    add({});
    {
        ModelServer model({chat_answer("", {to_touch}), chat_answer("All done.")});
        Terminal chat(home, {"chat", "--no-save", "--provider", "openai", "--base-url", model.url(),
                             "-m", "local"});
        ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
        ASSERT_TRUE(chat.answer("[a]lways", "a")) << chat.shown();
        ASSERT_TRUE(chat.answer("save it permanently?", "y")) << chat.shown();
        ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    }
    EXPECT_EQ(calls(), 1u);
    const auto status = [&] {
        ModelServer model({chat_answer("", {to_touch}), chat_answer("All done.")});
        return run_at(home, model, {"-s", "s" + std::to_string(++sessions), "go"}).status;
    };
    EXPECT_EQ(status(), 0);
    EXPECT_EQ(run_piped(home, {"mcp", "remove", "fake"}).status, 0);
    EXPECT_EQ(status(), 0) << "the call of a tool that does not exist is an error for the model";
    EXPECT_EQ(calls(), 2u);
    add({"other"});
    EXPECT_EQ(status(), 7) << "another command is another server";
    EXPECT_EQ(run_piped(home, {"mcp", "remove", "fake"}).status, 0);
    add({});
    EXPECT_EQ(status(), 0);
    EXPECT_EQ(calls(), 3u);
}

}  // namespace
}  // namespace cubepi::joint_tests
