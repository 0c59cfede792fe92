// Files of a directory that act on a conversation, before and after the user has trusted them (D155).

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"
#include "source_tree.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::OtherProgram;
using terminal_tests::Piped;
using terminal_tests::read_file;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

constexpr const char* project_config =
    "allow: ['write: *']\n"
    "hooks: {PreToolUse: [{matcher: write, hooks: [{command: 'echo ran >> hook.log'}]}]}\n";
constexpr const char* mcp_servers =
    R"({"mcpServers": {"tools": {"command": "sh", "args": ["-c", "echo ran >> mcp.log"]}}})";

SentCall to_write(const std::string& path) {
    return {"write",
            boost::json::serialize(boost::json::object{{"path", path}, {"content", "hello"}})};
}

std::string system_prompt(const boost::json::value& body) {
    return std::string(body.at("messages").as_array().front().at("content").as_string());
}

/// A directory with all that can be trusted, and a model that writes a file.
class Trust : public ::testing::Test {
protected:
    Trust()
        : server({chat_answer("", {to_write("a.txt")}), chat_answer("All done."),
                  chat_answer("", {to_write("b.txt")}), chat_answer("All done.")}) {
        write_file(home.work() / "AGENTS.md", "Use tabs.\n");
        write_file(home.work() / ".agents/skills/deploy/SKILL.md",
                   "---\nname: deploy\ndescription: deploys\n---\nDo it.\n");
        write_file(home.work() / ".cubepi/config.yaml", project_config);
        write_file(home.work() / ".mcp.json", mcp_servers);
        write_file(home.work() / ".cubepi/prompts/fix.md", "Fix it.\n");
    }
    bool exists(const std::string& file) const {
        return std::filesystem::exists(home.work() / file);
    }
    /// Nothing of the directory has acted on the conversation.
    void expect_nothing_loaded() const {
        ASSERT_FALSE(server.requests().empty());
        for (const boost::json::value& body : server.bodies()) {
            EXPECT_EQ(system_prompt(body).find("Use tabs."), std::string::npos);
            EXPECT_EQ(system_prompt(body).find("deploy"), std::string::npos);
        }
        EXPECT_FALSE(exists("hook.log"));
        EXPECT_FALSE(exists("mcp.log"));
    }
    void expect_all_loaded() const {
        ASSERT_FALSE(server.requests().empty());
        const std::string prompt = system_prompt(server.bodies().back());
        EXPECT_NE(prompt.find("Use tabs."), std::string::npos) << prompt;
        EXPECT_NE(prompt.find("deploy: deploys"), std::string::npos) << prompt;
        EXPECT_TRUE(exists("hook.log"));
        EXPECT_TRUE(exists("mcp.log"));
    }
    std::vector<std::string> chat_arguments() const {
        return {"chat",       "--no-save",  "--provider", "openai",
                "--base-url", server.url(), "-m",         "local"};
    }

    Home home;
    ModelServer server;
};

constexpr const char* note =
    "Not loaded, because this directory is not trusted: AGENTS.md (10 bytes), 1 skill, "
    ".cubepi/config.yaml, .mcp.json, 1 prompt. To trust: cubepi trust add (for one run: --trust)\n";

TEST_F(Trust, D155_Run_LoadsNothingAndSaysSo) {
    const Piped run = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(run.status, 7) << "the rule of the directory allows nothing";
    EXPECT_NE(run.err.find(note), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("Loaded"), std::string::npos) << run.err;
    expect_nothing_loaded();
    EXPECT_FALSE(exists("a.txt"));
}

TEST_F(Trust, D155_SuspendedRun_StaysUntrustedInAnotherProcess) {
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    const Piped approved = run_piped(home, {"inbox", "approve", "call_0", "--provider", "openai",
                                            "--base-url", server.url(), "-m", "local"});
    EXPECT_EQ(approved.status, 0) << approved.err;
    EXPECT_TRUE(exists("a.txt"));
    expect_nothing_loaded();
}

