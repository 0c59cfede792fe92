#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/telegram_channel.hpp>
#include <support/fake_bot_api.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub::telegram {

using cubepi::Task;

/// A channel, the service in memory, and a handler in the place of a manager.
class ChannelFixture : public testing::Test {
public:
    ChannelFixture() {
        runtime = std::make_shared<const cubepi::Runtime>(
            cubepi::Runtime().with_clock(clock).with_transport(api.transport()));
        options.token = api.token();
        options.users = {"7", "8"};
        options.operators = {"9"};
        options.chats = {"-100"};
        options.runtime = runtime;
        options.on_warning = [this](const std::string& text) { warnings.push_back(text); };
        for (const std::int64_t chat : {7, 8, 9, -100}) api.add_chat(chat);
    }

    using Script = std::function<Task<>(ChannelFixture&)>;

    /// Runs `script` while the channel runs.
    void serve(Script script) {
        cubepi::testing::run_advancing(*clock, started(*this, std::move(script)));
    }
    void make_channel() {
        channel = std::make_shared<TelegramChannel>(
            options, [this](Envelope message) { return handle(std::move(message)); });
    }
    /// Waits until the condition holds, at most ten minutes of the clock.
    Task<bool> until(std::function<bool()> condition) {
        for (int tenths = 0; tenths < 6000; ++tenths) {
            if (condition()) co_return true;
            co_await clock->sleep_for(std::chrono::milliseconds(100));
        }
        co_return false;
    }
    Task<> wait_for_messages(std::size_t count) {
        auto has_arrived = [this, count] { return received.size() >= count; };
        const bool arrived = co_await until(std::move(has_arrived));
        EXPECT_TRUE(arrived) << received.size() << " of " << count;
    }
    /// Sends an answer in the chat of a user.
    Task<> answer(std::int64_t chat, std::string text) {
        Envelope message = Envelope(std::move(text)).on("telegram", std::to_string(chat));
        message.session_id = "telegram:" + std::to_string(chat);
        return channel->send(std::move(message));
    }
    std::string all_warnings() const {
        std::string all;
        for (const std::string& one : warnings) all += one + "\n";
        return all;
    }

    std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    FakeBotApi api{clock};
    std::shared_ptr<const cubepi::Runtime> runtime;
    TelegramChannelOptions options;
    std::shared_ptr<TelegramChannel> channel;
    std::vector<Envelope> received;
    std::vector<std::string> warnings;
    /// Called before a message is recorded as received; may throw.
    std::function<void(const Envelope&)> on_message;

private:
    Task<> handle(Envelope message) {
        if (on_message) on_message(message);
        received.push_back(std::move(message));
        co_return;
    }
    static Task<> started(ChannelFixture& fixture, Script script) {
        const auto server = std::make_shared<cubepi::HttpServer>(co_await cubepi::this_executor);
        if (fixture.options.webhook) fixture.options.webhook->server = server;
        fixture.make_channel();
        co_await fixture.channel->start(std::stop_token());
        const cubepi::Outcome<> done = co_await cubepi::outcome_of(script(fixture));
        co_await fixture.channel->stop();
        co_await server->stop();
        done.rethrow();
    }
};

}  // namespace bub::telegram
