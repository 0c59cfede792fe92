// The sandbox of the model's commands, in every way in which the program starts them.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <cubepi/process/sandbox.hpp>

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

SentCall to_shell(const std::string& command, bool leaves = false) {
    boost::json::object arguments{{"command", command}};
    if (leaves) arguments["without_sandbox"] = true;
    return {"shell", boost::json::serialize(arguments)};
}

/// Writes into the workspace and the hooks of git, reads the configuration, and connects to the port of the file `port`.
constexpr const char* hostile =
    "echo x > made; echo evil > .git/hooks/pre-commit; cat ~/.config/cubepi/config.yaml > copy; "
    "(echo > /dev/tcp/127.0.0.1/$(cat port)) && echo reached > network; ls made";

class SandboxOfCommands : public ::testing::Test {
protected:
    SandboxOfCommands() {
        std::filesystem::create_directories(home.work() / ".git/hooks");
        write_file(home.work() / ".git/HEAD", "ref: refs/heads/main\n");
        std::filesystem::create_directories(home.config().parent_path());
        write_file(home.config(), "allow: [\"write: *\"]\n");
    }

    void note_port(const ModelServer& server) const {
        std::string port = server.url();
        port = port.substr(port.rfind(':') + 1);
        write_file(home.work() / "port", port.substr(0, port.find('/')));
    }
    bool has(const char* name) const { return std::filesystem::exists(home.work() / name); }
    std::string content(const char* name) const {
        return has(name) ? read_file(home.work() / name) : std::string();
    }

    void expect_confined() const {
        EXPECT_TRUE(has("made"));
        SandboxProfile profile;
        profile.writable = {home.work()};
        profile.read_only = {home.work() / ".git/hooks"};
        // The home directory of the tests is in a temporary directory, which commands may write.
        profile.writable.emplace_back("/tmp");
        profile.hidden = {home.config().parent_path()};
        const bool guards = sandbox_holds(profile, SandboxProperty::read_only);
        EXPECT_EQ(guards, sandbox_support().namespaces);
        if (guards) {
            EXPECT_FALSE(has(".git/hooks/pre-commit"));
        }
        if (sandbox_holds(profile, SandboxProperty::hidden)) {
            EXPECT_EQ(content("copy"), "");
        }
        EXPECT_FALSE(has("network"));
    }
    void expect_free() const {
        EXPECT_TRUE(has("made"));
        EXPECT_TRUE(has(".git/hooks/pre-commit"));
        EXPECT_NE(content("copy"), "");
        EXPECT_EQ(content("network"), "reached\n");
    }

    /// The id of the only question that waits.
    std::string question() const {
        const Piped listed = run_piped(home, {"inbox", "--json"});
        const boost::json::array all = boost::json::parse(listed.out).as_array();
        EXPECT_EQ(all.size(), 1u) << listed.out << listed.err;
        if (all.empty()) return {};
        return std::string(all.front().at("request").at("question_id").as_string());
    }
    Piped approve(const ModelServer& server) const {
        return run_piped(home, {"inbox", "approve", question(), "--session", "s1", "--provider",
                                "openai", "--base-url", server.url(), "-m", "local"});
    }

    Home home;
};

