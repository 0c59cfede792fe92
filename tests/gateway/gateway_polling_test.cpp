// Several gateways with the token of one bot: one of them at a time asks for updates (D236).

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>

#include "echo_model.hpp"
#include "fake_bot_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;

class SharedBot : public ::testing::Test {
protected:
    SharedBot() : database(new_database(one)) {
        for (const auto& [home, name] : {std::pair(&one, "one"), std::pair(&two, "two")}) {
            home->configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" +
                            bot.url_of(name) + "\", users: [42]}}\ndatabase: \"" + database + "\"");
        }
    }
    std::unique_ptr<GatewayProcess> start(const GatewayHome& home) {
        auto gateway = std::make_unique<GatewayProcess>(home, model.flags());
        (void)gateway->wait_for("gateway.running");
        return gateway;
    }
    static bool is_draft(const std::string& text) { return text.ends_with("…"); }
    void say(const std::string& text) {
        bot.with_api([&text](FakeBotApi& api) { api.say(42, text); });
    }
    /// Waits until the user has that many messages of the bot, and none is a draft; returns them.
    std::vector<std::string> wait_for_texts(std::size_t count) {
        bot.wait_until([count](FakeBotApi& api) {
            const std::vector<std::string> texts = api.texts(42);
            return texts.size() >= count && std::none_of(texts.begin(), texts.end(), is_draft);
        });
        return bot.with_api([](FakeBotApi& api) { return api.texts(42); });
    }
    /// Waits until all answers have receipts: an answer without one is sent again.
    void wait_for_receipts() const {
        RawPostgres server(database);
        const std::string count =
            "SELECT count(*) FROM bub_delivery_outbound WHERE settled_at IS NULL";
        wait_until([&] { return server.query(count).front() == "0"; });
    }
    /// Waits until the poller has made a request.
    void wait_for_poll(const std::string& poller) {
        wait_until(
            [&] { return bot.with_api([](FakeBotApi& api) { return api.poller(); }) == poller; });
    }
    std::size_t conflicts() {
        return bot.with_api([](FakeBotApi& api) { return api.conflicts; });
    }

    const GatewayHome one;
    const GatewayHome two;
    FakeBotServer bot{std::make_shared<SystemClock>()};
    const std::string database;
    EchoModel model;
};

using Texts = std::vector<std::string>;

TEST_F(SharedBot, D236_KilledPoller_IsReplaced) {
    const auto first = start(one);
    say("a");
    EXPECT_EQ(wait_for_texts(1), Texts{"re: a"});
    const auto second = start(two);
    say("b");
    EXPECT_EQ(wait_for_texts(2), (Texts{"re: a", "re: b"}));
    EXPECT_EQ(bot.with_api([](FakeBotApi& api) { return api.poller(); }), "one");
    wait_for_receipts();
    bot.with_api([&first](FakeBotApi& api) {
        first->kill();
        api.forget("one");
    });
    say("c");
    EXPECT_EQ(wait_for_texts(3), (Texts{"re: a", "re: b", "re: c"}));
    wait_for_poll("two");
    EXPECT_EQ(conflicts(), 0u);
}

TEST_F(SharedBot, D236_DrainingPoller_LeavesAtOnce) {
    const auto first = start(one);
    say("a");
    EXPECT_EQ(wait_for_texts(1), Texts{"re: a"});
    const auto second = start(two);
    model.hold("b");
    say("b");
    (void)model.wait_for("b");
    // Its turn ends later.
    first->send(SIGTERM);
    wait_for_poll("two");
    say("c");
    model.release();
    EXPECT_EQ(first->wait(), 0) << first->output();
    EXPECT_EQ(wait_for_texts(3), (Texts{"re: a", "re: b", "re: c"}));
    EXPECT_EQ(conflicts(), 0u);
    EXPECT_EQ(model.count("b"), 1u);
}

TEST_F(SharedBot, D236_FrozenPoller_UsesNothingItReceives) {
    const auto first = start(one);
    say("a");
    EXPECT_EQ(wait_for_texts(1), Texts{"re: a"});
    const auto second = start(two);
    wait_for_receipts();
    first->send(SIGSTOP);
    wait_for_poll("two");
    say("b");
    EXPECT_EQ(wait_for_texts(2), (Texts{"re: a", "re: b"}));
    first->send(SIGCONT);
    say("c");
    EXPECT_EQ(wait_for_texts(3), (Texts{"re: a", "re: b", "re: c"}));
    for (const char* text : {"a", "b", "c"}) EXPECT_EQ(model.count(text), 1u) << text;
    // The service has ended the request of the frozen one.
    EXPECT_LE(conflicts(), 1u);
    RawPostgres server(database);
    EXPECT_EQ(server.query("SELECT count(*) FROM bub_delivery_inbound").front(), "3");
    EXPECT_EQ(first->output().find("409"), std::string::npos) << first->output();
}

