// kill -9 of a gateway with a thousand chats of Telegram, between a call of the Bot API and its effect: every message is answered, none is
// lost, none is processed twice, and an answer that is sent twice is marked. The points are numbers of calls, not times.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fake_bot_server.hpp"
#include "gateway_process.hpp"
#include "kill_support.hpp"
#include "scaled_clock.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;
using bub::telegram::FakeMessage;
using bub::telegram::Fault;

constexpr std::int64_t users = 1'000;
constexpr int messages_each = 2;
/// Limit of the calls between two signals.
constexpr std::size_t most_calls = 1'500;
/// Telegram allows 30 messages a second: two thousand would take more than two minutes.
constexpr int clock_factor = 12;
constexpr std::string_view sent_again = "(sent again) ";

/// A signal that the gateway receives with one of its calls of the Bot API.
struct Step {
    std::size_t calls = 0;  ///< after those of the step before
    int signal = SIGKILL;
    bool is_executed = true;  ///< the call has its effect
};

std::string text_of(std::int64_t user, int number) {
    return "m" + std::to_string(user) + "-" + std::to_string(number);
}

/// The chats of the users and the plan for a gateway. Used on the server's thread.
class Chats {
public:
    explicit Chats(FakeBotApi& api) : api_(api) {
        api.on_call = [this](const std::string& method, std::size_t) { return on_call(method); };
        api.on_message = [this](const FakeMessage& message) { on_message(message); };
        for (std::int64_t user = 1; user <= users; ++user) say(user, 0);
    }

    /// From now on the gateway receives the signals of the plan, and SIGTERM when all messages are answered.
    void begin(GatewayProcess& gateway, std::vector<Step> plan) {
        gateway_ = &gateway;
        plan_.assign(plan.begin(), plan.end());
        end_if_all_answered();
    }
    void end() { gateway_ = nullptr; }
    std::size_t open() const { return open_.size(); }

    /// Checks that the chats have each answer, without the mark at most once, and nothing else.
    void expect_answers() const {
        for (std::int64_t user = 1; user <= users; ++user) {
            std::multiset<std::string> texts;
            // An answer that was being shown when the gateway was killed ends with an ellipsis.
            for (const std::string& text : api_.texts(user))
                if (!text.ends_with("\u2026")) texts.insert(text);
            for (int number = 0; number < messages_each; ++number) {
                const std::string answer = "re: " + text_of(user, number);
                EXPECT_LE(texts.count(answer), 1u) << answer << " is there twice without a mark";
                const std::size_t in_all =
                    texts.erase(answer) + texts.erase(std::string(sent_again) + answer);
                EXPECT_GE(in_all, 1u) << answer << " was not sent";
            }
            for (const std::string& text : texts) ADD_FAILURE() << text << " is not an answer";
        }
    }

private:
    void say(std::int64_t user, int number) {
        const std::string text = text_of(user, number);
        api_.say(user, text);
        open_.insert("re: " + text);
    }

    Fault on_call(const std::string& method) {
        if (!gateway_ || plan_.empty()) return Fault::none;
        // A poll that ends without an update: all other messages are held, and no more calls would come.
        const bool is_idle = method == "getUpdates" && api_.waiting_updates() == 0;
        if (!is_idle && plan_.front().calls-- > 0) return Fault::none;
        const Step step = plan_.front();
        plan_.pop_front();
        gateway_->send(step.signal);
        return step.is_executed ? Fault::none : Fault::cut_before;
    }

    void on_message(const FakeMessage& message) {
        const bool is_marked = message.text.starts_with(sent_again);
        const std::string text = message.text.substr(is_marked ? sent_again.size() : 0);
        if (open_.erase(text) == 0) return;
        const int number = std::stoi(text.substr(text.rfind('-') + 1)) + 1;
        if (number < messages_each) say(message.chat, number);
        end_if_all_answered();
    }

    void end_if_all_answered() {
        if (!open_.empty() || !gateway_) return;
        gateway_->send(SIGTERM);
        gateway_ = nullptr;
    }

    FakeBotApi& api_;
    std::set<std::string> open_;  // answers
    GatewayProcess* gateway_ = nullptr;
    std::deque<Step> plan_;
};