TEST_F(SandboxOfCommands, D150_Run_ConfinesCommands) {
    ModelServer server({chat_answer("", {to_shell(hostile)}), chat_answer("All done.")});
    note_port(server);
    const Piped run = run_at(home, server, {"--yes", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    expect_confined();
}

TEST_F(SandboxOfCommands, D150_Off_ConfinesNothing) {
    ModelServer server({chat_answer("", {to_shell(hostile)}), chat_answer("All done.")});
    note_port(server);
    EXPECT_EQ(run_at(home, server, {"--yes", "--sandbox", "off", "go"}).status, 0);
    expect_free();
}

TEST_F(SandboxOfCommands, D150_ReadOnly_WritesNothing) {
    ModelServer server(
        {chat_answer("", {to_shell("echo x > made; cat .git/HEAD")}), chat_answer("All done.")});
    const Piped run = run_at(home, server, {"--yes", "--sandbox", "read-only", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_FALSE(has("made"));
    EXPECT_NE(server.requests()[1].find("ref: refs/heads/main"), std::string::npos);
}

TEST_F(SandboxOfCommands, D150_Configuration_SetsMode) {
    write_file(home.config(), "sandbox: {mode: read-only, required: true}\n");
    ModelServer server({chat_answer("", {to_shell("echo x > made")}), chat_answer("All done.")});
    note_port(server);
    const Piped run = run_at(home, server, {"--yes", "go"});
    if (!sandbox_support().namespaces) {
        EXPECT_NE(run.err.find("sandbox.required"), std::string::npos) << run.err;
        return;
    }
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_FALSE(has("made"));
    EXPECT_NE(server.requests()[1].find("the sandbox may be the reason for"), std::string::npos)
        << server.requests()[1];
}

TEST_F(SandboxOfCommands, D150_SuspendedCommand_IsConfinedElsewhere) {
    ModelServer server({chat_answer("", {to_shell(hostile)}), chat_answer("All done.")});
    note_port(server);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    EXPECT_FALSE(has("made"));
    const Piped over = approve(server);
    EXPECT_EQ(over.status, 0) << over.err;
    expect_confined();
}

TEST_F(SandboxOfCommands, D150_OtherRepositories_AreProtected) {
    const std::filesystem::path other = home.root() / "other";
    for (const std::filesystem::path& repository : {other / "app", home.work() / "nested"}) {
        std::filesystem::create_directories(repository / ".git");
        write_file(repository / ".git/HEAD", "ref: refs/heads/main\n");
        write_file(repository / ".git/config", "[core]\n");
    }
    write_file(home.config(), "sandbox: {writable: ['" + other.string() + "']}\n");
    ModelServer server(
        {chat_answer("", {to_shell("for place in ../other/app nested; do echo x > $place/made; "
                                   "echo x > $place/.git/hooks/post-commit; echo x >> "
                                   "$place/.git/config; done; ls")}),
         chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"--yes", "go"}).status, 0);
    if (!sandbox_support().namespaces) return;
    for (const std::filesystem::path& repository : {other / "app", home.work() / "nested"}) {
        EXPECT_TRUE(std::filesystem::exists(repository / "made")) << repository;
        EXPECT_FALSE(std::filesystem::exists(repository / ".git/hooks/post-commit")) << repository;
        EXPECT_EQ(read_file(repository / ".git/config"), "[core]\n");
    }
}

TEST_F(SandboxOfCommands, D150_SubmodulesAndWorktrees_AreProtected) {
    const std::filesystem::path git = home.work() / ".git";
    for (const char* place : {"", "modules/lib", "modules/group/lib", "worktrees/tree"}) {
        std::filesystem::create_directories(git / place / "objects");
        write_file(git / place / "HEAD", "ref: refs/heads/main\n");
        write_file(git / place / "config", "[core]\n");
        write_file(git / place / "commondir", "../..\n");
    }
    ModelServer server(
        {chat_answer("", {to_shell("cd .git && for place in modules/lib modules/group/lib "
                                   "worktrees/tree; do echo x > $place/index; echo x >> "
                                   "$place/config; echo x > $place/commondir; echo x > "
                                   "$place/hooks/post-checkout; done; ls")}),
         chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"--yes", "go"}).status, 0);
    if (!sandbox_support().namespaces) return;
    for (const char* place : {"modules/lib", "modules/group/lib", "worktrees/tree"}) {
        EXPECT_TRUE(std::filesystem::exists(git / place / "index")) << place;
        EXPECT_EQ(read_file(git / place / "config"), "[core]\n") << place;
        EXPECT_EQ(read_file(git / place / "commondir"), "../..\n") << place;
        EXPECT_FALSE(std::filesystem::exists(git / place / "hooks/post-checkout")) << place;
    }
}

TEST_F(SandboxOfCommands, D180_SuspendedRun_KeepsItsStricterSandbox) {
    ModelServer server(
        {chat_answer("", {to_shell("echo x > made; ls -a")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "--sandbox", "read-only", "go"}).status, 7);
    write_file(home.config(), "sandbox: off\n");
    const Piped over = approve(server);
    EXPECT_EQ(over.status, 0) << over.err;
    EXPECT_FALSE(has("made"));
    EXPECT_NE(over.err.find("was suspended with a stricter sandbox (read-only, no network)"),
              std::string::npos)
        << over.err;
}

TEST_F(SandboxOfCommands, D180_RunSuspendedWithout_GetsThatOfProcess) {
    ModelServer server({chat_answer("", {to_shell(hostile)}), chat_answer("All done.")});
    note_port(server);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "--sandbox", "off", "go"}).status, 7);
    // The question has another text, so it is asked again.
    const Piped asked = approve(server);
    EXPECT_EQ(asked.status, 7) << asked.err;
    const Piped over = run_printed(home, asked.err, "To answer: ");
    EXPECT_EQ(over.status, 0) << over.err;
    EXPECT_EQ(over.err.find("stricter"), std::string::npos) << over.err;
    expect_confined();
}

