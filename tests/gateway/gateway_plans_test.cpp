// The to-do list of a session in Telegram: a model writes it, a user reads it in the chat, also after a kill of the gateway.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../joints/model_server.hpp"
#include "fake_bot_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;
using bub::telegram::FakeMessage;
using joint_tests::chat_answer;
using joint_tests::ModelServer;

constexpr int clock_factor = 50;
constexpr std::int64_t ann = 7;
constexpr std::int64_t ben = 8;

class TelegramPlans : public ::testing::Test {
protected:
    TelegramPlans() {
        home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                       "\", users: [7, 8]}}");
        bot.with_api([](FakeBotApi& api) {
            for (const std::int64_t chat : {ann, ben}) api.add_chat(chat);
        });
        start();
    }
    void start() {
        gateway = std::make_unique<GatewayProcess>(
            home,
            std::vector<std::string>{"--provider", "openai", "--base-url", model.url(), "-m",
                                     "local"},
            std::vector<std::string>{"CUBEPI_TEST_CLOCK=" + std::to_string(clock_factor)});
        (void)gateway->wait_for("gateway.running");
    }
    void say(std::int64_t chat, std::string text) {
        bot.with_api([&](FakeBotApi& api) {
            JsonObject update;
            update["message"] = api.message_of(chat, chat, std::move(text));
            api.add_update(std::move(update));
        });
    }
    /// Waits until `count` messages of the bot in the chat have this text; the live text of a turn, which shows the list too, has more.
    void wait_for(std::int64_t chat, std::string_view text, int count = 1) {
        bot.wait_until([&](const FakeBotApi& api) {
            const std::vector<FakeMessage> messages = api.messages(chat);
            int found = 0;
            for (const FakeMessage& message : messages) found += message.text == text ? 1 : 0;
            return found >= count;
        });
    }

    GatewayHome home;
    FakeBotServer bot{std::make_shared<ScaledClock>(clock_factor)};
    ModelServer model{std::vector<std::string>{
        chat_answer(
            "",
            {{"write_todos",
              R"({"todos":[{"content":"sow","status":"in_progress"},{"content":"reap","status":"pending"}]})"}}),
        chat_answer("Planned.")}};
    std::unique_ptr<GatewayProcess> gateway;
};

TEST_F(TelegramPlans, Todo_ShowsTheListOfItsChat) {
    say(ann, "plan the year");
    wait_for(ann, "Planned.");
    say(ann, "/todo");
    wait_for(ann, "▸ sow\n○ reap");
    say(ben, "/todo");
    wait_for(ben, "(no to-dos)");
    gateway->kill();
    start();
    say(ann, "/todo");
    wait_for(ann, "▸ sow\n○ reap", 2);
}

}  // namespace
}  // namespace cubepi::gateway_tests
