// kill -9 of a gateway with many sessions: every message is answered, none is lost, none is processed twice unmarked.

#include <gtest/gtest.h>

#include <csignal>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

#include "gateway_process.hpp"
#include "kill_support.hpp"

namespace cubepi::gateway_tests {
namespace {

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
    // 409: a gateway before a kill has accepted the message; its answer is on the tape.
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

TEST_F(KillTest, B18_AThousandSessionsSurviveKillsDrainsAndReloads) {
    add_messages(1'000, 2);
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

TEST_F(KillTest, B18_MessagesOfOneSessionAreAnsweredOnceAcrossKills) {
    home.configure(R"({http: {listen: "127.0.0.1:0"}, max_waiting: 100})");
    add_messages(3, 20);
    for (std::size_t limit : {1U, 7U, 2U, 11U, 0U}) {
        if (open() > 0) round(limit, SIGKILL);
    }
    while (open() > 0) round(messages.size(), 0);
    release_held();
    expect_each_once();
}

}  // namespace
}  // namespace cubepi::gateway_tests
