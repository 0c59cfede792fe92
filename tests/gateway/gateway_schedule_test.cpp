// Schedules of a gateway: added in a chat or by the operator, fired as messages of their sessions, once.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/core/support/json_member.hpp>

#include "echo_model.hpp"
#include "fake_bot_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"
#include "two_gateways.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;

std::int64_t unix_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// The present instant, or a later one, as a time of a schedule. The former is due at once.
std::string present(std::int64_t later = 0) {
    const std::time_t now = unix_now() + later;
    std::tm date = {};
    (void)gmtime_r(&now, &date);
    char text[32];
    (void)std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &date);
    return text;
}

/// A prompt by which the model calls the tool `schedule`.
std::string call_of(const JsonObject& arguments) {
    return "schedule " + boost::json::serialize(arguments);
}

JsonObject listed(const GatewayHome& home) {
    return app::call_gateway(home.socket(), JsonObject{{"command", "schedules"}});
}

/// The only schedule.
JsonObject only_one(const GatewayHome& home) {
    const JsonObject list = listed(home);
    const JsonArray& all = list.at("schedules").as_array();
    EXPECT_EQ(all.size(), 1u) << boost::json::serialize(list);
    return all.empty() ? JsonObject() : all[0].as_object();
}

/// Waits until the store has no schedule of a firing that is over.
void wait_until_empty(const GatewayHome& home) {
    while (!listed(home).at("schedules").as_array().empty())
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

class TelegramSchedule : public ::testing::Test {
protected:
    TelegramSchedule() {
        bot.with_api([](FakeBotApi& api) { api.add_chat(ann); });
        configure("[42]");
    }
    void configure(const std::string& users, const std::string& more = {}) const {
        home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                       "\", progress: false, users: " + users + "}" + more + "}");
    }
    void start() {
        gateway = std::make_unique<GatewayProcess>(home, model.flags());
        (void)gateway->wait_for("gateway.running");
    }
    void say(const std::string& text) {
        bot.with_api([&text](FakeBotApi& api) { (void)api.say(ann, text); });
    }
    std::vector<std::string> texts(std::size_t count) {
        bot.wait_until([&](const FakeBotApi& api) { return api.texts(ann).size() >= count; });
        return bot.with_api([](const FakeBotApi& api) { return api.texts(ann); });
    }
    /// The planned firing of the only schedule was an hour ago, while no gateway was running.
    void miss_firing() {
        // Not killed: an answer whose receipt is not stored would be sent again.
        gateway->send(SIGTERM);
        EXPECT_EQ(gateway->wait(), 0) << gateway->output();
        gateway.reset();
        const std::filesystem::path file = home.path() / ".bub/deliveries/schedules.json";
        std::ifstream in(file);
        Json json = boost::json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
        json.at("schedules").at(0).as_object()["next"] = unix_now() - 3600;
        std::ofstream(file) << boost::json::serialize(json);
    }

    static constexpr std::int64_t ann = 42;
    const GatewayHome home;
    mutable FakeBotServer bot{std::make_shared<SystemClock>()};
    EchoModel model;
    std::unique_ptr<GatewayProcess> gateway;
};

using Texts = std::vector<std::string>;

TEST_F(TelegramSchedule, D249_AddedByTheTool_FiresIntoTheChat) {
    start();
    const std::string call =
        call_of({{"action", "add"}, {"at", present()}, {"text", "check the build"}});
    say(call);
    EXPECT_EQ(texts(2), (Texts{"re: " + call, "re: check the build"}));
    const std::string asked = model.wait_for("check the build");
    EXPECT_NE(asked.find("[Scheduled message, not typed now."), std::string::npos) << asked;
    EXPECT_NE(asked.find("sender_id=42"), std::string::npos) << asked;
    // The same session.
    EXPECT_NE(asked.find("Added. "), std::string::npos) << asked;
    wait_until_empty(home);
    EXPECT_EQ(model.count("check the build"), 1u);
}