class TelegramKillTest : public ::testing::Test {
protected:
    TelegramKillTest() {
        std::string ids;
        for (std::int64_t user = 1; user <= users; ++user)
            ids += (ids.empty() ? "" : ", ") + std::to_string(user);
        home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                       "\", users: [" + ids + "]}}");
        bot.with_api([this](FakeBotApi& api) { chats = std::make_unique<Chats>(api); });
    }

    std::unique_ptr<GatewayProcess> start() const {
        return std::make_unique<GatewayProcess>(
            home, std::vector<std::string>(),
            std::vector<std::string>{"CUBEPI_TEST_SPREAD=1",
                                     "CUBEPI_TEST_CLOCK=" + std::to_string(clock_factor)});
    }
    void begin(GatewayProcess& gateway, std::vector<Step> plan) {
        bot.with_api([&](FakeBotApi&) { chats->begin(gateway, std::move(plan)); });
    }
    /// Waits for the end of the gateway; returns its status.
    int end(GatewayProcess& gateway) {
        const int status = gateway.wait();
        bot.with_api([this](FakeBotApi&) { chats->end(); });
        return status;
    }
    std::size_t open() {
        return bot.with_api([this](FakeBotApi&) { return chats->open(); });
    }
    std::size_t some_calls() { return random() % most_calls; }
    Step kill() {
        Step step;
        step.calls = some_calls();
        step.is_executed = random() % 2 == 0;
        return step;
    }
    Step signal(int number) {
        Step step;
        step.calls = some_calls();
        step.signal = number;
        return step;
    }

    /// Kills a gateway that was just started.
    void run_and_kill() {
        const std::unique_ptr<GatewayProcess> gateway = start();
        begin(*gateway, {kill()});
        EXPECT_EQ(end(*gateway), 128 + SIGKILL) << gateway->output();
        EXPECT_GT(open(), 0u) << "the kill came too late to matter";
    }
    void run_and_drain() {
        const std::unique_ptr<GatewayProcess> gateway = start();
        (void)gateway->wait_for("gateway.running");
        begin(*gateway, {signal(SIGTERM)});
        EXPECT_EQ(end(*gateway), 0) << gateway->output();
    }
    /// Reloads a gateway, and kills it while it reloads or after that.
    void run_reload_and_kill() {
        const std::unique_ptr<GatewayProcess> gateway = start();
        (void)gateway->wait_for("gateway.running");
        begin(*gateway, {signal(SIGHUP), kill()});
        EXPECT_EQ(end(*gateway), 128 + SIGKILL) << gateway->output();
        (void)gateway->wait_for("gateway.reloading");
    }
    /// Runs a gateway, with the decisions of an operator, until all messages are answered.
    void run_to_the_end() {
        const std::unique_ptr<GatewayProcess> gateway = start();
        (void)gateway->wait_for("gateway.running");
        decide_about_held(home, "release");
        begin(*gateway, {});
        EXPECT_EQ(end(*gateway), 0) << gateway->output();
    }

    void expect_each_once() {
        bot.with_api([this](FakeBotApi& api) {
            chats->expect_answers();
            EXPECT_EQ(api.rejected, api.too_fast) << api.last_rejection;
        });
        std::set<std::string> texts;
        for (std::int64_t user = 1; user <= users; ++user) {
            for (int number = 0; number < messages_each; ++number)
                texts.insert(text_of(user, number));
        }
        expect_on_tapes_once(home, texts);
    }

    std::mt19937 random{20261125};
    GatewayHome home;
    FakeBotServer bot{std::make_shared<ScaledClock>(clock_factor)};
    std::unique_ptr<Chats> chats;
};

TEST_F(TelegramKillTest, B18_AThousandChatsSurviveKillsADrainAndAReload) {
    run_and_kill();
    run_and_kill();
    run_and_drain();
    run_and_kill();
    run_reload_and_kill();
    run_and_kill();
    run_to_the_end();
    EXPECT_EQ(open(), 0u);
    run_to_the_end();
    expect_each_once();
}

}  // namespace
}  // namespace cubepi::gateway_tests
