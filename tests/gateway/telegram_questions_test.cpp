// Questions of a gateway in Telegram: answered by buttons after a kill, by those who may, once.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/support/json_member.hpp>

#include "fake_bot_server.hpp"
#include "gateway_process.hpp"
#include "scaled_clock.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;
using bub::telegram::FakeMessage;

constexpr std::int64_t ann = 7;
constexpr std::int64_t olga = 9;  // an operator
constexpr std::int64_t group = -100;
constexpr int clock_factor = 10;

constexpr const char* writes_a_file =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}]}, "Done."]})";
constexpr const char* asks_two_parts =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "ask_user", "arguments": {"questions": [
            {"key": "color", "prompt": "Which?", "options": [{"label": "Red", "value": "red"}, {"label": "Teal", "value": "teal"}]},
            {"key": "sizes", "prompt": "Which?", "multi_select": true, "options": [{"label": "S", "value": "s"}, {"label": "L", "value": "l"}]}
        ]}}]}, "Done."]})";
constexpr const char* continues = R"({"tokens_per_second": 100000, "answers": ["Done."]})";

std::string label_of(const FakeMessage& message, std::size_t row, std::size_t column = 0) {
    const Json& button = message.markup.at("inline_keyboard").at(row).at(column);
    return detail::text_member(button.as_object(), "text");
}

class TelegramQuestionsTest : public ::testing::Test {
protected:
    TelegramQuestionsTest() {
        home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                       "\", users: [7], chats: [-100], operators: [9]}}");
        bot.with_api([](FakeBotApi& api) {
            for (const std::int64_t chat : {ann, olga, group}) api.add_chat(chat);
        });
    }

    std::unique_ptr<GatewayProcess> start(const char* script) const {
        auto gateway = std::make_unique<GatewayProcess>(
            home, std::vector<std::string>{"--script", home.script(script)},
            std::vector<std::string>{"CUBEPI_TEST_CLOCK=" + std::to_string(clock_factor)});
        (void)gateway->wait_for("gateway.running");
        return gateway;
    }
    void say(std::int64_t chat, std::string text) {
        bot.with_api([&](FakeBotApi& api) {
            JsonObject update;
            update["message"] = api.message_of(ann, chat, std::move(text));
            api.add_update(std::move(update));
        });
    }
    /// Waits for a message of the bot whose text contains `text`.
    FakeMessage wait_for(std::int64_t chat, std::string_view text) {
        FakeMessage found;
        bot.wait_until([&](const FakeBotApi& api) {
            for (FakeMessage& message : api.messages(chat)) {
                if (message.text.find(text) == std::string::npos) continue;
                found = std::move(message);
                return true;
            }
            return false;
        });
        return found;
    }
    void press(std::int64_t user, const FakeMessage& message, std::size_t row,
               std::size_t column = 0) {
        bot.with_api([&](FakeBotApi& api) { (void)api.press(user, message.id, row, column); });
    }
    /// Waits until the button has this label.
    void wait_for_label(const FakeMessage& message, std::size_t row, std::string_view label) {
        bot.wait_until([&](const FakeBotApi& api) {
            for (const FakeMessage& one : api.messages(message.chat))
                if (one.id == message.id) return label_of(one, row).starts_with(label);
            return false;
        });
    }
    bool wrote() const {
        for (const auto& entry : std::filesystem::directory_iterator(home.workspaces())) {
            if (std::filesystem::exists(entry.path() / "new.txt")) return true;
        }
        return false;
    }

    GatewayHome home;
    FakeBotServer bot{std::make_shared<ScaledClock>(clock_factor)};
};

TEST_F(TelegramQuestionsTest, B25_AButtonAnswersAfterAKillAndOnlyForThoseWhoMay) {
    FakeMessage question;
    {
        const std::unique_ptr<GatewayProcess> gateway = start(writes_a_file);
        say(group, "/write@cubepi_bot the file");
        question = wait_for(group, "(approval)");
        EXPECT_FALSE(wrote());
        gateway->kill();
    }
    const std::unique_ptr<GatewayProcess> gateway = start(continues);
    press(ann, question, 0);
    (void)wait_for(group, "You may not answer this question");
    EXPECT_FALSE(wrote());
    press(olga, question, 0);
    (void)wait_for(group, "Done.");
    EXPECT_TRUE(wrote());
    wait_for_label(question, 0, "\u2705 Approved");
}

TEST_F(TelegramQuestionsTest, AFormIsAnsweredByButtonsAcrossAKill) {
    FakeMessage question;
    {
        const std::unique_ptr<GatewayProcess> gateway = start(asks_two_parts);
        say(ann, "ask me");
        question = wait_for(ann, "Choose and press Done");
        press(ann, question, 2);
        wait_for_label(question, 2, "\u25CF Teal");
        gateway->kill();
    }
    const std::unique_ptr<GatewayProcess> gateway = start(continues);
    press(ann, question, 5);
    wait_for_label(question, 5, "\u2611 L");
    press(ann, question, 6);
    (void)wait_for(ann, "Done.");
    wait_for_label(question, 0, "\u2705 Answered");
    const CommandResult tape = run_command(home, {"tape", "search", "The user answered"});
    EXPECT_NE(tape.output.find(R"({\"color\":\"teal\",\"sizes\":[\"l\"]})"), std::string::npos)
        << tape.output;
}

}  // namespace
}  // namespace cubepi::gateway_tests