/// The user who approves the first call is not the one for whom the run acts.
TEST(GatewaySchedule, D250_ApprovedRun_SchedulesForItsUser) {
    joint_tests::ModelServer server([](const boost::json::object& body) {
        const Asked asked("\r\n\r\n" + boost::json::serialize(body));
        if (asked.role == "user")
            return joint_tests::chat_answer("", {{"write", R"({"path":"a","content":"b"})"}});
        if (asked.body.find("Added. ") != std::string::npos)
            return joint_tests::chat_answer("Done.");
        return joint_tests::chat_answer(
            "", {{"schedule",
                  call_of({{"action", "add"}, {"at", "+1h"}, {"text", "write"}}).substr(9)}});
    });
    const GatewayHome home;
    home.configure(
        "{http: {listen: \"127.0.0.1:0\", operators: [olga]}, "
        "rules: [{user: olga, allow: [\"write: *\"]}]}");
    GatewayProcess gateway(home,
                           {"--provider", "openai", "--base-url", server.url(), "-m", "local"});
    const std::uint16_t port = gateway.wait_until_running();
    for (const auto& [user, text] : {std::pair("bob", "write"), std::pair("olga", ",approve")})
        (void)run(post_message(port, {{"session", "s1"}, {"text", text}, {"user", user}}));
    EXPECT_EQ(only_one(home).at("user"), "bob");
}

TEST_F(TelegramSchedule, D249_MissedFiring_IsLateAndSentOnce) {
    start();
    say(call_of({{"action", "add"}, {"every", "1d"}, {"text", "water the plants"}}));
    (void)texts(1);
    miss_firing();
    start();
    EXPECT_EQ(texts(2).back(), "re: water the plants");
    EXPECT_NE(model.wait_for("water the plants").find("; late, because"), std::string::npos);
    // The next firing is stored after the message.
    const auto now = static_cast<double>(unix_now());
    while (only_one(home).at("next").to_number<double>() <= now) std::this_thread::yield();
    // After another restart it is not due.
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0) << gateway->output();
    start();
    say("hello");
    EXPECT_EQ(texts(3).back(), "re: hello");
    EXPECT_EQ(model.count("water the plants"), 1u);
}

TEST_F(TelegramSchedule, D249_UserRemoved_IsNotFiredAndListed) {
    start();
    say(call_of({{"action", "add"}, {"every", "1d"}, {"text", "tea"}}));
    (void)texts(1);
    miss_firing();
    configure("[43]");
    start();
    const JsonObject logged = gateway->wait_for("schedule.firing_failed");
    EXPECT_EQ(detail::text_member(logged, "reason"), "its user is not admitted any more");
    std::string problem;
    while (problem.empty()) problem = detail::text_member(only_one(home), "problem");
    EXPECT_EQ(problem, "its user is not admitted any more");
    EXPECT_EQ(model.count("tea"), 0u);
    const CommandResult list = run_command(home, {"schedule"});
    EXPECT_NE(list.output.find("not sent: its user is not admitted any more"), std::string::npos)
        << list.output;
}

TEST_F(TelegramSchedule, D249_ScheduledTurn_NeedsRuleToSchedule) {
    const std::string inner = call_of({{"action", "add"}, {"every", "1m"}, {"text", "for ever"}});
    const auto add = [&] {
        return run_command(home, {"schedule", "add", "--channel", "telegram", "--chat", "42",
                                  "--at", present(), inner});
    };
    start();
    EXPECT_EQ(add().status, 0);
    (void)texts(1);
    // The last request has the result of the call.
    EXPECT_NE(model.wait_for(inner, 2).find("adds no schedules unless a rule"), std::string::npos);
    wait_until_empty(home);
    configure("[42]", ", rules: [{allow: [\"schedule: *\"]}]");
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    EXPECT_EQ(add().status, 0);
    (void)texts(2);
    EXPECT_NE(model.wait_for(inner, 4).find("Added. "), std::string::npos);
}

