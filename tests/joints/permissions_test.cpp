// Questions about tool calls: when they are asked, and what an answer changes.

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
using terminal_tests::Piped;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

SentCall to_fetch(const std::string& url) {
    return {"fetch", boost::json::serialize(boost::json::object{{"url", url}})};
}

const std::vector<std::string> always_refused = {"http://127.0.0.1:9/x",
                                                 "http://localhost:8080/",
                                                 "http://a.localhost./",
                                                 "http://2130706433/",
                                                 "http://0x7f.1/",
                                                 "http://169.254.169.254/latest",
                                                 "http://[::1]:9/",
                                                 "http://192.168.0.1/",
                                                 "file:///etc/passwd",
                                                 "http://u:p@8.8.8.8/",
                                                 "no url"};

TEST(FetchOfARefusedAddress, Run_AsksNothing) {
    for (const std::string& url : always_refused) {
        const Home home;
        ModelServer server({chat_answer("", {to_fetch(url)}), chat_answer("All done.")});
        const Piped run = run_at(home, server, {"-s", "s1", "go"});
        EXPECT_EQ(run.status, 0) << url << run.err;
        EXPECT_EQ(run.out, "All done.\n") << url << run.err;
        ASSERT_EQ(server.requests().size(), 2u) << url;
    }
}

TEST(FetchOfARefusedAddress, Chat_GetsTheToolsAnswer) {
    const Home home;
    ModelServer server(
        {chat_answer("", {to_fetch("http://127.0.0.1:9/x")}), chat_answer("All done.")});
    Terminal chat(home, {"chat", "--no-save", "--base-url", server.url(), "-m", "local", "go"});
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("[y]es"), std::string::npos) << chat.screen().text();
    EXPECT_NE(server.requests()[1].find("has the address 127.0.0.1, which belongs to this machine"),
              std::string::npos)
        << server.requests()[1];
}

TEST(FetchOfARefusedAddress, OtherAddress_IsAskedAbout) {
    const Home home;
    ModelServer server({chat_answer("", {to_fetch("http://8.8.8.8:9/x")})});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
}

SentCall to_write(const std::string& path) {
    return {"write",
            boost::json::serialize(boost::json::object{{"path", path}, {"content", "hello"}})};
}

SentCall to_shell(const std::string& command) {
    return {"shell", boost::json::serialize(boost::json::object{{"command", command}})};
}

class Rules : public ::testing::Test {
protected:
    bool exists(const std::string& file) const {
        return std::filesystem::exists(home.work() / file);
    }
    static std::string last_request(const ModelServer& server) { return server.requests().back(); }

    Home home;
};

