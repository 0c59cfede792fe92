#include "telegram_questions.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/telegram/fake_bot_api.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "../config/yaml_edit.hpp"
#include "settings_changes.hpp"

namespace cubepi::app {
namespace {

/// A user with scripted secrets and a scripted confirmation.
class Operator final : public bub::OnboardingUi {
public:
    void say(std::string text) override { heard += text + "\n"; }
    Task<std::string> ask(std::string, std::string default_value) override {
        co_return default_value;
    }
    Task<std::string> ask_secret(std::string question) override {
        heard += question + "\n";
        if (secrets.empty()) throw Error(ErrorCode::cancelled, "had enough");
        std::string secret = secrets.front();
        secrets.pop_front();
        co_return secret;
    }
    Task<std::size_t> choose(std::string, std::vector<std::string>, std::size_t chosen) override {
        co_return chosen;
    }
    Task<bool> confirm(std::string question, bool) override {
        heard += question + "\n";
        co_return agrees;
    }

    std::deque<std::string> secrets;
    bool agrees = true;
    std::string heard;
};

class TelegramOnboarding : public ::testing::Test {
protected:
    JsonObject ask(const std::string& yaml, std::string token = {}) {
        TelegramQuestionsInput input;
        input.config = yaml_values(yaml);
        input.token = std::move(token);
        input.token_variable = "TELEGRAM_BOT_TOKEN";
        input.code = "12345678";
        input.runtime = std::make_shared<const Runtime>(
            Runtime().with_clock(clock).with_transport(api.transport()));
        return testing::run_advancing(*clock, ask_for_telegram(std::move(input), user));
    }

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    bub::telegram::FakeBotApi api{clock};
    Operator user;
};

TEST_F(TelegramOnboarding, ATypedTokenAndTheFirstUserAreWritten) {
    user.secrets = {"not a token", "42:wrong", api.token()};
    api.say(7, "12345678");
    const JsonObject wanted = ask("model: m");
    EXPECT_EQ(wanted,
              (JsonObject{
                  {"model", "m"},
                  {"gateway", JsonObject{{"telegram", JsonObject{{"token", api.token()},
                                                                 {"operators", JsonArray{7}}}}}}}));
    EXPECT_NE(user.heard.find("https://t.me/cubepi_bot?start=12345678"), std::string::npos);
    EXPECT_NE(user.heard.find("Telegram does not know this token"), std::string::npos);
    EXPECT_EQ(user.heard.find("secret-of-the-bot"), std::string::npos);
    const std::string changes = settings_changes(yaml_values("model: m"), wanted);
    EXPECT_EQ(changes.find("secret-of"), std::string::npos) << changes;
}

TEST_F(TelegramOnboarding, ATokenOfTheEnvironmentIsNotWritten) {
    api.say(7, "12345678");
    user.agrees = false;
    const JsonObject wanted =
        ask("gateway: {telegram: {users: [5], progress: false}}", api.token());
    EXPECT_EQ(wanted, yaml_values("gateway: {telegram: {users: [5, 7], progress: false}}"));
    // A second time changes nothing.
    api.say(7, "12345678");
    EXPECT_EQ(ask("gateway: {telegram: {users: [5, 7], progress: false}}", api.token()),
              yaml_values("gateway: {telegram: {users: [5, 7], progress: false}}"));
}

TEST_F(TelegramOnboarding, AWrongTokenOfTheEnvironmentIsAnError) {
    EXPECT_THROW((void)ask("", "42:wrong"), Error);
}

TEST(TelegramComments, ExplainTheSettings) {
    const std::string before = "# mine\nmodel: m\n";
    const JsonObject wanted =
        yaml_values("model: m\ngateway: {telegram: {token: '42:abc', users: [5], operators: [7]}}");
    const std::string text = with_telegram_comments(edit_yaml(before, wanted));
    EXPECT_EQ(yaml_values(text), wanted) << text;
    EXPECT_NE(text.find("# mine"), std::string::npos) << text;
    EXPECT_NE(text.find("# Users who may also answer"), std::string::npos) << text;
    // Comments that exist stay, and are not repeated.
    EXPECT_EQ(with_telegram_comments(text), text);
}

}  // namespace
}  // namespace cubepi::app
