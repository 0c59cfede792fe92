#include "gateway_findings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace cubepi::app {
namespace {

using Kind = GatewayFinding::Kind;

bool has(const std::vector<GatewayFinding>& findings, Kind kind, const std::string& text) {
    return std::any_of(findings.begin(), findings.end(), [&](const GatewayFinding& one) {
        return one.kind == kind && one.text.find(text) != std::string::npos;
    });
}

std::size_t problems(const std::vector<GatewayFinding>& findings) {
    return static_cast<std::size_t>(
        std::count_if(findings.begin(), findings.end(),
                      [](const GatewayFinding& one) { return one.kind == Kind::problem; }));
}

GatewaySettings with_http() {
    GatewaySettings settings;
    settings.http.emplace();
    settings.http->operators = {"olga"};
    return settings;
}

const Environment environment{{"CUBEPI_HTTP_TOKEN", "t"}, {"TELEGRAM_BOT_TOKEN", "t"}};

TEST(GatewayFindings, ReportNoProblemForALocalChannelWithAToken) {
    const auto findings = gateway_findings(with_http(), environment);
    EXPECT_TRUE(has(findings, Kind::good, "channel http at 127.0.0.1:8642; operators: olga"));
    EXPECT_EQ(problems(findings), 0u);
    EXPECT_EQ(problems(gateway_findings(GatewaySettings(), environment)), 0u);
}

TEST(GatewayFindings, NameWhatIsMissing) {
    GatewaySettings settings = with_http();
    settings.telegram.emplace();
    const auto findings = gateway_findings(settings, Environment());
    EXPECT_TRUE(has(findings, Kind::problem, "CUBEPI_HTTP_TOKEN is not set"));
    EXPECT_TRUE(has(findings, Kind::problem, "TELEGRAM_BOT_TOKEN is not set"));
    EXPECT_TRUE(has(findings, Kind::problem, "no user may write to the bot"));
}

TEST(GatewayFindings, B26_WarnOfWhatIsOpen) {
    GatewaySettings settings = with_http();
    settings.http->listen.host = "0.0.0.0";
    settings.status.emplace();
    settings.status->host = "192.168.0.7";
    settings.shared_workspace = true;
    SenderRule all;
    all.channel = "http";
    all.allow = {"shell: cd * && make"};
    SenderRule one = all;
    one.user = "ann";
    settings.rules = {all, one};
    const auto findings = gateway_findings(settings, environment);
    EXPECT_TRUE(has(findings, Kind::problem, "channel http is reachable from other machines"));
    EXPECT_TRUE(has(findings, Kind::problem, "status port is reachable from other machines"));
    EXPECT_TRUE(has(findings, Kind::problem, "all sessions share the workspace"));
    EXPECT_TRUE(
        has(findings, Kind::problem, "every user of http: may use shell: cd * && make unasked"));
    EXPECT_TRUE(
        has(findings, Kind::plain, "user ann of http: may use shell: cd * && make unasked"));
    EXPECT_EQ(problems(findings), 4u);
}

TEST(GatewayFindings, B26_ShowRulesThatAllowNothing) {
    GatewaySettings settings = with_http();
    SenderRule rule;
    rule.user = "ann";
    rule.allow = {"shell: git status", "shell: cd * && git status *", "write: *"};
    settings.rules = {rule};
    const auto findings = gateway_findings(settings, environment);
    EXPECT_TRUE(has(findings, Kind::problem, "the rule shell: git status allows nothing"));
    EXPECT_EQ(problems(findings), 1u);
}

TEST(GatewayFindings, B26_NameRulesForToolsThatDoNotExist) {
    GatewaySettings settings = with_http();
    SenderRule rule;
    rule.user = "ann";
    rule.allow = {"Fetch: *", "edit: *"};
    rule.refuse = {"bash", "shel", "teleport"};
    settings.rules = {rule};

    const auto findings = gateway_findings(settings, environment);

    const auto advice_on = [&](const std::string& text) {
        const auto found = std::find_if(
            findings.begin(), findings.end(),
            [&](const GatewayFinding& one) { return one.text.find(text) != std::string::npos; });
        return found == findings.end() ? std::string("none") : found->advice;
    };
    EXPECT_EQ(advice_on("a rule allows Fetch, but"), "Write fetch in gateway.rules.");
    EXPECT_EQ(advice_on("a rule refuses bash, but"), "Write shell in gateway.rules.");
    EXPECT_EQ(advice_on("a rule refuses shel, but"), "Write shell in gateway.rules.");
    EXPECT_EQ(advice_on("a rule refuses teleport, but").substr(0, 20), "The tools are read, ");
    EXPECT_EQ(problems(findings), 4u);
}

TEST(GatewayFindings, B26_KnowTheStandardTools) {
    const ScopedTestDirectory root;
    GatewaySettings settings = with_http();
    SenderRule rule;
    rule.user = "ann";
    for (const AgentTool& tool : standard_tools(std::make_shared<LocalWorkspace>(root.path())))
        rule.refuse.push_back(tool.name.str());
    settings.rules = {rule};
    EXPECT_GT(rule.refuse.size(), 8u);
    EXPECT_EQ(problems(gateway_findings(settings, environment)), 0u);
}

TEST(GatewayFindings, ShowAnInvalidRule) {
    GatewaySettings settings = with_http();
    SenderRule rule;
    rule.user = "ann";
    rule.allow = {"everything"};
    settings.rules = {rule};
    EXPECT_TRUE(has(gateway_findings(settings, environment), Kind::problem, "gateway.rules"));
}

}  // namespace
}  // namespace cubepi::app