TEST_F(Rules, D156_Deny_WinsOverAllowAndYes) {
    write_file(home.config(), "allow: ['write: *']\ndeny: ['write: *']\n");
    ModelServer server({chat_answer("", {to_write("a.txt")}), chat_answer("All done.")});
    const Piped run = run_at(home, server, {"--yes", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_FALSE(exists("a.txt"));
    EXPECT_NE(last_request(server).find("Refused by the rule 'deny write: *' of "),
              std::string::npos)
        << last_request(server);
}

TEST_F(Rules, D156_Deny_BindsSubagents) {
    write_file(home.config(), "deny: ['write: *']\n");
    ModelServer server({chat_answer("", {{"subagent", R"({"prompt":"write it"})"}}),
                        chat_answer("", {to_write("a.txt")}), chat_answer("It was refused."),
                        chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"--yes", "go"}).status, 0);
    EXPECT_EQ(server.requests().size(), 4u);
    EXPECT_FALSE(exists("a.txt"));
}

TEST_F(Rules, D156_DenyAddedMeanwhile_RefusesTheApprovedCall) {
    ModelServer server({chat_answer("", {to_write("a.txt")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    write_file(home.config(), "deny: ['write: *']\n");
    const Piped approved = run_piped(home, {"inbox", "approve", "call_0", "--provider", "openai",
                                            "--base-url", server.url(), "-m", "local"});
    EXPECT_EQ(approved.status, 0) << approved.err;
    EXPECT_FALSE(exists("a.txt"));
}

TEST_F(Rules, D157_AllowAddedWhileQuestionWaits_LeavesTheRefusal) {
    ModelServer server({chat_answer("", {to_write("a.txt")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    write_file(home.config(), "allow: ['write: *']\n");
    const Piped denied = run_piped(home, {"inbox", "deny", "call_0", "--provider", "openai",
                                          "--base-url", server.url(), "-m", "local"});
    EXPECT_EQ(denied.status, 0) << denied.err;
    EXPECT_FALSE(exists("a.txt"));
}

TEST_F(Rules, D156_Deny_HoldsInModeAllAndForEdits) {
    write_file(home.config(), "deny: ['shell: rm *']\n");
    write_file(home.work() / "a.txt", "x");
    ModelServer server({chat_answer("", {to_shell("touch b.txt")}), chat_answer("One."),
                        chat_answer("", {to_shell("ls; /bin/rm a.txt")}), chat_answer("Two.")});
    Terminal chat(home, {"chat", "--no-save", "--provider", "openai", "--base-url", server.url(),
                         "-m", "local"});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "e")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("command > touch b.txt", "\x15rm a.txt\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("One.")) << chat.screen().text();
    EXPECT_TRUE(exists("a.txt")) << "the user has edited the call to a denied one";
    ASSERT_TRUE(chat.answer_on_screen("Esc stops", "")) << chat.shown();
    chat.type("/mode all\r");
    ASSERT_TRUE(chat.expect("Mode all")) << chat.shown();
    chat.type("again\r");
    ASSERT_TRUE(chat.expect_on_screen("Two.")) << chat.screen().text();
    EXPECT_TRUE(exists("a.txt"));
    chat.type("/permissions\r");
    ASSERT_TRUE(chat.expect("1  deny shell: rm *  (")) << chat.shown();
    chat.type("/permissions remove 1\r");
    ASSERT_TRUE(chat.expect("Withdrawn, also from the configuration: shell: rm *")) << chat.shown();
}

TEST_F(Rules, D156_Ask_HoldsWithYes) {
    write_file(home.config(), "ask: ['shell: touch *']\n");
    ModelServer server({chat_answer("", {to_shell("touch a.txt")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"--yes", "go"}).status, 0);
    EXPECT_FALSE(exists("a.txt"));
    EXPECT_NE(last_request(server).find("Such a call needs an answer of the user."),
              std::string::npos)
        << last_request(server);
}

TEST_F(Rules, D156_UntrustedProject_CanOnlyRestrict) {
    write_file(home.config(), "allow: ['write: *']\n");
    write_file(home.work() / ".cubepi/config.yaml",
               "deny: ['write: *']\nallow: ['shell: touch *']\n");
    ModelServer server(
        {chat_answer("", {to_write("a.txt")}), chat_answer("", {to_shell("touch x")})});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7) << "touch is asked about";
    EXPECT_FALSE(exists("a.txt"));
    EXPECT_EQ(server.requests().size(), 2u);
    const Piped list = run_piped(home, {"permissions"});
    EXPECT_NE(list.out.find("1  allow write: *  ("), std::string::npos) << list.out;
    EXPECT_NE(
        list.out.find("2  deny write: *  (" + (home.work() / ".cubepi/config.yaml").string() + ")"),
        std::string::npos)
        << list.out;
    EXPECT_EQ(list.out.find("echo"), std::string::npos) << list.out;
    EXPECT_EQ(run_piped(home, {"permissions", "remove", "2"}).status, 2);
    EXPECT_EQ(run_piped(home, {"permissions", "remove", "1"}).status, 0);
    EXPECT_EQ(terminal_tests::read_file(home.config()).find("write"), std::string::npos);
}

TEST_F(Rules, D182_DeniedPath_HoldsInEverySpelling) {
    write_file(home.config(), "allow: ['write: *']\ndeny: ['write: secrets/*']\n");
    std::filesystem::create_directories(home.work() / "secrets");
    std::filesystem::create_symlink("secrets", home.work() / "alias");
    for (const std::string& path :
         {std::string("secrets/a"), std::string("alias/a"), std::string("x/../secrets/a"),
          (home.work() / "secrets/a").string(), std::string("SECRETS/a")}) {
        ModelServer server({chat_answer("", {{"subagent", R"({"prompt":"write it"})"}}),
                            chat_answer("", {to_write(path)}), chat_answer("It was refused."),
                            chat_answer("All done.")});
        EXPECT_EQ(run_at(home, server, {"--yes", "go"}).status, 0);
        ASSERT_EQ(server.requests().size(), 4u);
        EXPECT_NE(server.requests()[2].find("Refused by the rule 'deny write: secrets/*'"),
                  std::string::npos)
            << path << server.requests()[2];
        EXPECT_FALSE(exists("secrets/a")) << path;
        EXPECT_FALSE(exists("SECRETS/a")) << path;
    }
    ModelServer allowed({chat_answer("", {to_write("public/a")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, allowed, {"--no-save", "go"}).status, 0);
    EXPECT_TRUE(exists("public/a"));
    const Piped list = run_piped(home, {"permissions"});
    EXPECT_NE(list.out.find("2  deny write: secrets/*  ("), std::string::npos) << list.out;
    EXPECT_EQ(run_piped(home, {"permissions", "remove", "deny write: secrets/*"}).status, 0);
    EXPECT_EQ(terminal_tests::read_file(home.config()).find("secrets"), std::string::npos);
}

TEST_F(Rules, D182_PathOfProject_BeginsAtItsRoot) {
    std::filesystem::create_directories(home.work() / ".git");
    write_file(home.work() / ".git/HEAD", "ref: refs/heads/main\n");
    write_file(home.work() / ".cubepi/config.yaml", "deny: ['write: app/secrets/*']\n");
    home.work_in("work/app");
    ModelServer server({chat_answer("", {to_write("secrets/a")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"--yes", "go"}).status, 0);
    EXPECT_FALSE(exists("secrets/a"));
    EXPECT_NE(last_request(server).find("Refused by the rule"), std::string::npos);
}

TEST_F(Rules, D182_ApprovedWrite_FollowsTheLinksOfThatTime) {
    write_file(home.config(), "deny: ['write: secrets/*']\n");
    std::filesystem::create_directories(home.work() / "secrets");
    ModelServer server({chat_answer("", {to_write("place/a")}), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    std::filesystem::create_symlink("secrets", home.work() / "place");
    const Piped approved = run_piped(home, {"inbox", "approve", "call_0", "--provider", "openai",
                                            "--base-url", server.url(), "-m", "local"});
    EXPECT_EQ(approved.status, 0) << approved.err;
    EXPECT_FALSE(exists("secrets/a"));
}

TEST_F(Rules, D156_Deny_HoldsInMcpServer) {
    write_file(home.config(), "deny: ['write: *']\n");
    const std::string input =
        R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})"
        "\n"
        R"({"jsonrpc":"2.0","method":"notifications/initialized"})"
        "\n"
        R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write","arguments":{"path":"a.txt","content":"x"}}})"
        "\n";
    write_file(home.root() / "input", input);
    // Its streams must be pipes.
    Terminal served(
        home, terminal_tests::OtherProgram{"/bin/sh"},
        {"-c", "cat ../input | " + testing::built_program("cubepi") + " mcp serve --yes | cat"});
    EXPECT_EQ(served.wait(), 0) << served.shown();
    EXPECT_NE(served.shown().find("Refused by the rule 'deny write: *'"), std::string::npos)
        << served.shown();
    EXPECT_FALSE(exists("a.txt"));
}

}  // namespace
}  // namespace cubepi::joint_tests
