// kill -9 of a gateway with many sessions: every message is answered, none is lost, none is processed twice unmarked. Through the channel
// http, and in Telegram between a call of the Bot API and its effect; the points are numbers of replies and of calls, not times.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

#include "fake_bot_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;
using bub::telegram::FakeMessage;
using bub::telegram::Fault;

// After the kills: the decisions of an operator, and the state of the tapes.

/// Decides about the messages and answers that are held, because a gateway ended in the middle of them twice: releases the messages,
/// and does with the answers what `answers` says, "release" or "discard".
void decide_about_held(const GatewayHome& home, const std::string& answers) {
    const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
    for (const char* kind : {"messages", "answers"}) {
        const std::string command = std::string(kind) == "answers" ? answers : "release";
        for (const Json& one : held.at(kind).as_array())
            (void)app::call_gateway(home.socket(),
                                    JsonObject{{"command", command}, {"id", one.at("id")}});
    }
}

/// The number of messages and answers on all tapes, by the last line of their text. The lines before it say that a message was
/// delivered again.
std::map<std::string, int> texts_on_tapes(const GatewayHome& home) {
    bub::FileTapeStore tapes(home.tapes());
    std::map<std::string, int> counts;
    for (const std::string& name : run(tapes.all_tapes())) {
        const auto entries = run(tapes.fetch(name, bub::TapeQuery()));
        for (const Message& message : bub::agent_messages(entries)) {
            const std::string text = message.text();
            ++counts[text.substr(text.rfind('\n') + 1)];
        }
    }
    return counts;
}

/// Checks that each message, and its answer of the echoing model, is on the tapes once.
void expect_on_tapes_once(const GatewayHome& home, const std::set<std::string>& messages) {
    std::map<std::string, int> counts = texts_on_tapes(home);
    for (const std::string& text : messages) {
        EXPECT_EQ(counts[text], 1) << text;
        EXPECT_EQ(counts["re: " + text], 1) << text;
    }
}

// The channel http.

/// Limit of the replies before a gateway is killed.
constexpr std::size_t most_replies = 40;

/// The client's knowledge of a message.
struct Sent {
    std::string session = {};
    std::string text = {};
    int status = 0;  ///< of the last reply; 0: none
    std::string answer = {};
};

bool is_done(const Sent& sent) {
    // 409: a gateway before a kill has accepted the message, and its answer, which is on the tape, is held.
    return sent.status == 200 || sent.status == 409;
}

Task<> send_one(std::uint16_t port, Sent& sent, std::size_t& done, AsyncEvent& progress) {
    JsonObject message{{"session", sent.session}, {"text", sent.text}};
    const HttpReply reply = co_await post_message(port, std::move(message), "key-" + sent.text);
    sent.status = reply.status;
    sent.answer = reply.text();
    if (is_done(sent)) ++done;
    progress.pulse();
}

/// Sends all messages that are not done, and kills or drains the gateway after `limit` replies.
Task<> send_all(GatewayProcess& gateway, std::uint16_t port, std::vector<Sent>& messages,
                std::size_t limit, int signal) {
    TaskScope scope(co_await this_executor);
    AsyncEvent progress;
    std::size_t done = 0;
    for (Sent& sent : messages) {
        if (!is_done(sent)) scope.spawn(send_one(port, sent, done, progress));
    }
    while (done < limit && scope.live() > 0) co_await progress.wait();
    if (signal == SIGKILL) {
        gateway.kill();
    } else if (signal != 0) {
        gateway.send(signal);
    }
    co_await scope.join();
}

class KillTest : public ::testing::Test {
protected:
    void add_messages(std::size_t sessions, std::size_t each) {
        for (std::size_t turn = 0; turn < each; ++turn) {
            for (std::size_t session = 0; session < sessions; ++session) {
                Sent sent;
                sent.session = "s" + std::to_string(session);
                sent.text = "m" + std::to_string(session) + "-" + std::to_string(turn);
                messages.push_back(std::move(sent));
            }
        }
    }

    std::size_t open() const {
        std::size_t count = 0;
        for (const Sent& sent : messages) count += is_done(sent) ? 0U : 1U;
        return count;
    }