TEST_F(TelegramSchedule, D249_Command_AddsListsAndCancels) {
    start();
    EXPECT_NE(run_command(home, {"schedule"}).output.find("has no schedules"), std::string::npos);
    const CommandResult added =
        run_command(home, {"schedule", "add", "--channel", "telegram", "--chat", "42", "--cron",
                           "0 9 * * 1-5", "--zone", "Europe/Berlin", "Plan", "my", "day"});
    EXPECT_EQ(added.status, 0) << added.output;
    const std::string id = added.output.substr(0, added.output.find('\t'));
    const CommandResult list = run_command(home, {"schedule", "list"});
    EXPECT_NE(list.output.find("telegram:42\t42\tcron 0 9 * * 1-5 (Europe/Berlin)\tnext "),
              std::string::npos)
        << list.output;
    EXPECT_NE(list.output.find("Plan my day"), std::string::npos) << list.output;
    for (const char* wrong : {"../..", "no\x1bsuch", "x"})
        EXPECT_NE(run_command(home, {"schedule", "cancel", wrong}).status, 0);
    EXPECT_EQ(run_command(home, {"schedule", "cancel", id}).status, 0);
    EXPECT_TRUE(listed(home).at("schedules").as_array().empty());
    const CommandResult refused =
        run_command(home, {"schedule", "add", "--channel", "telegram", "--chat", "42", "--every",
                           "1m", "--zone", "../../etc", "x"});
    EXPECT_NE(refused.output.find("is not a time zone"), std::string::npos) << refused.output;
    EXPECT_NE(run_command(home, {"schedule", "add", "--channel", "mars", "--chat", "42", "--every",
                                 "1m", "x"})
                  .status,
              0);
}

TEST_F(TelegramSchedule, D249_ConfiguredSchedule_FiresAsItsUser) {
    configure("[42]",
              ", schedule: [{name: once, channel: telegram, chat: 42, user: 42, text: now, "
              "zone: UTC, at: \"" +
                  present() +
                  "\"}, {name: daily, channel: telegram, chat: "
                  "42, user: 42, text: later, every: 1d}]");
    start();
    EXPECT_EQ(texts(1), Texts{"re: now"});
    EXPECT_NE(run_command(home, {"schedule", "cancel", "config.daily"}).status, 0);
    configure("[42]");
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    wait_until_empty(home);
}

TEST(SharedSchedules, D249_TwoGateways_FireOnce) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = new_database(first);
    for (const GatewayHome* home : {&first, &second})
        home->configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + database + "\"");
    EchoModel model;
    GatewayProcess one(first, model.flags());
    GatewayProcess two(second, model.flags());
    (void)one.wait_until_running();
    (void)two.wait_until_running();
    const std::string longest(1'000, 'c');
    for (const std::string& chat : {std::string("a\nb"), std::string("a/agent/b"), longest}) {
        const CommandResult refused = run_command(
            first, {"schedule", "add", "--channel", "http", "--chat", chat, "--every", "1m", "x"});
        EXPECT_EQ(refused.status, 2) << refused.output;
        const JsonObject request{{"command", "add_schedule"},
                                 {"channel", "http"},
                                 {"chat", chat},
                                 {"text", "x"},
                                 {"every", "1m"}};
        EXPECT_THROW((void)app::call_gateway(first.socket(), request), Error) << chat;
    }
    constexpr std::size_t count = 10;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string number = std::to_string(i);
        const JsonObject request{{"command", "add_schedule"},
                                 {"channel", "http"},
                                 {"chat", "s" + number},
                                 {"text", "tea " + number},
                                 {"at", present()}};
        (void)app::call_gateway((i % 2 == 0 ? first : second).socket(), request);
    }
    for (std::size_t i = 0; i < count; ++i) (void)model.wait_for("tea " + std::to_string(i));
    wait_until_empty(first);
    wait_until_empty(second);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(model.count("tea " + std::to_string(i)), 1u);
    for (GatewayProcess* gateway : {&one, &two}) {
        gateway->send(SIGTERM);
        EXPECT_EQ(gateway->wait(), 0) << gateway->output();
    }
    std::size_t fired = 0;
    for (GatewayProcess* gateway : {&one, &two}) {
        const std::string log = gateway->output();
        for (std::size_t at = log.find("schedule.fired"); at != std::string::npos;
             at = log.find("schedule.fired", at + 1))
            ++fired;
    }
    EXPECT_EQ(fired, count) << "a firing is one event";
}