TEST_F(SharedBot, D232_SameUpdateAtTwoGateways_IsAnsweredOnce) {
    constexpr int updates = 4;
    std::vector<std::unique_ptr<GatewayProcess>> gateways;
    std::vector<std::uint16_t> ports;
    for (const GatewayHome* home : {&one, &two}) {
        home->configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                        "\", users: [42], webhook: {url: \"https://example.org/telegram\", listen: "
                        "\"127.0.0.1:0\"}}}\ndatabase: \"" +
                        database + "\"");
        gateways.push_back(std::make_unique<GatewayProcess>(
            *home, model.flags(),
            std::vector<std::string>{std::string("TELEGRAM_WEBHOOK_SECRET=") + webhook_secret}));
        const JsonObject record = gateways.back()->wait_for("http_server.listening");
        ports.push_back(record.at("port").to_number<std::uint16_t>());
        (void)gateways.back()->wait_for("gateway.running");
    }
    bot.with_api([](FakeBotApi& api) { api.add_chat(42); });
    Texts expected;
    for (int id = 1; id <= updates; ++id) {
        const std::string text = "m" + std::to_string(id);
        const Json sent =
            bot.with_api([&](FakeBotApi& api) { return Json(api.message_of(42, 42, text)); });
        const std::string update =
            boost::json::serialize(JsonObject{{"update_id", id}, {"message", sent}});
        std::vector<Task<HttpReply>> posts;
        for (const std::uint16_t port : ports) posts.push_back(post_update(port, update));
        for (const HttpReply& reply : run(when_all(std::move(posts)))) EXPECT_EQ(reply.status, 200);
        expected.push_back("re: " + text);
        EXPECT_EQ(wait_for_texts(expected.size()), expected);
        // A late copy, as after an acknowledgement that was lost.
        EXPECT_EQ(run(post_update(ports.at(0), update)).status, 200);
    }
    wait_for_receipts();
    EXPECT_EQ(bot.with_api([](FakeBotApi& api) { return api.texts(42); }), expected);
    RawPostgres server(database);
    EXPECT_EQ(server.query("SELECT count(*) FROM bub_delivery_inbound").front(),
              std::to_string(updates));
    for (int id = 1; id <= updates; ++id) EXPECT_EQ(model.count("m" + std::to_string(id)), 1u);
}

TEST_F(SharedBot, D289_OneOfManyGateways_SendsItsShare) {
    const auto first = start(one);
    RawPostgres server(database);
    const auto next_lease = [&server] {
        const std::string lease = "SELECT lease_until FROM bub_delivery_gateways WHERE host <> ''";
        const std::string before = server.query(lease).front();
        wait_until([&] { return server.query(lease).front() != before; });
    };
    server.query(
        "INSERT INTO bub_delivery_gateways (number, account, host, boot_id, pid, process_start,"
        " lease_until) SELECT nextval('bub_delivery_ids'), account, '', '', 1, 1, now() + interval"
        " '1 hour' FROM bub_delivery_gateways, generate_series(1, 999)");
    // The gateway may have counted before it renewed its lease for the first time.
    for (int renewals = 0; renewals < 2; ++renewals) next_lease();
    say("a");
    EXPECT_EQ(wait_for_texts(1), Texts{"re: a"});
    say("b");
    const auto texts = [this] {
        return bot.with_api([](FakeBotApi& api) { return api.texts(42); });
    };
    const std::string waiting =
        "SELECT count(*) FROM bub_delivery_outbound WHERE state = 'waiting'";
    wait_until([&] { return server.query(waiting).front() != "0" || texts().size() > 1; });
    EXPECT_EQ(texts(), Texts{"re: a"});
}

TEST_F(SharedBot, D236_LeaseWithoutRights_IsReported) {
    RawPostgres server(database);
    (void)server.query(
        "DO $$ BEGIN CREATE ROLE poller LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    (void)server.query("GRANT ALL ON ALL TABLES IN SCHEMA public TO poller");
    (void)server.query("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO poller");
    (void)server.query("REVOKE ALL ON bub_delivery_leases FROM poller");
    std::string limited = database;
    limited.replace(limited.find("cubepi@"), std::string("cubepi").size(), "poller");
    one.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url_of("one") +
                  "\", users: [42]}}\ndatabase: \"" + limited + "\"");
    const auto first = start(one);
    (void)first->wait_for("telegram.receive_failed");
    const JsonObject status = app::call_gateway(one.socket(), JsonObject{{"command", "status"}});
    const std::string problem = detail::text_member(status, "problem");
    EXPECT_NE(problem.find("grant the user SELECT, INSERT, UPDATE and DELETE on the tables "
                           "bub_delivery_*"),
              std::string::npos)
        << problem;
    (void)server.query("GRANT ALL ON bub_delivery_leases TO poller");
    (void)first->wait_for("telegram.receive_recovered");
    say("a");
    EXPECT_EQ(wait_for_texts(1), Texts{"re: a"});
}

TEST_F(SharedBot, D236_StoppedPoller_LeavesItsUpdates) {
    auto first = start(one);
    wait_for_poll("one");
    first->send(SIGTERM);
    EXPECT_EQ(first->wait(), 0) << first->output();
    say("a");
    const auto second = start(two);
    EXPECT_EQ(wait_for_texts(1), Texts{"re: a"});
    // Its lease is free again, whatever the clock says.
    first = start(one);
    EXPECT_EQ(conflicts(), 0u);
    EXPECT_EQ(bot.with_api([](FakeBotApi& api) { return api.poller(); }), "two");
}

}  // namespace
}  // namespace cubepi::gateway_tests
