#include "gateway_settings.hpp"

#include <gtest/gtest.h>

#include <string>

#include <cubepi/core/error.hpp>

#include "yaml_edit.hpp"

namespace cubepi::app {
namespace {

GatewaySettings read(const std::string& yaml) { return gateway_settings(yaml_values(yaml)); }

std::string problem_of(const std::string& yaml) {
    try {
        (void)read(yaml);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(TelegramSettings, TelegramHasDefaults) {
    const GatewaySettings settings = read("gateway: {telegram: {}}");
    ASSERT_TRUE(settings.telegram.has_value());
    EXPECT_EQ(settings.telegram->token_env, "TELEGRAM_BOT_TOKEN");
    EXPECT_TRUE(settings.telegram->users.empty());
    EXPECT_TRUE(settings.telegram->progress);
    EXPECT_FALSE(settings.telegram->webhook.has_value());
    EXPECT_FALSE(read("gateway: {}").telegram.has_value());
}

TEST(TelegramSettings, TelegramIsReadCompletely) {
    const GatewaySettings settings = read(R"(
gateway:
  telegram:
    token_env: MY_BOT
    users: [42, "43"]
    chats: [-1001234]
    operators: [42]
    progress: false
    webhook: {url: "https://bot.example.org/x", listen: "127.0.0.1:9000", path: /x, secret_env: S}
)");
    const TelegramChannelSettings& telegram = settings.telegram.value();
    EXPECT_EQ(telegram.token_env, "MY_BOT");
    EXPECT_EQ(telegram.users, (std::vector<std::string>{"42", "43"}));
    EXPECT_EQ(telegram.chats, std::vector<std::string>{"-1001234"});
    EXPECT_EQ(telegram.operators, std::vector<std::string>{"42"});
    EXPECT_FALSE(telegram.progress);
    ASSERT_TRUE(telegram.webhook.has_value());
    EXPECT_EQ(telegram.webhook->listen.text(), "127.0.0.1:9000");
    EXPECT_EQ(telegram.webhook->path, "/x");
    EXPECT_EQ(telegram.webhook->secret_env, "S");
}

TEST(TelegramSettings, MistakesInTelegramAreNamed) {
    EXPECT_NE(problem_of("gateway: {telegram: {user: [1]}}").find("gateway.telegram.user"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {users: ['@ann']}}").find("ids of users"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {users: [-5]}}").find("ids of users"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {chats: [5]}}").find("ids of groups"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {webhook: {url: 'http://x'}}}").find("https://"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {webhook: {}}}").find("webhook.url"),
              std::string::npos);
}

}  // namespace
}  // namespace cubepi::app
