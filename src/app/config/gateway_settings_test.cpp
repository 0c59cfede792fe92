#include "gateway_settings.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include <cubepi/core/error.hpp>

namespace cubepi::app {
namespace {

GatewaySettings settings_of(std::string_view json) {
    JsonObject config;
    config["gateway"] = boost::json::parse(json);
    return gateway_settings(config);
}

std::string refusal_of(std::string_view json) {
    try {
        (void)settings_of(json);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::parse);
        return error.what();
    }
    return {};
}

TEST(GatewaySettings, HasDefaultsWithoutTheKey) {
    const GatewaySettings settings = gateway_settings(JsonObject());
    EXPECT_EQ(settings.channels, std::vector<std::string>{"all"});
    EXPECT_EQ(settings.drain_timeout, std::chrono::seconds(30));
    EXPECT_FALSE(settings.http);
    EXPECT_FALSE(settings.status);
    EXPECT_FALSE(settings.shared_workspace);
}

TEST(GatewaySettings, ReadsAllKeys) {
    const GatewaySettings settings = settings_of(R"({
        "channels": ["http"], "root": "/srv/agents", "shared_workspace": true, "drain_timeout": 5,
        "max_waiting": 8, "threads": 3, "stream": false, "question_timeout": 600,
        "rules": [{"channel": "telegram", "chat": -100, "user": 42, "allow": ["shell: git status"], "refuse": ["fetch"]}],
        "approvers": [{"channel": "telegram", "user": 7}],
        "http": {"listen": "[::1]:9000", "token_env": "T", "operators": ["olga"]},
        "status": "127.0.0.1:9001"})");
    EXPECT_EQ(settings.root, "/srv/agents");
    EXPECT_TRUE(settings.shared_workspace);
    EXPECT_EQ(settings.max_waiting, 8u);
    EXPECT_EQ(settings.threads, 3u);
    EXPECT_EQ(settings.question_timeout, std::chrono::minutes(10));
    ASSERT_EQ(settings.rules.size(), 1u);
    EXPECT_TRUE(settings.rules[0].matches("telegram", "-100", "42"));
    EXPECT_FALSE(settings.rules[0].matches("telegram", "-100", "43"));
    ASSERT_EQ(settings.approvers.size(), 1u);
    EXPECT_EQ(settings.approvers[0].user, "7") << "ids may be numbers";
    ASSERT_TRUE(settings.http);
    EXPECT_EQ(settings.http->listen.host, "::1");
    EXPECT_EQ(settings.http->listen.text(), "[::1]:9000");
    ASSERT_TRUE(settings.status);
    EXPECT_EQ(settings.status->port, 9001);
}

TEST(GatewaySettings, AnErrorNamesTheKeyAndWhatIsExpected) {
    const auto names = [](std::string_view json, std::string_view text) {
        EXPECT_NE(refusal_of(json).find(text), std::string::npos) << refusal_of(json);
    };
    names(R"({"chanels": []})", "unknown key 'gateway.chanels'");
    names(R"({"drain_timeout": 0})", "gateway.drain_timeout must be a whole number");
    names(R"({"threads": 5000})", "gateway.threads must be at most 256");
    names(R"({"stream": "yes"})", "gateway.stream must be true or false");
    names(R"({"status": "9001"})", "gateway.status must be an address and a port");
    names(R"({"status": "localhost:70000"})", "gateway.status must be an address and a port");
    names(R"({"rules": [{"tools": []}]})", "unknown key 'gateway.rules[0].tools'");
    names(R"({"approvers": [{"user": 7}]})", "gateway.approvers[0].user must be");
    names(R"({"http": {"certificate": "/c.pem"}})", "gateway.http.key must be set together");
    names(R"({"root": "relative"})", "gateway.root must be a directory");
    names(R"([])", "gateway must be a mapping");
}

TEST(SenderRule, EmptyMembersMatchEverything) {
    EXPECT_TRUE(SenderRule().matches("telegram", "1", "2"));
    SenderRule rule;
    rule.chat = "1";
    EXPECT_TRUE(rule.matches("telegram", "1", ""));
    EXPECT_FALSE(rule.matches("telegram", "12", ""));
}

}  // namespace
}  // namespace cubepi::app
