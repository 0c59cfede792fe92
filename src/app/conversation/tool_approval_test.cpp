// Calls whose path leads to another file after they are decided (D72, D182).

#include "tool_approval.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace cubepi::app {
namespace {

/// The act of a command in the background between the decision about a call and the call.
struct Meanwhile {
    std::function<void()> act;
    std::optional<BeforeToolCallResult> before_tool_call(BeforeToolCallContext&) const {
        act();
        return std::nullopt;
    }
};

/// A workspace with the repository `.git`, the directories `docs` and `secrets`, and the link `d` to `docs`.
class ExchangedLink : public ::testing::Test {
protected:
    ExchangedLink() {
        for (const char* const name : {".git", "docs", "secrets"})
            directory.put((std::string(name) + "/config").c_str(),
                          std::string("of ") + name + "\n");
        std::filesystem::create_directory_symlink("docs", directory.path() / "d");
    }
    void lead(const std::string& link, const std::string& target) const {
        std::filesystem::remove_all(directory.path() / link);
        std::filesystem::create_directory_symlink(target, directory.path() / link);
    }
    /// Returns the result of a call, which runs after `act`.
    std::string call(const std::string& tool, JsonObject arguments, std::function<void()> act) {
        FauxProvider faux;
        ContentList<AssistantContent> calls;
        calls.emplace_back(faux_tool_call(tool, std::move(arguments), "c1"));
        faux.set_responses(
            {faux_assistant_message(std::move(calls), stop_reason::tool_use), "done"});
        ToolApproval::Options approval;
        approval.mode = std::make_shared<ApprovalMode>(mode);
        approval.workspace = workspace;
        AgentOptions options;
        options.model = faux.model();
        options.tools = ToolList(standard_tools(workspace));
        options.middleware.emplace_back(
            std::make_shared<ToolApproval>(rules, nullptr, nullptr, std::move(approval)));
        options.middleware.emplace_back(Meanwhile{std::move(act)});
        Agent agent(std::move(options));
        const RunResult result = run(agent.prompt("go"));
        for (const Message& message : result.new_messages) {
            if (message.tool_result()) return message.text();
        }
        return {};
    }
    bool git_is_unchanged() const { return directory.get(".git/config") == "of .git\n"; }

    ScopedTestDirectory directory;
    std::shared_ptr<LocalWorkspace> workspace = std::make_shared<LocalWorkspace>(directory.path());
    ToolRules rules{directory.path().string()};
    ApprovalMode mode = ApprovalMode::all;
};

TEST_F(ExchangedLink, D72_LinkExchanged_WriteStaysAtItsTarget) {
    const JsonObject write{{"path", "d/config"}, {"content", "new\n"}};
    const std::string result = call("write", write, [this] { lead("d", ".git"); });
    EXPECT_TRUE(git_is_unchanged()) << result;
    EXPECT_EQ(directory.get("docs/config"), "new\n") << result;
    EXPECT_NE(result.find("Replaced docs/config"), std::string::npos) << result;
}

TEST_F(ExchangedLink, D72_TargetExchangedForLink_CallIsRefused) {
    for (const char* const tool : {"write", "edit"}) {
        const JsonObject arguments{
            {"path", "d/config"}, {"content", "new\n"}, {"old_text", "of"}, {"new_text", "new"}};
        const std::string result = call(tool, arguments, [this] { lead("docs", ".git"); });
        EXPECT_TRUE(git_is_unchanged()) << result;
        EXPECT_NE(result.find("a symbolic link that was not there before"), std::string::npos)
            << result;
        std::filesystem::remove(directory.path() / "docs");
        directory.put("docs/config", "of docs\n");
    }
}

TEST_F(ExchangedLink, D72_NewDirectoryExchangedForLink_CallIsRefused) {
    const JsonObject write{{"path", "new/hooks/x"}, {"content", "new\n"}};
    const std::string result = call("write", write, [this] { lead("new", ".git"); });
    EXPECT_FALSE(std::filesystem::exists(directory.path() / ".git/hooks")) << result;
}

TEST_F(ExchangedLink, D131_AcceptedEdit_StaysAtItsTarget) {
    mode = ApprovalMode::accept_edits;
    const JsonObject edit{{"path", "d/config"}, {"old_text", "of"}, {"new_text", "new"}};
    const std::string result = call("edit", edit, [this] { lead("d", ".git"); });
    EXPECT_TRUE(git_is_unchanged()) << result;
    EXPECT_EQ(directory.get("docs/config"), "new docs\n") << result;
}

TEST_F(ExchangedLink, D182_DeniedFile_IsNotReadThroughExchangedLink) {
    rules.restrict({ApprovalRule::parse("read: secrets/*", RuleEffect::deny)});
    rules.restrict({ApprovalRule::parse("list: secrets/*", RuleEffect::deny)});
    const JsonObject read{{"path", "d/config"}};
    const JsonObject below{{"path", "d"}, {"pattern", "of"}};
    const auto exchange = [this] { lead("d", "secrets"); };
    std::string result = call("read", read, exchange);
    EXPECT_NE(result.find("of docs"), std::string::npos) << result;
    lead("d", "docs");
    result = call("grep", below, exchange);
    EXPECT_NE(result.find("docs/config:1: of docs"), std::string::npos) << result;
    for (const auto& [tool, arguments] :
         {std::pair{"read", read}, {"grep", below}, {"list", JsonObject{{"path", "d"}}}}) {
        lead("d", "docs");
        result = call(tool, arguments, [this] { lead("docs", "secrets"); });
        EXPECT_NE(result.find("a symbolic link that was not there before"), std::string::npos)
            << tool << ": " << result;
        std::filesystem::remove(directory.path() / "docs");
        directory.put("docs/config", "of docs\n");
    }
}

TEST(FetchRedirects, D142_HookOfFetch_SeesEachOrigin) {
    const std::string url = "https://example.org/page";
    for (const bool has_hook : {false, true}) {
        ToolApproval::Options options;
        options.mode = std::make_shared<ApprovalMode>(ApprovalMode::all);
        options.has_fetch_hook = has_hook;
        const ToolApproval of_mode(ToolRules(), nullptr, nullptr, options);
        EXPECT_EQ(of_mode.allows_fetch(url), !has_hook);
        options.mode = nullptr;
        ToolRules rules;
        rules.allow(ApprovalRule::parse("fetch: example.org"));
        const ToolApproval of_rule(std::move(rules), nullptr, nullptr, options);
        EXPECT_EQ(of_rule.allows_fetch(url), !has_hook);
    }
}

TEST(RestrictingNames, D156_OtherNameOfTool_IsRefused) {
    ConfigFile config;
    config.ask = {"mcp__*: *", "Custom: *", "shell_*: *"};
    EXPECT_EQ(rules_of(config).restrictions().size(), 3u);
    for (const char* const rule : {"bash: *", "bash.output: *", "Write: secrets/*"}) {
        config.deny = {rule};
        try {
            (void)rules_of(config);
            ADD_FAILURE() << rule << " was accepted";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("the name of this tool is '"),
                      std::string::npos)
                << error.what();
        }
    }
}

}  // namespace
}  // namespace cubepi::app