TEST_F(TwoGateways, D249_KeyOfFiring_TakesNoPlace) {
    start_first();
    start_second();
    const JsonObject added = app::call_gateway(one.socket(), JsonObject{{"command", "add_schedule"},
                                                                        {"channel", "http"},
                                                                        {"chat", "s1"},
                                                                        {"text", "tea"},
                                                                        {"at", present(2)}});
    const std::string key =
        "schedule-" + detail::text_member(added, "id") + "-" +
        std::to_string(static_cast<std::int64_t>(added.at("next").to_number<double>()));
    // Before the firing, and after it.
    for (int times = 0; times < 2; ++times) {
        for (const std::uint16_t at : {port, second_port}) {
            for (const std::string& user : {std::string(), std::string("olga")}) {
                JsonObject message{{"session", "s1"}, {"text", "key of '" + user + "'"}};
                if (!user.empty()) message["user"] = user;
                const HttpReply reply = run(post_message(at, std::move(message), key));
                EXPECT_EQ(reply.text(), "re: key of '" + user + "'") << reply.body;
            }
        }
        (void)model.wait_for("tea");
    }
    wait_until_empty(one);
    EXPECT_EQ(model.count("tea"), 1u);
    for (const char* text : {"key of ''", "key of 'olga'"}) EXPECT_EQ(model.count(text), 1u);
    const std::vector<std::string> firings = RawPostgres(database).query(
        "SELECT address FROM bub_delivery_inbound WHERE address LIKE '%\"" + key + "\"%'");
    EXPECT_EQ(firings.size(), 1u) << "the firing has this id";
}

/// The tables of an earlier version: the gateway serves without schedules, unless the configuration has some.
TEST(SharedSchedules, D249_MissingTables_AreNamed) {
    const GatewayHome home;
    const std::string database = new_database(home);
    RawPostgres(PostgresServer::shared().connection(database.substr(database.rfind('/') + 1)))
        .query("DROP TABLE bub_schedule_schema, bub_schedule_sessions, bub_schedules");
    const std::string http = "{http: {listen: \"127.0.0.1:0\"}";
    const std::string place = "}\ndatabase: \"" + database + "\"";
    home.configure(http + place);
    {
        EchoModel model;
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        EXPECT_EQ(post(port, "hello").text(), "re: hello");
        EXPECT_NE(gateway.output().find("schedule.switched_off"), std::string::npos)
            << gateway.output();
        const CommandResult list = run_command(home, {"schedule"});
        EXPECT_NE(list.output.find("cubepi db migrate --tapes"), std::string::npos) << list.output;
    }
    home.configure(http +
                   ", schedule: [{name: a, channel: http, chat: a, user: a, every: 1d, text: x}]" +
                   place);
    const CommandResult refused = run_command(home, {"gateway", "--offline"});
    EXPECT_NE(refused.status, 0);
    EXPECT_NE(refused.output.find("cubepi db migrate --tapes"), std::string::npos)
        << refused.output;
    EXPECT_EQ(run_command(home, {"db", "migrate", "--tapes", database}).status, 0);
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    (void)gateway.wait_until_running();
    while (listed(home).at("schedules").as_array().empty())
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace
}  // namespace cubepi::gateway_tests
