// Rules that restrict the file tools by patterns of paths (D182).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/workspace/files/path_pattern.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/tool_rules.hpp>

namespace cubepi {

namespace {

using ::testing::HasSubstr;

bool matches(const char* pattern, const char* path) {
    return detail::PathPattern(pattern, "/w", "/h/u").matches(path);
}

TEST(PathPattern, Directory_MatchesWhatIsBelow) {
    for (const char* pattern : {"dir", "dir/", "dir/*", "dir/**", "./dir/*", "/w/dir", "/w/dir/*",
                                "x/../dir/*", "//w//dir//*"}) {
        for (const char* path : {"/w/dir/a", "/w/dir/a/b", "/w/dir", "/w/DIR/A"})
            EXPECT_TRUE(matches(pattern, path)) << pattern << " " << path;
        for (const char* path : {"/w/directory/a", "/w/a", "/w"})
            EXPECT_FALSE(matches(pattern, path)) << pattern << " " << path;
    }
    EXPECT_TRUE(matches("dir", "/w/x/dir/a")) << "a name matches at any depth";
    EXPECT_FALSE(matches("dir/*", "/w/x/dir/a"));
    EXPECT_TRUE(matches("**/dir/*", "/w/x/dir/a"));
    EXPECT_TRUE(matches("**/a/b", "/w/a/b"));
    EXPECT_TRUE(matches("**/a/b", "/w/x/y/a/b/c"));
    for (const char* path : {"/w/a/b", "/w/a/x/b", "/w/a/x/y/b"})
        EXPECT_TRUE(matches("a/**/b", path)) << path;
    EXPECT_TRUE(matches("~/**/*.key", "/h/u/x.key"));
}

TEST(PathPattern, Wildcards_MatchTextAndCharacters) {
    EXPECT_TRUE(matches("*.pem", "/w/a.pem"));
    EXPECT_TRUE(matches("*.pem", "/w/x/B.PEM"));
    EXPECT_TRUE(matches(".env*", "/w/x/.env.local"));
    EXPECT_TRUE(matches("src/*.h", "/w/src/a/b.h"));
    EXPECT_TRUE(matches("a?c", "/w/abc"));
    EXPECT_FALSE(matches("a?c", "/w/ac"));
    EXPECT_FALSE(matches("src/a?b", "/w/src/a/b"));
    EXPECT_FALSE(matches("*.pem", "/w/a.pem.txt"));
    EXPECT_FALSE(matches("w", "/w/a")) << "the names above the workspace do not count";
    const std::string stars(1000, '*');
    EXPECT_FALSE(matches((stars + "b/" + stars + "c").c_str(), "/w/aaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST(PathPattern, HomeAndRoot_AreAbsolute) {
    EXPECT_TRUE(matches("~/.ssh/*", "/h/u/.ssh/id"));
    EXPECT_TRUE(matches("~", "/h/u/x"));
    EXPECT_FALSE(matches("~/.ssh/*", "/w/~/.ssh/id"));
    EXPECT_TRUE(matches("/etc/*", "/etc/passwd"));
    EXPECT_TRUE(matches("/", "/etc/passwd"));
    EXPECT_TRUE(matches("/*", "/etc/passwd"));
    EXPECT_FALSE(matches("etc/*", "/etc/passwd"));
}

/// As hosts decide about a call.
RuleDecision on_file(const ToolRules& rules, const AgentTool& tool, const JsonObject& arguments,
                     Workspace& workspace) {
    if (!rules.follows_path(tool, arguments)) return rules.decide(tool, arguments);
    return rules.decide(tool.name.str(), tool.risk_level, arguments, workspace);
}

class PathRules : public ::testing::Test {
protected:
    PathRules() {
        directory.put("secrets/key", "k");
        directory.put("public/a", "a");
        directory.put("outside/x", "x");
        std::filesystem::create_directories(directory.path() / "public/sub");
        for (const auto& [target, name] : {std::pair{"secrets", "alias"},
                                           {"../secrets", "public/up"},
                                           {"secrets/key", "file"},
                                           {"secrets/new", "dangling"},
                                           {"real", "linked"}})
            std::filesystem::create_symlink(target, directory.path() / name);
        std::filesystem::create_directories(directory.path() / "real");
        workspace = std::make_shared<LocalWorkspace>(directory.path());
        tools = standard_tools(workspace);
    }
    RuleDecision decide(const char* rule, const char* tool, const std::string& path,
                        RuleEffect effect = RuleEffect::deny) const {
        ToolRules rules(workspace->root());
        for (const char* allowed : {"write: *", "edit: *"})
            rules.allow(ApprovalRule::parse(allowed));
        rules.restrict({ApprovalRule::parse(rule, effect), effect, {}});
        JsonObject arguments{{"content", ""}};
        if (!path.empty()) arguments["path"] = path;
        for (const AgentTool& one : tools) {
            if (one.name == tool) return on_file(rules, one, arguments, *workspace);
        }
        ADD_FAILURE() << "no tool " << tool;
        return {};
    }
    bool denied(const char* rule, const char* tool, const std::string& path) const {
        return !decide(rule, tool, path).refusal.empty();
    }

    ScopedTestDirectory directory;
    std::shared_ptr<LocalWorkspace> workspace;
    std::vector<AgentTool> tools;
};

TEST_F(PathRules, D182_EverySpellingOfAFile_IsDenied) {
    for (const std::string& path : std::initializer_list<std::string>{
             "secrets/key", "./secrets//key", "SECRETS/KEY", "public/../secrets/key",
             "secrets/./new/deep", directory / "secrets/key",
             directory / "public/../secrets/key"}) {
        for (const char* tool : {"write", "edit"}) {
            for (const char* rule : {"write: secrets/*", "edit: secrets", "*: secrets/*"})
                EXPECT_TRUE(denied(rule, tool, path)) << rule << " " << tool << " " << path;
        }
        EXPECT_TRUE(denied(("write: " + (directory / "secrets/*")).c_str(), "write", path)) << path;
    }
    for (const char* path : {"public/a", "secretsx", "new"})
        EXPECT_TRUE(decide("write: secrets/*", "write", path).allowed) << path;
}

TEST_F(PathRules, D182_Links_AreFollowed) {
    for (const char* path : {"alias/key", "alias/new", "public/up/key", "file", "dangling",
                             "public/sub/../up/key", "alias/../secrets/x"})
        EXPECT_TRUE(denied("write: secrets/*", "write", path)) << path;
    for (const char* path : {"alias/key", "file", "public/up/key"})
        EXPECT_TRUE(denied("read: secrets/*", "read", path)) << path;
    // A rule about a link means the directory, too.
    EXPECT_TRUE(denied("write: linked/*", "write", "real/a"));
    EXPECT_TRUE(denied("write: alias/key", "write", "secrets/key"));
}

TEST_F(PathRules, D182_Searches_AreDeniedOrAskedAbout) {
    EXPECT_TRUE(denied("read: secrets/*", "grep", "secrets"));
    EXPECT_TRUE(denied("list: secrets/*", "list", "alias"));
    for (const char* path : {"", ".", directory.path().c_str()}) {
        const RuleDecision above = decide("read: secrets/*", "grep", path);
        EXPECT_FALSE(above.allowed) << path;
        EXPECT_TRUE(above.refusal.empty());
        EXPECT_THAT(above.question, HasSubstr("below this directory may be files of the rule"));
    }
    EXPECT_FALSE(decide("read: *.pem", "grep", "public").allowed);
    EXPECT_TRUE(decide("read: secrets/*", "grep", "public").allowed);
    EXPECT_TRUE(decide("read: secrets/*", "list", ".").allowed) << "names are another rule's";
    EXPECT_TRUE(decide("write: secrets/*", "read", "secrets/key").allowed);
}

TEST_F(PathRules, D182_Ask_NeedsAnAnswer) {
    const RuleDecision asked = decide("write: secrets/*", "write", "file", RuleEffect::ask);
    EXPECT_FALSE(asked.allowed);
    EXPECT_TRUE(asked.always_asks);
    EXPECT_TRUE(asked.refusal.empty());
    EXPECT_FALSE(asked.always);
    EXPECT_THAT(asked.question, HasSubstr("the rule 'ask write: secrets/*'"));
}

TEST_F(PathRules, D182_BaseOfRule_IsWhereItsPathsBegin) {
    LocalWorkspace below(directory.path() / "public");
    ToolRules rules(below.root());
    rules.allow(ApprovalRule::parse("write: *"));
    rules.restrict({ApprovalRule::parse("write: public/sub/*", RuleEffect::deny), RuleEffect::deny,
                    "config", directory.path().string()});
    const AgentTool* write = nullptr;
    for (const AgentTool& one : tools) {
        if (one.name == "write") write = &one;
    }
    ASSERT_TRUE(write);
    EXPECT_FALSE(on_file(rules, *write, {{"path", "sub/x"}}, below).refusal.empty());
    EXPECT_TRUE(on_file(rules, *write, {{"path", "x"}}, below).allowed);
}

TEST_F(PathRules, D182_RuleForRead_BindsEdit) {
    EXPECT_TRUE(denied("read: secrets/*", "edit", "secrets/key")) << "its errors show lines";
    EXPECT_FALSE(denied("read: secrets/*", "write", "secrets/key"));
}

TEST_F(PathRules, D182_RuleWithoutPaths_CoversTheSameTools) {
    for (const char* tool : {"read", "grep", "edit"})
        EXPECT_TRUE(denied("read: *", tool, "public/a")) << tool;
    for (const char* tool : {"write", "edit"})
        EXPECT_TRUE(denied("write: *", tool, "public/a")) << tool;
    EXPECT_FALSE(denied("read: *", "list", "public"));
}

TEST_F(PathRules, D182_PathTooLongToResolve_IsDenied) {
    std::string path = "alias/";
    while (path.size() < 4085) path += "./";
    EXPECT_TRUE(denied("read: secrets/*", "read", path + "key"));
}

TEST_F(PathRules, D182_NameOfLink_CoversItsTarget) {
    EXPECT_TRUE(denied("read: file", "read", "secrets/key"));
    EXPECT_FALSE(denied("read: file", "read", "public/a"));
}

TEST_F(PathRules, D72_PathOfOtherTool_IsItsTarget) {
    const AgentTool remove("remove", "Removes.", AgentTool::no_parameters(),
                           [](JsonObject, ToolContext&) { return AgentToolResult("done"); });
    ToolRules rules(workspace->root());
    rules.allow(ApprovalRule::parse("remove: *"));
    ScopedTestDirectory outside;
    outside.put(".git/config", "");
    std::filesystem::create_symlink(outside.path() / ".git", directory.path() / "repository");
    EXPECT_TRUE(on_file(rules, remove, {{"path", outside / "file"}}, *workspace).allowed);
    for (const std::string& path : {outside / ".git/config", std::string("repository/config")})
        EXPECT_TRUE(on_file(rules, remove, {{"path", path}}, *workspace).always_asks) << path;
    EXPECT_TRUE(decide("read: x", "write", outside / "file").always_asks);
}

TEST_F(PathRules, D72_LinkToProtectedFile_AlwaysNeedsApproval) {
    std::filesystem::create_directories(directory.path() / ".git/hooks");
    std::filesystem::create_symlink(".git/hooks/new", directory.path() / "innocent");
    EXPECT_TRUE(decide("write: x", "write", "innocent").always_asks);
}

}  // namespace

}  // namespace cubepi