TEST_F(Trust, D155_FlagTrust_HoldsForOneRun) {
    const Piped run = run_at(home, server, {"--trust", "-s", "s1", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(exists("a.txt"));
    expect_all_loaded();
    EXPECT_EQ(run.err.find("Not loaded"), std::string::npos) << run.err;
    EXPECT_EQ(run_at(home, server, {"-s", "s2", "go"}).status, 7);
}

/// A run that was suspended under a hook of the directory, which was trusted for that run only.
class TrustOfRun : public Trust {
protected:
    TrustOfRun() {
        write_file(home.work() / ".cubepi/config.yaml", guard);
        write_file(home.work() / ".mcp.json", "{}");
        const Piped run = run_at(home, model, {"--trust", "-s", "s1", "go"});
        EXPECT_EQ(run.status, 7) << run.err;
    }
    Piped answer(const char* how) const {
        return run_piped(home, {"inbox", how, "call_0", "--provider", "openai", "--base-url",
                                model.url(), "-m", "local"});
    }

    static constexpr const char* guard =
        "hooks: {PreToolUse: [{matcher: list, hooks: [{command: 'echo no lists >&2; exit 2'}]}]}\n";
    ModelServer model{{chat_answer("", {to_write("a.txt")}),
                       chat_answer("", {{"list", R"({"path": "."})"}}), chat_answer("All done.")}};
};

TEST_F(TrustOfRun, D142_OtherProcess_HasTheHooksOfTheRun) {
    const Piped approved = answer("approve");
    EXPECT_EQ(approved.status, 0) << approved.err;
    EXPECT_TRUE(exists("a.txt"));
    ASSERT_EQ(model.requests().size(), 3u);
    EXPECT_NE(model.requests().back().find("no lists"), std::string::npos);
    EXPECT_NE(system_prompt(model.bodies().back()).find("Use tabs."), std::string::npos);
    // The trust is that of the run.
    const Piped next = run_at(home, model, {"-s", "s1", "more"});
    EXPECT_NE(next.err.find("Not loaded, because this directory is not trusted"), std::string::npos)
        << next.err;
}

TEST_F(TrustOfRun, D142_ChangedHooks_DoNotContinueTheRun) {
    write_file(home.work() / ".cubepi/config.yaml", "hooks: {}\n");
    for (const bool is_removed : {false, true}) {
        if (is_removed) std::filesystem::remove(home.work() / ".cubepi/config.yaml");
        const Piped refused = answer("approve");
        EXPECT_NE(refused.status, 0);
        EXPECT_NE(refused.err.find("cubepi trust add"), std::string::npos) << refused.err;
    }
    EXPECT_FALSE(exists("a.txt"));
    EXPECT_EQ(model.requests().size(), 1u);
    write_file(home.work() / ".cubepi/config.yaml", "hooks: {}\n");
    ASSERT_EQ(run_piped(home, {"trust", "add"}).status, 0);
    const Piped approved = answer("approve");
    EXPECT_EQ(approved.status, 0) << approved.err;
    EXPECT_TRUE(exists("a.txt"));
    EXPECT_EQ(model.requests().back().find("no lists"), std::string::npos);
}

TEST_F(TrustOfRun, D142_ChangedHooks_AllowWithdrawal) {
    std::filesystem::remove(home.work() / ".cubepi/config.yaml");
    const Piped cancelled = answer("cancel");
    EXPECT_EQ(cancelled.status, 0) << cancelled.err;
    EXPECT_FALSE(exists("a.txt"));
}

TEST_F(Trust, D181_Setting_TrustsWhatSpeaksOnly) {
    write_file(home.config(), "trust: [" + home.root().string() + "]\n");
    const Piped run = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(run.status, 7) << "the rule of the directory allows nothing";
    EXPECT_NE(run.err.find("Not loaded, because you have not trusted this content: "
                           ".cubepi/config.yaml, .mcp.json, 1 prompt. To trust:"),
              std::string::npos)
        << run.err;
    EXPECT_NE(system_prompt(server.bodies().back()).find("Use tabs."), std::string::npos);
    EXPECT_FALSE(exists("hook.log"));
    EXPECT_FALSE(exists("mcp.log"));
    EXPECT_NE(run_piped(home, {"trust", "list"}).out.find("instructions and skills\n"),
              std::string::npos);
}

TEST_F(Trust, D181_SettingAndRecord_BindTheContent) {
    write_file(home.config(), "trust: [" + home.root().string() + "]\n");
    EXPECT_EQ(run_piped(home, {"trust", "add"}).status, 0);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 0);
    expect_all_loaded();
    std::filesystem::remove(home.work() / "hook.log");
    write_file(home.work() / ".cubepi/config.yaml",
               "allow: ['write: *']\nhooks: {PreToolUse: [{hooks: [{command: 'echo x >> "
               "other.log'}]}]}\n");
    EXPECT_EQ(run_at(home, server, {"-s", "s2", "go"}).status, 7);
    EXPECT_FALSE(exists("hook.log"));
    EXPECT_FALSE(exists("other.log"));
    Terminal chat(home, chat_arguments());
    EXPECT_TRUE(chat.expect_on_screen("runs at PreToolUse: echo x >> other.log"))
        << chat.screen().text();
}

TEST_F(Trust, D155_Setting_IsNotAPrefixOfText) {
    write_file(home.config(), "trust: [" + (home.root() / "wor").string() + "]\n");
    std::filesystem::create_directories(home.root() / "wor");
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    expect_nothing_loaded();
}

TEST_F(Trust, D155_ChatAnsweredYes_LoadsAllNowAndLater) {
    {
        Terminal chat(home, chat_arguments());
        ASSERT_TRUE(chat.expect_on_screen("for the model: AGENTS.md (10 bytes), 1 skill"))
            << chat.screen().text();
        EXPECT_TRUE(chat.expect_on_screen("allows without a question: write: *"));
        EXPECT_TRUE(chat.expect_on_screen("runs at PreToolUse: echo ran >> hook.log"));
        EXPECT_TRUE(chat.expect_on_screen(".mcp.json runs: sh -c echo ran >> mcp.log"));
        ASSERT_TRUE(chat.answer("Trust them?", "y")) << chat.shown();
        ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
        ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
        EXPECT_TRUE(exists("a.txt"));
        expect_all_loaded();
        chat.type("\x04");
        chat.wait();
    }
    const Piped run = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(exists("b.txt"));
    Terminal again(home, chat_arguments());
    ASSERT_TRUE(again.expect_on_screen("talks to")) << again.shown();
    EXPECT_EQ(again.shown().find("Trust them?"), std::string::npos) << again.shown();
}

TEST_F(Trust, TextTypedBeforeStart_StaysInThePrompt) {
    std::vector<std::string> words{
        "-c", "echo ready; until test -e typed; do sleep 0.1; done; exec \"$0\" \"$@\"",
        testing::built_program("cubepi")};
    for (std::string& word : chat_arguments()) words.push_back(std::move(word));
    Terminal chat(home, OtherProgram{"/bin/sh"}, words);
    ASSERT_TRUE(chat.answer("ready", "yes, fix it")) << chat.shown();
    write_file(home.work() / "typed", "");
    ASSERT_TRUE(chat.expect_on_screen("(for the prompt: yes, fix it)")) << chat.screen().text();
    chat.type("n");
    ASSERT_TRUE(chat.expect_on_screen("> yes, fix it")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Not loaded, because this directory is not trusted"))
        << chat.screen().text();
}

TEST_F(Trust, D155_ChatAnsweredNo_AsksTheNextTime) {
    for (int i = 0; i < 2; ++i) {
        Terminal chat(home, chat_arguments());
        ASSERT_TRUE(chat.answer("Trust them?", "n")) << chat.shown();
        ASSERT_TRUE(chat.expect_on_screen("Not loaded, because this directory is not trusted"))
            << chat.screen().text();
        if (i > 0) continue;
        ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
        ASSERT_TRUE(chat.answer("[e]dit >", "n")) << chat.shown();
        ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    }
    expect_nothing_loaded();
}

TEST_F(Trust, D155_ChatAnsweredOnce_LeavesNoRecord) {
    Terminal chat(home, chat_arguments());
    ASSERT_TRUE(chat.answer("Trust them?", "o")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    expect_all_loaded();
    EXPECT_EQ(run_piped(home, {"trust", "list"}).out, "");
}

TEST_F(Trust, D155_ChangedHook_IsAskedAboutAgain) {
    EXPECT_EQ(run_piped(home, {"trust", "add"}).status, 0);
    write_file(home.work() / ".cubepi/config.yaml",
               "hooks: {PreToolUse: [{hooks: [{command: 'echo other >> other.log'}]}]}\n");
    const Piped run = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(run.status, 7) << run.err;
    EXPECT_NE(run.err.find("Not loaded, because you have not trusted this content: "
                           ".cubepi/config.yaml. To trust:"),
              std::string::npos)
        << run.err;
    EXPECT_NE(system_prompt(server.bodies().back()).find("Use tabs."), std::string::npos)
        << "instructions are trusted with the directory";
    EXPECT_FALSE(exists("other.log"));
    EXPECT_FALSE(exists("hook.log"));
    Terminal chat(home, chat_arguments());
    ASSERT_TRUE(chat.expect_on_screen("runs at PreToolUse: echo other >> other.log"))
        << chat.screen().text();
    EXPECT_EQ(chat.shown().find("for the model:"), std::string::npos) << chat.shown();
}

TEST_F(Trust, D155_Subagent_HasNoUntrustedInstructions) {
    write_file(home.config(), "allow: ['subagent: *']\n");
    ModelServer model({chat_answer("", {{"subagent", R"({"prompt":"look"})"}}),
                       chat_answer("", {to_write("a.txt")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, model, {"-s", "s1", "go"}).status, 7);
    ASSERT_GE(model.requests().size(), 2u);
    for (const boost::json::value& body : model.bodies())
        EXPECT_EQ(system_prompt(body).find("Use tabs."), std::string::npos);
    EXPECT_FALSE(exists("hook.log"));
    EXPECT_FALSE(exists("a.txt"));
}

TEST_F(Trust, D155_Pipe_IsNotAsked) {
    const Piped chat = run_piped(home, chat_arguments(), "go\n");
    EXPECT_NE(chat.err.find("Not loaded, because this directory is not trusted"), std::string::npos)
        << chat.err;
    EXPECT_FALSE(exists("a.txt"));
    expect_nothing_loaded();
}

TEST_F(Trust, D155_Command_ListsAndWithdraws) {
    const Piped added = run_piped(home, {"trust", "add"});
    EXPECT_EQ(added.status, 0) << added.err;
    EXPECT_NE(added.out.find("runs at PreToolUse: echo ran >> hook.log"), std::string::npos)
        << added.out;
    const Piped list = run_piped(home, {"trust", "list"});
    EXPECT_NE(list.out.find("/work  you, 3 files by content\n"), std::string::npos) << list.out;
    EXPECT_EQ(run_piped(home, {"trust", "remove"}).status, 0);
    EXPECT_EQ(run_piped(home, {"trust", "list"}).out, "");
    EXPECT_EQ(run_piped(home, {"trust", "remove"}).status, 2);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    expect_nothing_loaded();
}

/// The model can change none of these files without an answer, so that it cannot trust itself.
TEST_F(Trust, D155_WriteOfTrustedFile_NeedsAnAnswer) {
    for (const char* path : {".mcp.json", ".cubepi/config.yaml", ".cubepi/prompts/fix.md"}) {
        ModelServer model({chat_answer("", {to_write(path)}), chat_answer("All done.")});
        const std::string before = read_file(home.work() / path);
        const Piped run = run_at(home, model, {"--yes", "--trust", "go"});
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_EQ(read_file(home.work() / path), before) << path;
    }
}

}  // namespace
}  // namespace cubepi::joint_tests