    void round(std::size_t limit, int signal) {
        GatewayProcess gateway(home, {}, {"CUBEPI_TEST_SPREAD=1"});
        const std::uint16_t port = gateway.wait_until_running();
        run(send_all(gateway, port, messages, limit, signal));
        if (signal == 0 || signal == SIGHUP) gateway.send(SIGTERM);
        (void)gateway.wait();
    }

    /// The clients of held answers are gone; the answers are on the tapes.
    void release_held() {
        GatewayProcess gateway(home);
        (void)gateway.wait_until_running();
        decide_about_held(home, "discard");
        wait_until_idle(home);
        gateway.send(SIGTERM);
        EXPECT_EQ(gateway.wait(), 0) << gateway.output();
    }

    /// All messages have an answer, and the tapes have each of them once.
    void expect_each_once() {
        std::set<std::string> texts;
        for (const Sent& sent : messages) {
            texts.insert(sent.text);
            if (sent.status == 200) {
                EXPECT_EQ(sent.answer, "re: " + sent.text);
            }
        }
        expect_on_tapes_once(home, texts);
    }

    GatewayHome home;
    std::vector<Sent> messages;
};

TEST_F(KillTest, B18_ManySessions_SurviveKillsDrainsAndReloads) {
    add_messages(300, 2);
    std::mt19937 random(20261124);
    std::size_t killed_with_work = 0;
    for (const int signal : {SIGKILL, SIGTERM, SIGKILL, SIGHUP, SIGKILL}) {
        if (open() == 0) break;
        round(random() % most_replies, signal);
        killed_with_work += signal == SIGKILL && open() > 0 ? 1U : 0U;
    }
    while (open() > 0) round(messages.size(), 0);
    release_held();
    EXPECT_GT(killed_with_work, 1u) << "the kills came too late to matter";
    expect_each_once();
}

TEST_F(KillTest, B18_SessionMessages_AreAnsweredOnceAcrossKills) {
    home.configure(R"({http: {listen: "127.0.0.1:0"}, max_waiting: 100})");
    add_messages(3, 20);
    for (std::size_t limit : {1U, 7U, 2U, 11U, 0U}) {
        if (open() > 0) round(limit, SIGKILL);
    }
    while (open() > 0) round(messages.size(), 0);
    release_held();
    expect_each_once();
}

// Telegram.

constexpr std::int64_t users = 300;
constexpr int messages_each = 2;
/// Limit of the calls between two signals.
constexpr std::size_t most_calls = 450;
/// Telegram allows 30 messages a second.
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
        // A gateway that is faster than others must not answer everything before it is killed.
        const bool is_late = open_.size() <= plan_.size() + 1;
        if (!is_idle && !is_late && plan_.front().calls-- > 0) return Fault::none;
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

    /// Kills a gateway that was just started. Does nothing if the one that was drained has answered everything.
    void run_and_kill() {
        if (open() == 0) return;
        const std::unique_ptr<GatewayProcess> gateway = start();
        begin(*gateway, {kill()});
        EXPECT_EQ(end(*gateway), 128 + SIGKILL) << gateway->output();
        EXPECT_GT(open(), 0u) << "the kill came too late to matter";
        ++kills;
    }
    void run_and_drain() {
        const std::unique_ptr<GatewayProcess> gateway = start();
        (void)gateway->wait_for("gateway.running");
        begin(*gateway, {signal(SIGTERM)});
        EXPECT_EQ(end(*gateway), 0) << gateway->output();
    }
    /// Reloads a gateway, and kills it while it reloads or after that.
    void run_reload_and_kill() {
        if (open() == 0) return;
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
    int kills = 0;
};

TEST_F(TelegramKillTest, B18_ManyChats_SurviveKillsDrainAndReload) {
    run_and_kill();
    run_and_kill();
    run_and_drain();
    run_and_kill();
    run_reload_and_kill();
    run_and_kill();
    run_to_the_end();
    EXPECT_EQ(open(), 0u);
    run_to_the_end();
    EXPECT_GE(kills, 2);
    expect_each_once();
}

}  // namespace
}  // namespace cubepi::gateway_tests
