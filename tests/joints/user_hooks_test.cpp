// Hooks, the sandbox and undo of the user, in the ways of the program that have no chat of their own: `mcp serve`, sub-agents in the
// background, further directories.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <cubepi/process/sandbox.hpp>

#include "../terminal/terminal.hpp"
#include "program.hpp"
#include "task_model.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::OtherProgram;
using terminal_tests::Piped;
using terminal_tests::read_file;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

constexpr const char* blocking_hook =
    "hooks: {PreToolUse: [{matcher: write, hooks: [{command: 'cat >> ../asked; echo not here >&2; "
    "exit 2'}]}]}\n";

class UserHooks : public ::testing::Test {
protected:
    /// Calls a tool of `cubepi mcp serve`. Returns what it printed.
    std::string served(const std::string& tool, const boost::json::object& arguments) const {
        const boost::json::object call{
            {"jsonrpc", "2.0"},
            {"id", 2},
            {"method", "tools/call"},
            {"params", boost::json::object{{"name", tool}, {"arguments", arguments}}}};
        write_file(
            home.root() / "input",
            R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})"
            "\n"
            R"({"jsonrpc":"2.0","method":"notifications/initialized"})"
            "\n" +
                boost::json::serialize(call) + "\n");
        // Its streams must be pipes.
        Terminal serving(home, OtherProgram{"/bin/sh"},
                         {"-c", "cat ../input | " + testing::built_program("cubepi") +
                                    " mcp serve --yes 2>&1 | cat"});
        (void)serving.wait();
        return serving.shown();
    }
    bool exists(const char* name) const { return std::filesystem::exists(home.work() / name); }

    Home home;
    TaskModel model;
};

TEST_F(UserHooks, D142_McpServe_BlocksCallsOfClients) {
    write_file(home.config(), blocking_hook);
    const std::string shown = served("write", {{"path", "new.txt"}, {"content", "x"}});
    EXPECT_NE(shown.find("not here"), std::string::npos) << shown;
    EXPECT_FALSE(exists("new.txt"));
    EXPECT_NE(read_file(home.root() / "asked").find("new.txt"), std::string::npos);
}

TEST_F(UserHooks, D142_SubagentInBackground_IsBlocked) {
    write_file(home.config(), blocking_hook);
    std::vector<std::string> words = {"run", "--yes"};
    for (std::string& flag : model.flags()) words.push_back(std::move(flag));
    words.emplace_back("background write new.txt");
    const Piped done = run_piped(home, std::move(words));
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_FALSE(exists("new.txt"));
    EXPECT_NE(model.wait_for("write new.txt", 2).find("not here"), std::string::npos);
}

TEST_F(UserHooks, D142_SideQuestion_IsBlocked) {
    write_file(home.config(),
               "hooks: {UserPromptSubmit: [{hooks: [{command: 'if grep -q secret; then echo not "
               "this one >&2; exit 2; fi'}]}]}\n");
    std::vector<std::string> words = {"chat"};
    for (std::string& flag : model.flags()) words.push_back(std::move(flag));
    Terminal chat(home, std::move(words));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "/btw the secret?\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("not this one")) << chat.screen().text();
    chat.type("/btw the date?\r");
    ASSERT_TRUE(chat.expect_on_screen("re: the date?")) << chat.screen().text();
    EXPECT_EQ(model.count("the secret?"), 0u);
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

TEST_F(UserHooks, D150_McpServe_ConfinesCommands) {
    std::filesystem::create_directories(home.work() / ".git/hooks");
    write_file(home.work() / ".git/HEAD", "ref: refs/heads/main\n");
    write_file(home.config(), "sandbox: workspace\n");
    const boost::json::object call{
        {"command", "echo x > made; echo x > .git/hooks/pre-commit; ls made"}};
    const std::string shown = served("shell", call);
    EXPECT_TRUE(exists("made")) << shown;
    EXPECT_EQ(exists(".git/hooks/pre-commit"), !sandbox_support().namespaces) << shown;
}

TEST_F(UserHooks, D150_McpServe_RequiresTheSandbox) {
    write_file(home.config(), "sandbox: {mode: read-only, required: true}\n");
    const std::string shown = served("shell", {{"command", "echo x > made; echo it-ran"}});
    EXPECT_FALSE(exists("made")) << shown;
    EXPECT_NE(shown.find(sandbox_support().namespaces ? "it-ran" : "sandbox.required"),
              std::string::npos)
        << shown;
}

TEST_F(UserHooks, D158_FurtherDirectory_IsTakenBack) {
    const std::filesystem::path other = home.root() / "other";
    write_file(other / "a.txt", "old\n");
    std::vector<std::string> words = {"chat", "--yes", "--add-dir", other.string()};
    for (std::string& flag : model.flags()) words.push_back(std::move(flag));
    Terminal chat(home, std::move(words));
    const std::string path = (other / "a.txt").string();
    ASSERT_TRUE(chat.answer_on_screen("talks to", "write " + path + "\r")) << chat.shown();
    model.wait_for("write " + path, 2);
    ASSERT_TRUE(chat.expect_on_screen("re: write")) << chat.shown();
    EXPECT_EQ(read_file(other / "a.txt"), "hello");
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("/undo\r");
    ASSERT_TRUE(chat.expect_on_screen("Took back the changes")) << chat.screen().text();
    EXPECT_EQ(read_file(other / "a.txt"), "old\n");
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

TEST_F(UserHooks, D114_QuestionDuringEditor_WaitsForItsEnd) {
    write_file(home.config(), "allow: [\"subagent: *\"]\n");
    const std::filesystem::path editor = home.root() / "editor";
    write_file(editor,
               "#!/bin/sh\necho x > ../opened\nread line < ../close\necho edited > \"$1\"\n");
    std::filesystem::permissions(editor, std::filesystem::perms::owner_all);
    for (const char* pipe : {"opened", "close"})
        ASSERT_EQ(::mkfifo((home.root() / pipe).c_str(), 0600), 0);
    home.set("EDITOR", editor.string());
    home.set("VISUAL", "");
    std::vector<std::string> words = {"chat"};
    for (std::string& flag : model.flags()) words.push_back(std::move(flag));
    model.hold("write new.txt");
    Terminal chat(home, std::move(words));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "background write new.txt\r")) << chat.shown();
    model.wait_for("write new.txt");
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("\x07");
    EXPECT_EQ(read_file(home.root() / "opened"), "x\n");
    model.release();
    write_file(home.root() / "close", "x\n");
    ASSERT_TRUE(chat.expect("The sub-agent helper asks: write creates new.txt"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer("[y]es", "y")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("re: re: write new.txt")) << chat.shown();
    EXPECT_TRUE(exists("new.txt"));
    ASSERT_TRUE(chat.expect_on_screen("edited")) << "the text of the editor is there still";
    chat.type("\x15\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

}  // namespace
}  // namespace cubepi::joint_tests
