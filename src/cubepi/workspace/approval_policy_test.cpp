#include <cubepi/workspace/approval_policy.hpp>

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

ApprovalDecision shell(const ApprovalPolicy& policy, const char* command) {
    return policy.decide("shell", ToolRisk::writes, arguments({{"command", command}}));
}

TEST(ApprovalPolicy, D52_ReadingNeedsNoConsent) {
    const ApprovalPolicy policy;
    EXPECT_TRUE(policy.decide("read", ToolRisk::read_only, arguments({{"path", "x"}})).allowed);
    EXPECT_TRUE(policy.decide("shell_output", ToolRisk::read_only, {}).allowed);
    EXPECT_TRUE(policy.decide("shell_kill", ToolRisk::writes, {}).allowed);
}

TEST(ApprovalPolicy, D52_WritingNetworkAndShellAreAskedAbout) {
    const ApprovalPolicy policy;
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
    EXPECT_EQ(fetch.always->text(), "fetch: docs.example.org");
    EXPECT_FALSE(shell(policy, "ls").allowed);
}

TEST(ApprovalPolicy, SaysThatACommandIsNotConfined) {
    const ApprovalPolicy policy;
    const auto decision = shell(policy, "make test");
    EXPECT_THAT(decision.question, HasSubstr("make test"));
    EXPECT_THAT(decision.question, HasSubstr("not confined to the workspace"));
    EXPECT_THAT(decision.question, Not(HasSubstr("undone")));
    EXPECT_EQ(decision.always->text(), "shell: make test");
}

TEST(ApprovalPolicy, D52_NeverOffersAlwaysForWhatCannotBeUndone) {
    const ApprovalPolicy policy;
    const auto decision = shell(policy, "git push");
    EXPECT_EQ(decision.risk, ToolRisk::irreversible);
    EXPECT_FALSE(decision.always);
    EXPECT_THAT(decision.question, HasSubstr("may not be undone"));
    const auto tool =
        policy.decide("deploy", ToolRisk::irreversible, arguments({{"where", "production"}}));
    EXPECT_FALSE(tool.allowed);
    EXPECT_FALSE(tool.always);
    EXPECT_THAT(tool.question, HasSubstr("deploy (irreversible) with {\"where\":\"production\"}"));
}

TEST(ApprovalPolicy, OffersNoRuleThatCouldNotMatch) {
    const ApprovalPolicy policy;
    EXPECT_FALSE(shell(policy, "make && ls").always);
    EXPECT_FALSE(shell(policy, "").always);
    EXPECT_FALSE(
        policy.decide("fetch", ToolRisk::network, arguments({{"url", "nonsense"}})).always);
}

TEST(ApprovalPolicy, RemembersWhatWasAllowed) {
    ApprovalPolicy policy;
    const auto asked = shell(policy, "git status -s");
    policy.allow(*asked.always);
    policy.allow(*asked.always);
    EXPECT_EQ(policy.rules().size(), 1u);
    EXPECT_TRUE(shell(policy, "git status").allowed);
    EXPECT_FALSE(shell(policy, "git status; ls").allowed);
    EXPECT_FALSE(shell(policy, "git log").allowed);

    policy.allow(ApprovalRule::parse("fetch: example.org"));
    EXPECT_TRUE(
        policy.decide("fetch", ToolRisk::network, arguments({{"url", "http://example.org:80/x"}}))
            .allowed);
    EXPECT_FALSE(
        policy.decide("fetch", ToolRisk::network, arguments({{"url", "http://example.org.evil/x"}}))
            .allowed);
    EXPECT_FALSE(
        policy.decide("fetch", ToolRisk::network, arguments({{"url", "http://example.org@evil/x"}}))
            .allowed);

    policy.allow(ApprovalRule::parse("write: *"));
    EXPECT_TRUE(policy.decide("write", ToolRisk::writes, arguments({{"path", "x"}})).allowed);
    EXPECT_FALSE(policy.decide("edit", ToolRisk::writes, arguments({{"path", "x"}})).allowed);
}

TEST(ApprovalPolicy, RefusesRulesThatMatchNothing) {
    ApprovalPolicy policy;
    EXPECT_THROW(ApprovalRule::parse("git status"), Error);
    EXPECT_THROW(ApprovalRule::parse("shell:"), Error);
    EXPECT_THROW(policy.allow(ApprovalRule::parse("write: src")), Error);
    EXPECT_THROW(policy.allow(ApprovalRule::parse("shell: ls; rm")), Error);
    EXPECT_TRUE(policy.rules().empty());
}

TEST(ApprovalPolicy, ShowsNothingThatForgesATerminal) {
    const ApprovalPolicy policy;
    const auto decision = shell(policy, "ls\x1b[2K\rmake\nx \xE2\x80\xAE");
    EXPECT_THAT(decision.question, HasSubstr("ls?[2K?make\\nx ?\n"));
}

}  // namespace
}  // namespace cubepi