TEST_F(SandboxOfCommands, D180_ChatWithFlag_DoesNotWeakenTheRun) {
    ModelServer server({chat_answer("", {to_shell(hostile)}), chat_answer("All done.")});
    note_port(server);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    Terminal chat(home, {"chat", "-s", "s1", "--sandbox", "off", "--provider", "openai",
                         "--base-url", server.url(), "-m", "local"});
    ASSERT_TRUE(chat.answer("[e]dit", "y")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    expect_confined();
}

TEST_F(SandboxOfCommands, D150_Subagent_IsConfined) {
    ModelServer server({chat_answer("", {{"subagent", R"({"prompt":"do it"})"}}),
                        chat_answer("", {to_shell(hostile)}), chat_answer("done"),
                        chat_answer("All done.")});
    note_port(server);
    const Piped run = run_at(home, server, {"--yes", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(server.requests().size(), 4u);
    expect_confined();
}

TEST_F(SandboxOfCommands, D151_LeavingIt_NeedsAnAnswer) {
    ModelServer server({chat_answer("", {to_shell(hostile, true)}), chat_answer("All done.")});
    note_port(server);
    const Piped refused = run_at(home, server, {"--yes", "--no-save", "go"});
    EXPECT_EQ(refused.status, 0) << refused.err;
    EXPECT_FALSE(has("made"));
    EXPECT_NE(server.requests()[1].find("needs an answer of the user"), std::string::npos)
        << server.requests()[1];
}

TEST_F(SandboxOfCommands, D151_AnsweredCall_LeavesItOnce) {
    ModelServer server({chat_answer("", {to_shell(hostile, true)}), chat_answer("All done.")});
    note_port(server);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    const Piped shown = run_piped(home, {"inbox", "show", question()});
    EXPECT_NE(shown.out.find("once without the sandbox"), std::string::npos) << shown.out;
    const Piped over = approve(server);
    EXPECT_EQ(over.status, 0) << over.err;
    expect_free();
}

TEST_F(SandboxOfCommands, D151_ReadingCommand_IsNotAskedAbout) {
    // A repository's configuration may name a program; it runs without writes.
    write_file(home.work() / ".git/config",
               "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch made\n");
    std::filesystem::create_directories(home.work() / ".git/objects");
    std::filesystem::create_directories(home.work() / ".git/refs");
    ModelServer server({chat_answer("", {to_shell("ls -a")}),
                        chat_answer("", {to_shell("git status")}), chat_answer("All done.")});
    const Piped run = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "All done.\n");
    EXPECT_NE(server.requests()[1].find(".git"), std::string::npos);
    EXPECT_FALSE(has("made"));
}

TEST_F(SandboxOfCommands, D151_ReadingCommandWithoutSandbox_IsAskedAbout) {
    ModelServer server({chat_answer("", {to_shell("ls -a")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "--sandbox", "off", "go"}).status, 7);
}

TEST_F(SandboxOfCommands, D150_CommandOfUser_IsFree) {
    ModelServer server({chat_answer("All done.")});
    Terminal chat(home, {"chat", "--no-save", "--base-url", server.url(), "-m", "local"});
    ASSERT_TRUE(chat.expect("> ")) << chat.screen().text();
    chat.type("!echo x > .git/hooks/pre-commit && echo made-$((40 + 2))\r");
    ASSERT_TRUE(chat.expect_on_screen("made-42")) << chat.screen().text();
    chat.type("\x04");
    EXPECT_TRUE(has(".git/hooks/pre-commit"));
}

TEST_F(SandboxOfCommands, Doctor_ListsPromises) {
    const Piped doctor = run_piped(home, {"doctor", "--offline"});
    EXPECT_NE(doctor.out.find("Sandbox of commands"), std::string::npos) << doctor.out;
    EXPECT_NE(doctor.out.find("no network, no name resolution"), std::string::npos) << doctor.out;
}

}  // namespace
}  // namespace cubepi::joint_tests
