// Restrictions of the calls of a gateway's sessions, as a process: rules about paths, links to protected files, hooks of the operator, and
// files of workspaces that are not trusted.

#include <csignal>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <cubepi/core/run.hpp>

#include "../joints/task_model.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

using joint_tests::TaskModel;

void put(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

class GatewayRules : public ::testing::Test {
protected:
    /// `more`: further keys of the configuration, in lines of their own.
    void configure(const std::string& gateway, const std::string& more = {}) const {
        home.configure("{http: {listen: \"127.0.0.1:0\", operators: [olga]}" + gateway + "}\n" +
                       more);
    }
    static HttpReply post(std::uint16_t port, const std::string& text) {
        return run(post_message(port, {{"session", "s1"}, {"text", text}, {"user", "ann"}}));
    }
    static bool asks(const HttpReply& reply) {
        return reply.json().at("outputs").at(0).at("kind") == "question";
    }
    /// The directory of the only session, which has had a turn.
    std::filesystem::path workspace() const {
        std::filesystem::path found;
        for (const auto& entry : std::filesystem::directory_iterator(home.workspaces()))
            if (entry.is_directory()) found = entry.path();
        return found;
    }

    GatewayHome home;
    TaskModel model;
};

constexpr const char* may_write = ", rules: [{allow: [\"write: *\"]}]";

TEST_F(GatewayRules, D182_DeniedPath_IsRefused) {
    configure(may_write, "deny: ['write: secrets/*']\n");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "write public/a").text(), "re: write public/a");
    EXPECT_TRUE(std::filesystem::exists(workspace() / "public/a"));
    std::filesystem::create_directories(workspace() / "secrets");
    std::filesystem::create_symlink("secrets", workspace() / "alias");
    for (const char* path : {"write secrets/a", "write alias/a", "write x/../secrets/a"}) {
        EXPECT_EQ(post(port, path).text(), "re: " + std::string(path));
        EXPECT_NE(model.wait_for(path, 2).find("Refused by the rule 'deny write: secrets/*'"),
                  std::string::npos)
            << path;
    }
    EXPECT_FALSE(std::filesystem::exists(workspace() / "secrets/a"));
}

TEST_F(GatewayRules, D85_SubagentOfCommand_HasRulesOfItsSender) {
    configure(may_write, "deny: ['write: secrets/*']\n");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    for (const char* path : {"public/a", "secrets/a"}) {
        const std::string command = ",subagent prompt='write " + std::string(path) + "'";
        (void)run(post_message(port, {{"session", "s1"}, {"text", command}, {"user", "olga"}}));
    }
    EXPECT_TRUE(std::filesystem::exists(workspace() / "public/a"));
    EXPECT_FALSE(std::filesystem::exists(workspace() / "secrets/a"));
    EXPECT_NE(model.wait_for("write secrets/a", 2).find("Refused by the rule"), std::string::npos);
}

TEST_F(GatewayRules, D72_LinkToProtectedFile_IsAskedAbout) {
    configure(may_write);
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, "hello");
    std::filesystem::create_directories(workspace() / ".git");
    std::filesystem::create_symlink(".git", workspace() / "plain");
    const HttpReply reply = post(port, "write plain/config");
    EXPECT_TRUE(asks(reply)) << reply.body;
    EXPECT_FALSE(std::filesystem::exists(workspace() / ".git/config"));
}

TEST_F(GatewayRules, D155_FilesOfWorkspace_DoNotAct) {
    configure("");
    {
        GatewayProcess gateway(home, model.flags());
        (void)post(gateway.wait_until_running(), "hello");
    }
    put(workspace() / "AGENTS.md", "Use tabs.\n");
    put(workspace() / ".cubepi/config.yaml",
        "allow: ['write: *']\nhooks: {PreToolUse: [{hooks: [{command: 'echo x > hook.log'}]}]}\n");
    put(workspace() / ".mcp.json",
        R"({"mcpServers": {"s": {"command": "sh", "args": ["-c", "echo x > mcp.log"]}}})");
    // Instructions are loaded if the operator names the directory; nothing makes the other files act.
    for (const bool is_trusted : {false, true}) {
        configure("", is_trusted ? "trust: ['" + home.workspaces().string() + "']\n" : "");
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        const std::string text = is_trusted ? "write b.txt" : "write a.txt";
        EXPECT_TRUE(asks(post(port, text)));
        EXPECT_EQ(model.wait_for(text).find("Use tabs.") != std::string::npos, is_trusted);
        (void)run(post_message(port, {{"session", "s1"}, {"text", ",deny"}, {"user", "olga"}}));
    }
    EXPECT_FALSE(std::filesystem::exists(workspace() / "hook.log"));
    EXPECT_FALSE(std::filesystem::exists(workspace() / "mcp.log"));
}

