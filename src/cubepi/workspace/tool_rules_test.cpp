#include <cubepi/workspace/tool_rules.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

namespace cubepi {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JsonObject arguments(std::initializer_list<std::pair<const char*, const char*>> fields) {
    JsonObject object;
    for (const auto& [name, value] : fields) object[name] = value;
    return object;
}

ApprovalDecision shell(const ToolRules& policy, const char* command) {
    return policy.decide("shell", ToolRisk::writes, arguments({{"command", command}}));
}

TEST(ToolRules, D52_ReadingNeedsNoApproval) {
    const ToolRules policy("/src/app");
    EXPECT_TRUE(policy.decide("read", ToolRisk::read_only, arguments({{"path", "x"}})).allowed);
    EXPECT_TRUE(policy.decide("shell_output", ToolRisk::read_only, {}).allowed);
    EXPECT_TRUE(policy.decide("shell_kill", ToolRisk::writes, {}).allowed);
}

TEST(ToolRules, D52_WritingNetworkAndShellNeedApproval) {
    const ToolRules policy("/src/app");
    const auto write = policy.decide("write", ToolRisk::writes,
                                     arguments({{"path", "src/a.c"}, {"content", "a\nb\n"}}));
    EXPECT_FALSE(write.allowed);
    EXPECT_EQ(write.question, "Write src/a.c (2 lines)");
    EXPECT_EQ(write.always->text(), "write: *");
    const auto edit =
        policy.decide("edit", ToolRisk::writes,
                      arguments({{"path", "a"}, {"old_text", "x"}, {"new_text", "y\nz"}}));
    EXPECT_EQ(edit.question, "Edit a: replace 1 line by 2 lines");
    const auto fetch = policy.decide("fetch", ToolRisk::network,
                                     arguments({{"url", "https://Docs.example.org/x"}}));
    EXPECT_FALSE(fetch.allowed);
    EXPECT_EQ(fetch.question, "Fetch https://Docs.example.org/x");
    EXPECT_EQ(fetch.always->text(), "fetch: https://docs.example.org");
    EXPECT_FALSE(shell(policy, "ls").allowed);
}

TEST(ToolRules, StatesThatACommandIsNotConfined) {
    const ToolRules policy("/src/app");
    const auto decision = shell(policy, "make test");
    EXPECT_THAT(decision.question, HasSubstr("make test"));
    EXPECT_THAT(decision.question, HasSubstr("not confined to the workspace"));
    EXPECT_THAT(decision.question, Not(HasSubstr("Known")));
    EXPECT_EQ(decision.always->text(), "shell: cd /src/app && make test");
}

TEST(ToolRules, D52_NeverOffersAlwaysForIrreversibleCalls) {
    const ToolRules policy("/src/app");
    const auto decision = shell(policy, "git push");
    EXPECT_EQ(decision.risk, ToolRisk::irreversible);
    EXPECT_FALSE(decision.always);
    EXPECT_THAT(decision.question, HasSubstr("Known: git push publishes commits."));
    const auto tool =
        policy.decide("deploy", ToolRisk::irreversible, arguments({{"where", "production"}}));
    EXPECT_FALSE(tool.allowed);
    EXPECT_FALSE(tool.always);
    EXPECT_THAT(tool.question, HasSubstr("deploy (irreversible) with {\"where\":\"production\"}"));
    EXPECT_THAT(tool.question, HasSubstr("The tool declares that its effects cannot be undone."));
}

TEST(ToolRules, OffersOnlyRulesThatCanMatch) {
    const ToolRules policy("/src/app");
    EXPECT_FALSE(shell(policy, "make && ls").always);
    EXPECT_FALSE(shell(policy, "").always);
    EXPECT_FALSE(
        policy.decide("fetch", ToolRisk::network, arguments({{"url", "nonsense"}})).always);
}

TEST(ToolRules, RemembersAllowedCalls) {
    ToolRules policy("/src/app");
    const auto asked = shell(policy, "git status -s");
    policy.allow(*asked.always);
    policy.allow(*asked.always);
    EXPECT_EQ(policy.rules().size(), 1u);
    EXPECT_TRUE(shell(policy, "git status").allowed);
    EXPECT_FALSE(shell(policy, "git status --no-such-option").allowed);
    EXPECT_FALSE(shell(policy, "git status; ls").allowed);
    EXPECT_FALSE(shell(policy, "git log").allowed);

    policy.allow(ApprovalRule::parse("write: *"));
    EXPECT_TRUE(policy.decide("write", ToolRisk::writes, arguments({{"path", "x"}})).allowed);
    EXPECT_FALSE(policy.decide("edit", ToolRisk::writes, arguments({{"path", "x"}})).allowed);
}

TEST(ToolRules, AllowsACommandInTheDirectoryOfItsRule) {
    ToolRules policy("/src/app");
    const auto in = [&policy](const char* command, const char* directory) {
        return policy.decide("shell", ToolRisk::writes,
                             arguments({{"command", command}, {"working_directory", directory}}));
    };
    EXPECT_EQ(in("./b.sh", "sub").always->text(), "shell: cd /src/app/sub && ./b.sh");
    policy.allow(*in("./b.sh", "sub").always);
    for (const char* same : {"sub", "./sub/", "sub//.", "/src/app/sub"})
        EXPECT_TRUE(in("./b.sh", same).allowed) << same;
    for (const char* other :
         {"", ".", "sub/x", "/src/app", "/src/app/other", "link/../sub", "sub/../sub", "SUB"}) {
        EXPECT_FALSE(in("./b.sh", other).allowed) << other;
    }
    EXPECT_FALSE(in("./b.sh", "link/../sub").always) << "a link could lead anywhere";
}

TEST(ToolRules, AllowsFetchByOrigin) {
    ToolRules policy("/src/app");
    const auto fetch = [&policy](const char* url) {
        return policy.decide("fetch", ToolRisk::network, arguments({{"url", url}})).allowed;
    };
    policy.allow(ApprovalRule::parse("fetch: example.org"));
    policy.allow(ApprovalRule::parse("fetch: http://localhost:8080"));
    for (const char* url : {"https://example.org", "https://EXAMPLE.org:443/x?y#z",
                            "https://%65xample.org/", "http://localhost:8080/"}) {
        EXPECT_TRUE(fetch(url)) << url;
    }
    for (const char* url :
         {"http://example.org/", "http://example.org:443/", "https://example.org:8443/",
          "https://example.org.evil/x", "https://example.org@evil/x", "https://a@example.org/",
          "https://example.org./", "https://localhost:8080/", "http://localhost/",
          "ftp://example.org", "https://example.org:0/", "https:/example.org/", "example.org",
          ""}) {
        EXPECT_FALSE(fetch(url)) << url;
    }
    EXPECT_EQ(ApprovalRule::parse("fetch: example.org").problem(), "");
    for (const char* rule : {"fetch: https://example.org/path", "fetch: ftp://example.org",
                             "fetch: https://u@example.org", "fetch: exa mple"}) {
        EXPECT_THAT(ApprovalRule::parse(rule).problem(), HasSubstr("origin")) << rule;
    }
}

TEST(ToolRules, D72_WritesToProtectedPathsAlwaysNeedApproval) {
    ToolRules policy("/src/app");
    policy.allow(ApprovalRule::parse("write: *"));
    policy.allow(ApprovalRule::parse("edit: *"));
    const auto write = [&policy](const char* path, const std::optional<std::string>& target) {
        return policy.decide("write", ToolRisk::writes,
                             arguments({{"path", path}, {"content", ""}}), target);
    };
    EXPECT_TRUE(write("src/a.c", "src/a.c").allowed);
    EXPECT_TRUE(write(".gitignore", ".gitignore").allowed);
    EXPECT_TRUE(write("docs/header.md", "docs/header.md").allowed);
    for (const char* path : {".git/config",
                             "./.git//hooks/x",
                             "sub/.git/config",
                             "x/../.git/config",
                             ".GIT/config",
                             ".git./config",
                             ".git /config",
                             ".g\xE2\x80\x8Cit/config",
                             ".git\\config",
                             ".git::$INDEX_ALLOCATION/config",
                             "GIT~1/config",
                             "bare.git/config",
                             ".git",
                             "AGENTS.md",
                             "Agents.MD",
                             "sub/AGENTS.md",
                             "AGENTS.md.",
                             ".agents/skills/x/SKILL.md",
                             ".AGENT/x",
                             "HEAD",
                             "sub/head",
                             "/src/app/.git/config"}) {
        const auto decision = write(path, path);
        EXPECT_FALSE(decision.allowed) << path;
        EXPECT_FALSE(decision.always) << path;
        EXPECT_THAT(decision.question, HasSubstr("Always needs approval: ")) << path;
        EXPECT_FALSE(policy.decide("edit", ToolRisk::writes, arguments({{"path", path}})).allowed);
    }
    EXPECT_FALSE(write("link/x", ".git/x").allowed) << "it leads there";
    EXPECT_FALSE(write("new/../x", std::nullopt).allowed) << "its target is unknown";
}

TEST(ToolRules, RefusesRulesThatMatchNothing) {
    ToolRules policy("/src/app");
    EXPECT_THROW(ApprovalRule::parse("git status"), Error);
    EXPECT_THROW(ApprovalRule::parse("shell:"), Error);
    EXPECT_THROW(policy.allow(ApprovalRule::parse("write: src")), Error);
    EXPECT_THROW(policy.allow(ApprovalRule::parse("shell: ls; rm")), Error);
    EXPECT_TRUE(policy.rules().empty());
}

TEST(ToolRules, ShowsNoCharactersThatForgeTerminalOutput) {
    const ToolRules policy("/src/app");
    const auto decision = shell(policy, "ls\x1b[2K\rmake\nx \xE2\x80\xAE");
    EXPECT_THAT(decision.question, HasSubstr("ls?[2K?make\\nx ?\n"));
}

}  // namespace
}  // namespace cubepi