TEST_F(GatewayRules, D155_ProjectOfSharedWorkspace_CanOnlyRestrict) {
    const std::filesystem::path root = home.path() / "project";
    put(root / ".cubepi/config.yaml",
        "deny: ['write: secrets/*']\nallow: ['edit: *', 'shell: *']\n");
    configure(std::string(may_write) + ", shared_workspace: true, root: '" + root.string() + "'");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, "write a.txt");
    EXPECT_TRUE(std::filesystem::exists(root / "a.txt"));
    (void)post(port, "write secrets/a");
    EXPECT_FALSE(std::filesystem::exists(root / "secrets/a"));
    EXPECT_NE(model.wait_for("write secrets/a", 2).find(".cubepi/config.yaml"), std::string::npos);
}

TEST_F(GatewayRules, D156_InvalidRulesOfSharedWorkspace_EndTheStart) {
    const std::filesystem::path root = home.path() / "project";
    put(root / ".cubepi/config.yaml", "deny: ['write: secrets/*'\n");
    configure(std::string(may_write) + ", shared_workspace: true, root: '" + root.string() + "'");
    GatewayProcess gateway(home, model.flags());
    EXPECT_NE(gateway.wait(), 0);
    EXPECT_NE(gateway.output().find(".cubepi/config.yaml"), std::string::npos) << gateway.output();
}

TEST_F(GatewayRules, D180_WeakerSandbox_DoesNotContinueTheRun) {
    configure("", "sandbox: workspace\n");
    {
        GatewayProcess gateway(home, model.flags());
        EXPECT_TRUE(asks(post(gateway.wait_until_running(), "write a.txt")));
    }
    const auto approve = [](std::uint16_t port, const char* user) {
        return run(post_message(port, {{"session", "s1"}, {"text", ",approve"}, {"user", user}}));
    };
    const auto stop = [](GatewayProcess& gateway) {
        // A gateway that is killed may leave an answer to the next one, which would approve.
        gateway.send(SIGTERM);
        EXPECT_EQ(gateway.wait(), 0);
    };
    configure("", "sandbox: off\n");
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        const HttpReply refused = approve(port, "ann");
        EXPECT_NE(refused.body.find("An operator of this service is needed"), std::string::npos)
            << refused.body;
        EXPECT_EQ(refused.body.find("sandbox"), std::string::npos) << refused.body;
        const HttpReply told = approve(port, "olga");
        EXPECT_NE(told.body.find("the sandbox of this gateway is weaker"), std::string::npos)
            << told.body;
        stop(gateway);
    }
    EXPECT_FALSE(std::filesystem::exists(workspace() / "a.txt"));
    configure("", "sandbox: workspace\n");
    GatewayProcess gateway(home, model.flags());
    const HttpReply done = approve(gateway.wait_until_running(), "olga");
    EXPECT_NE(done.body.find("re: write a.txt"), std::string::npos) << done.body;
    EXPECT_TRUE(std::filesystem::exists(workspace() / "a.txt"));
    stop(gateway);
}

TEST_F(GatewayRules, D142_HookOfOperator_BlocksCallsOfSenders) {
    configure(may_write,
              "hooks: {PreToolUse: [{matcher: write, hooks: [{command: 'echo not here "
              ">&2; exit 2'}]}]}\n");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "write a.txt").text(), "re: write a.txt");
    EXPECT_FALSE(std::filesystem::exists(workspace() / "a.txt"));
    EXPECT_NE(model.wait_for("write a.txt", 2).find("not here"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::gateway_tests
