// Messages at a gateway whose turns do not end as usual: a message ends answered, held or pending (D90).

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "echo_model.hpp"
#include "fake_bot_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

/// Kills a gateway in the turn of this message.
void kill_in_turn(const GatewayHome& home, EchoModel& model, const std::string& text) {
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    const auto lost = post_later(port, text);
    (void)model.wait_for(text);
    gateway.kill();
}

/// Kills the gateway that receives this message and the next one, so that the message is held.
void kill_twice(const GatewayHome& home, EchoModel& model, const std::string& text) {
    kill_in_turn(home, model, text);
    GatewayProcess gateway(home, model.flags());
    (void)gateway.wait_until_running();
    (void)model.wait_for(text, 2);
    gateway.kill();
}

/// Releases the held messages, oldest first.
void release_held(const GatewayHome& home, std::size_t count) {
    const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
    EXPECT_EQ(held.at("messages").as_array().size(), count);
    for (const Json& one : held.at("messages").as_array()) {
        const std::string id(one.at("id").as_string());
        EXPECT_EQ(run_command(home, {"gateway", "release", id}).status, 0);
    }
}

TEST(HeldMessages, D106_RepeatedTurn_SendsTheSamePrompt) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    kill_in_turn(home, model, "one");
    const std::string before = Asked("\r\n\r\n" + model.wait_for("one")).prompt;
    EXPECT_TRUE(before.starts_with("sender_id=olga|channel=$http|chat_id=s1\n---Date: ")) << before;
    GatewayProcess gateway(home, model.flags());
    (void)gateway.wait_until_running();
    EXPECT_EQ(Asked("\r\n\r\n" + model.wait_for("one", 2)).prompt, before);
}

TEST(HeldMessages, D90_ReleasedAfterLaterOnes_GetsItsOwnTurn) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    kill_twice(home, model, "one");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    model.release();
    EXPECT_EQ(post(port, "two").text(), "re: two");
    release_held(home, 1);
    const HttpReply answer = post(port, "one");
    EXPECT_EQ(answer.text(), "re: one") << answer.body;
    const std::string request = model.wait_for("one", 3);
    EXPECT_NE(request.find("re: two"), std::string::npos) << request;
    EXPECT_NE(request.find("[This message is late"), std::string::npos) << request;
    EXPECT_EQ(post(port, "three").text(), "re: three");
}

TEST(HeldMessages, D90_TwoReleasedOfOneSession_AreBothAnswered) {
    const GatewayHome home;
    EchoModel model;
    for (const char* text : {"one", "two"}) {
        model.hold(text);
        kill_twice(home, model, text);
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    model.release();
    EXPECT_EQ(post(port, "three").text(), "re: three");
    release_held(home, 2);
    EXPECT_EQ(post(port, "one").text(), "re: one");
    EXPECT_EQ(post(port, "two").text(), "re: two");
}

TEST(HeldMessages, D90_KilledInLateTurn_IsStillAnsweredOnce) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    kill_twice(home, model, "one");
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        EXPECT_EQ(post(port, "two").text(), "re: two");
        release_held(home, 1);
        (void)model.wait_for("one", 3);
        gateway.kill();
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    release_held(home, 1);
    (void)model.wait_for("one", 4);
    model.release();
    EXPECT_EQ(post(port, "one").text(), "re: one");
    EXPECT_EQ(model.count("one"), 4u);
}

/// A message of the operator, by a key of its own.
std::future<HttpReply> command_later(std::uint16_t port, const std::string& text,
                                     const std::string& key) {
    return std::async(std::launch::async, [port, text, key] {
        JsonObject message{{"session", "s1"}, {"text", text}, {"user", "olga"}};
        return run(post_message(port, std::move(message), key));
    });
}

TEST(HeldMessages, D42_LateAnswer_RepeatsNoTextsOfOthers) {
    const GatewayHome home;
    EchoModel model;
    model.hold("run true");
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        EXPECT_EQ(post(port, "run true").json().at("outputs").at(0).at("kind"), "question");
        const auto lost = command_later(port, ",approve call_0", "approval");
        (void)model.wait_for("run true", 2);
        gateway.kill();
    }
    {
        GatewayProcess gateway(home, model.flags());
        (void)gateway.wait_until_running();
        (void)model.wait_for("run true", 3);
        gateway.kill();
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    model.release();
    EXPECT_EQ(post(port, "two").text(), "re: two");
    EXPECT_EQ(post(port, "three").text(), "re: three");
    release_held(home, 1);
    const HttpReply late = command_later(port, ",approve call_0", "approval").get();
    EXPECT_TRUE(late.text().starts_with("Your answer was received.")) << late.body;
}

/// The storage of a gateway's tapes, which fails from now on.
class BrokenTapes {
public:
    explicit BrokenTapes(const GatewayHome& home)
        : tapes_(home.tapes()), away_(home.path() / "away") {
        if (std::filesystem::exists(tapes_)) std::filesystem::rename(tapes_, away_);
        std::ofstream(tapes_) << "not a directory";
    }
    ~BrokenTapes() { repair(); }
    BrokenTapes(const BrokenTapes&) = delete;
    BrokenTapes& operator=(const BrokenTapes&) = delete;
    void repair() {
        if (std::filesystem::is_directory(tapes_)) return;
        std::filesystem::remove(tapes_);
        if (std::filesystem::exists(away_)) std::filesystem::rename(away_, tapes_);
    }

private:
    const std::filesystem::path tapes_;
    const std::filesystem::path away_;
};

TEST(Outage, D90_MessagesDuringIt_AreAnsweredInOrder) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, status: "127.0.0.1:0"})");
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const auto status =
        gateway.wait_for("http_server.listening").at("port").to_number<std::uint16_t>();
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "zero").text(), "re: zero");
    BrokenTapes tapes(home);
    auto one = post_later(port, "one");
    (void)gateway.wait_for("turn.postponed");
    const HttpReply unready = run(http_get(status, "/readyz"));
    EXPECT_EQ(unready.status, 503);
    EXPECT_EQ(unready.body, "not ready: 1 session waits, because storage or descriptors fail\n");
    auto two = post_later(port, "two");
    (void)gateway.wait_for("turn.postponed");
    tapes.repair();
    const HttpReply answer = one.get();
    EXPECT_EQ(answer.text(), "re: one") << answer.body;
    EXPECT_EQ(two.get().text(), "re: two");
    EXPECT_NE(model.wait_for("two").find("re: one"), std::string::npos);
    EXPECT_EQ(run(http_get(status, "/readyz")).status, 200);
}

TEST(Outage, D90_GatewayEndsDuringIt_NextOneAnswers) {
    for (const int signal : {SIGTERM, SIGKILL, SIGHUP}) {
        SCOPED_TRACE(signal);
        const GatewayHome home;
        EchoModel model;
        auto gateway = std::make_unique<GatewayProcess>(home, model.flags());
        std::uint16_t port = gateway->wait_until_running();
        BrokenTapes tapes(home);
        auto one = post_later(port, "one");
        (void)gateway->wait_for("turn.postponed");
        gateway->send(signal);
        if (signal != SIGHUP) {
            EXPECT_EQ(gateway->wait(), signal == SIGTERM ? 0 : 128 + SIGKILL);
            gateway = std::make_unique<GatewayProcess>(home, model.flags());
        }
        port = gateway->wait_until_running();
        (void)gateway->wait_for("turn.postponed");
        tapes.repair();
        EXPECT_EQ(post(port, "one").text(), "re: one");
        EXPECT_EQ(model.count("one"), 1u);
    }
}

TEST(Outage, D90_LimitReached_HoldsTheMessageForTheOperator) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, retry_limit: 0})");
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    {
        const BrokenTapes tapes(home);
        const HttpReply failed = post(port, "one");
        EXPECT_EQ(failed.json().at("ok"), false);
        EXPECT_EQ(failed.body.find("tapes"), std::string::npos) << failed.body;
        EXPECT_NE(failed.text().find("technical problem"), std::string::npos) << failed.body;
    }
    EXPECT_EQ(post(port, "two").text(), "re: two");
    release_held(home, 1);
    EXPECT_EQ(post(port, "one").text(), "re: one");
}

TEST(Outage, D90_UserOfTelegram_SeesTheAnswerOnly) {
    const GatewayHome home;
    FakeBotServer bot{std::make_shared<SystemClock>()};
    home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                   "\", users: [42]}}");
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    (void)gateway.wait_for("gateway.running");
    BrokenTapes tapes(home);
    bot.with_api([](bub::telegram::FakeBotApi& api) { api.say(42, "one"); });
    (void)gateway.wait_for("turn.postponed");
    tapes.repair();
    std::vector<std::string> texts;
    while (texts.empty()) {
        std::this_thread::yield();
        texts = bot.with_api([](bub::telegram::FakeBotApi& api) { return api.texts(42); });
    }
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0) << gateway.output();
    texts = bot.with_api([](bub::telegram::FakeBotApi& api) { return api.texts(42); });
    EXPECT_EQ(texts, std::vector<std::string>{"re: one"});
}

TEST(Outage, D90_UnreachableTelegram_NoticeDelaysNoTurn) {
    const GatewayHome home;
    FakeBotServer bot{std::make_shared<SystemClock>()};
    home.configure("{drain_timeout: 1, telegram: {token: \"" + bot.token() + "\", api_url: \"" +
                   bot.url() + "\", users: [42], operators: [42]}}");
    EchoModel model;
    const auto texts = [&bot] {
        return bot.with_api([](bub::telegram::FakeBotApi& api) { return api.texts(42); });
    };
    bot.with_api([](bub::telegram::FakeBotApi& api) {
        api.on_call = [](const std::string& method, std::size_t) {
            return method == "sendMessage" ? bub::telegram::Fault::internal
                                           : bub::telegram::Fault::none;
        };
    });
    {
        GatewayProcess gateway(home, model.flags());
        (void)gateway.wait_for("gateway.running");
        {
            const BrokenTapes tapes(home);
            bot.with_api([](bub::telegram::FakeBotApi& api) { api.say(42, ",tape_info"); });
            (void)gateway.wait_for("turn.held");
        }
        bot.with_api([](bub::telegram::FakeBotApi& api) { api.say(42, "two"); });
        (void)model.wait_for("two");
        gateway.send(SIGTERM);
        EXPECT_EQ(gateway.wait(), 0) << gateway.output();
        EXPECT_TRUE(texts().empty());
    }
    bot.with_api([](bub::telegram::FakeBotApi& api) { api.on_call = nullptr; });
    GatewayProcess gateway(home, model.flags());
    (void)gateway.wait_for("gateway.running");
    bot.with_api([](bub::telegram::FakeBotApi& api) { api.say(42, "three"); });
    (void)model.wait_for("three");
    bool is_notified = false;
    bool is_executed = false;
    for (const std::string& text : texts()) {
        is_notified =
            is_notified || text.find("stored until an operator decides") != std::string::npos;
        is_executed = is_executed || text.find("entries: ") != std::string::npos;
    }
    EXPECT_TRUE(is_notified);
    EXPECT_FALSE(is_executed);
    const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
    EXPECT_EQ(held.at("messages").as_array().size(), 1u) << boost::json::serialize(held);
}

TEST(Outage, D65_AfterExpiredQuestion_TurnContinues) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}, question_timeout: 1})");
    EchoModel model;
    model.hold("run true");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "run true").json().at("outputs").at(0).at("kind"), "question");
    (void)model.wait_for("run true", 2);
    {
        const BrokenTapes tapes(home);
        model.release();
        (void)gateway.wait_for("turn.postponed");
    }
    (void)model.wait_for("run true", 3);
    EXPECT_EQ(post(port, "two").text(), "re: two");
    EXPECT_NE(model.wait_for("two").find("re: run true"), std::string::npos);
    EXPECT_EQ(model.count("run true"), 3u);
}

TEST(Outage, D90_FewDescriptors_AllMessagesAreAnswered) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, threads: 2})");
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    // About 30 of them are in use.
    const rlimit few{80, 80};
    ASSERT_EQ(prlimit(gateway.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
    std::vector<std::future<HttpReply>> replies;
    for (int i = 0; i < 60; ++i)
        replies.push_back(post_later(port, "t" + std::to_string(i), "s" + std::to_string(i)));
    for (int i = 0; i < 60; ++i) {
        const HttpReply reply = replies[static_cast<std::size_t>(i)].get();
        EXPECT_EQ(reply.text(), "re: t" + std::to_string(i)) << reply.body << gateway.output();
    }
    (void)gateway.wait_for("turn.postponed");
}

/// Lets two gateways serve the same sessions.
void share_sessions(const GatewayHome& first, const GatewayHome& second,
                    const std::string& database) {
    for (const GatewayHome* home : {&first, &second})
        home->configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + database + "\"");
}

/// A model server for the gateway.
std::vector<std::string> flags_at(const joint_tests::ModelServer& server, const char* provider,
                                  const char* model) {
    return {"--provider", provider, "--base-url", server.url(), "-m", model};
}

TEST(History, D88_MembersOfCall_SurviveAKill) {
    for (const bool in_database : {false, true}) {
        const GatewayHome home;
        if (in_database) {
            home.configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + new_database(home) +
                           "\"");
        }
        const JsonObject members{{"extra_content", JsonObject{{"signature", "c2ln"}}}};
        joint_tests::ModelServer server(
            {joint_tests::chat_answer("", {{"list", R"({"path":"."})", "c1", members}}),
             joint_tests::chat_answer("Done."), joint_tests::chat_answer("Again.")});
        {
            GatewayProcess gateway(home, flags_at(server, "openai", "local"));
            EXPECT_EQ(post(gateway.wait_until_running(), "one").text(), "Done.");
            gateway.kill();
        }
        GatewayProcess gateway(home, flags_at(server, "openai", "local"));
        EXPECT_EQ(post(gateway.wait_until_running(), "two").text(), "Again.");
        ASSERT_EQ(server.requests().size(), 3u);
        for (const std::size_t i : {1u, 2u}) {
            EXPECT_NE(server.requests()[i].find(R"("extra_content":{"signature":"c2ln"})"),
                      std::string::npos)
                << server.requests()[i];
        }
    }
}

TEST(History, D113_CompactedSession_ContinuesAfterAKill) {
    std::string question;
    while (question.size() < 4'000) question += "Where is the harbor? ";
    for (const bool in_database : {false, true}) {
        const GatewayHome home;
        if (in_database) {
            home.configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + new_database(home) +
                           "\"");
        }
        joint_tests::ModelServer server(
            {joint_tests::chat_answer("Noted."),
             joint_tests::refusal(400, R"({"message": "Input is too long for requested model."})"),
             joint_tests::chat_answer("They look for a port."), joint_tests::chat_answer("Done."),
             joint_tests::chat_answer("Again.")});
        {
            GatewayProcess gateway(home, flags_at(server, "openai", "local"));
            const std::uint16_t port = gateway.wait_until_running();
            JsonObject first{{"session", "s1"}, {"text", question}, {"user", "olga"}};
            EXPECT_EQ(run(post_message(port, std::move(first), "key-one")).text(), "Noted.");
            EXPECT_EQ(post(port, "two").text(), "Done.");
            gateway.kill();
        }
        GatewayProcess gateway(home, flags_at(server, "openai", "local"));
        EXPECT_EQ(post(gateway.wait_until_running(), "three").text(), "Again.");
        const std::vector<Json> bodies = server.bodies();
        ASSERT_EQ(bodies.size(), 5u);
        const JsonArray& retried = bodies[3].at("messages").as_array();
        const JsonArray& resumed = bodies[4].at("messages").as_array();
        for (const JsonArray* messages : {&retried, &resumed}) {
            const std::string text = boost::json::serialize(*messages);
            EXPECT_NE(text.find("They look for a port."), std::string::npos) << text;
            EXPECT_EQ(text.find("Where is the harbor?"), std::string::npos) << text;
        }
        ASSERT_GT(resumed.size(), retried.size());
        EXPECT_TRUE(std::equal(retried.begin(), retried.end(), resumed.begin()))
            << "the next process sends the same prefix";
    }
}

TEST(History, D89_RefusedReasoning_IsLeftOutOnce) {
    const GatewayHome home;
    const auto response = [](const std::string& items) {
        return R"({"id":"r","object":"response","status":"completed","output":[)" + items + "]}";
    };
    const std::string refused =
        joint_tests::refusal(404, R"({"error":{"message":"Item with id 'rs_1' not found."}})");
    const std::string text = response(
        R"({"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"Done."}]})");
    joint_tests::ModelServer server(
        {response(
             R"({"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"},)"
             R"({"type":"function_call","id":"fc_1","call_id":"c1","name":"list","arguments":"{\"path\":\".\"}"})"),
         refused, text, refused, text});
    GatewayProcess gateway(home, flags_at(server, "openai-responses", "gpt-5.1"));
    const std::uint16_t port = gateway.wait_until_running();
    for (const char* message : {"one", "two"}) {
        const HttpReply reply = post(port, message);
        EXPECT_EQ(reply.text(), "Done.") << reply.body;
    }
    const std::vector<std::string> requests = server.requests();
    ASSERT_EQ(requests.size(), 5u);
    for (const std::size_t i : {1u, 3u})
        EXPECT_NE(requests[i].find("gAAAA"), std::string::npos) << "the history has not changed";
    for (const std::size_t i : {2u, 4u}) EXPECT_EQ(requests[i].find("gAAAA"), std::string::npos);
}

/// PostgreSQL stores no text with U+0000.
TEST(History, D83_ZeroBytesOfEndpoint_AreStoredInDatabase) {
    const GatewayHome home;
    home.configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + new_database(home) + "\"");
    const std::string zero(1, '\0');
    const joint_tests::SentCall first{"list", R"({"path":"."})", "c" + zero};
    const joint_tests::SentCall second{"list", R"({"path":"\u0000"})", "c" + zero + zero};
    joint_tests::ModelServer server({joint_tests::chat_answer("a" + zero + "b", {first, second}),
                                     joint_tests::chat_answer("one" + zero),
                                     joint_tests::chat_answer("two")});
    for (const char* const text : {"one", "two"}) {
        GatewayProcess gateway(home, flags_at(server, "openai", "local"));
        const HttpReply reply = post(gateway.wait_until_running(), text);
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(reply.json().at("ok"), true) << reply.body;
        EXPECT_NE(reply.body.find(text), std::string::npos) << reply.body;
    }
    const auto bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 3u);
    EXPECT_NE(boost::json::serialize(bodies.back()).find("one"), std::string::npos);
}

TEST(Failover, D205_MessageOfKilledGateway_IsAnsweredByAnother) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = new_database(first);
    share_sessions(first, second, database);
    EchoModel model;
    model.hold("one");
    kill_in_turn(first, model, "one");
    GatewayProcess other(second, model.flags());
    const std::uint16_t at_other = other.wait_until_running();
    auto two = post_later(at_other, "two");
    (void)model.wait_for("one", 2);
    model.release();
    EXPECT_EQ(two.get().text(), "re: two");
    EXPECT_NE(model.wait_for("two").find("re: one"), std::string::npos);
    // The client of the killed gateway repeats its request, at either of them.
    EXPECT_EQ(post(at_other, "one").text(), "re: one");
    GatewayProcess gateway(first, model.flags());
    EXPECT_EQ(post(gateway.wait_until_running(), "one").text(), "re: one");
    EXPECT_EQ(model.count("one"), 2u) << "no third turn";
}

TEST(Failover, D205_SameKeyAtTwoGateways_IsOneTurn) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = new_database(first);
    share_sessions(first, second, database);
    EchoModel model;
    model.hold("one");
    GatewayProcess gateway(first, model.flags());
    GatewayProcess other(second, model.flags());
    auto here = post_later(gateway.wait_until_running(), "one");
    (void)model.wait_for("one");
    auto there = post_later(other.wait_until_running(), "one");
    model.release();
    EXPECT_EQ(here.get().text(), "re: one");
    // It arrived before the turn ended, and waited for it, or afterwards.
    EXPECT_EQ(there.get().text(), "re: one");
    EXPECT_EQ(model.count("one"), 1u);
}

TEST(Failover, D205_DeliveriesOfFiles_MoveToTheDatabase) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    kill_twice(home, model, "one");
    home.configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + new_database(home) + "\"");
    for (int starts = 0; starts < 2; ++starts) {
        GatewayProcess gateway(home, model.flags());
        (void)gateway.wait_until_running();
        const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
        EXPECT_EQ(held.at("messages").as_array().size(), 1u) << boost::json::serialize(held);
    }
    model.release();
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    auto one = post_later(port, "one");
    release_held(home, 1);
    (void)model.wait_for("one", 3);
    (void)one.get();
    EXPECT_EQ(post(port, "two").text(), "re: two");
    EXPECT_NE(model.wait_for("two").find("re: one"), std::string::npos);
    const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
    EXPECT_TRUE(held.at("messages").as_array().empty());
}

TEST(Failover, D205_SessionBusyElsewhere_MessageWaits) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = new_database(first);
    share_sessions(first, second, database);
    EchoModel model;
    model.hold("one");
    GatewayProcess gateway(first, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    auto one = post_later(port, "one");
    (void)model.wait_for("one");
    GatewayProcess other(second, model.flags());
    auto two = post_later(other.wait_until_running(), "two");
    model.release();
    EXPECT_EQ(one.get().text(), "re: one");
    const HttpReply answer = two.get();
    EXPECT_EQ(answer.text(), "re: two") << answer.body;
    EXPECT_NE(model.wait_for("two").find("re: one"), std::string::npos);
}

TEST(SharedSessions, AllSessions_IncludeThoseOfAGateway) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = new_database(first);
    share_sessions(first, second, database);
    EchoModel model;
    GatewayProcess gateway(first, model.flags());
    EXPECT_EQ(post(gateway.wait_until_running(), "hello").text(), "re: hello");
    const CommandResult all = run_command(second, {"sessions", "list", "--all", "--db", database});
    EXPECT_EQ(all.status, 0) << all.output;
    EXPECT_NE(all.output.find("http:"), std::string::npos) << all.output;
    const CommandResult here = run_command(second, {"sessions", "list", "--db", database});
    EXPECT_EQ(here.output.find("http:"), std::string::npos) << here.output;
}

/// A gateway whose sessions are in a database of its own server.
class DatabaseOutage : public ::testing::Test {
protected:
    DatabaseOutage() {
        home.configure("{http: {listen: \"127.0.0.1:0\"}, rules: [{allow: [\"shell: cd * && " +
                       command().substr(4) + "\", \"subagent: *\"]}]}\ndatabase: \"" +
                       new_database(home) + "\"");
        // A turn is postponed when the server has been away for some seconds.
        gateway = std::make_unique<GatewayProcess>(home, model.flags(),
                                                   std::vector<std::string>{"CUBEPI_TEST_CLOCK=5"});
        port = gateway->wait_until_running();
        const std::string at = home.path().string();
        std::ofstream(at + "/step")
            << "echo x >> " << at << "/log\nuntil test -e " << at << "/go; do sleep 0.05; done\n";
    }
    /// The number of times that the command of the tests was executed.
    std::size_t executions() const {
        std::ifstream file(home.path() / "log");
        std::string line;
        std::size_t count = 0;
        while (std::getline(file, line)) ++count;
        return count;
    }
    /// A message whose turn executes a command, which ends at let_command_end().
    std::string command() const { return "run sh " + (home.path() / "step").string(); }
    void let_command_end() const { std::ofstream(home.path() / "go") << "x"; }
    static void stop_server() { PostgresServer::shared().stop(SIGKILL); }
    static void start_server() { PostgresServer::shared().start(); }

    const GatewayHome home;
    EchoModel model;
    std::unique_ptr<GatewayProcess> gateway;
    std::uint16_t port = 0;
};

TEST_F(DatabaseOutage, D90_DuringModelCall_TurnIsTriedAgain) {
    model.hold("one");
    auto one = post_later(port, "one");
    (void)model.wait_for("one");
    stop_server();
    model.release();
    (void)gateway->wait_for("turn.postponed");
    start_server();
    const HttpReply answer = one.get();
    EXPECT_EQ(answer.text(), "re: one") << answer.body;
    EXPECT_EQ(post(port, "two").text(), "re: two");
    EXPECT_NE(model.wait_for("two").find("re: one"), std::string::npos);
}

TEST_F(DatabaseOutage, D62_DuringTool_RunContinuesWithoutRepeatingIt) {
    auto one = post_later(port, command());
    while (executions() == 0) std::this_thread::yield();
    stop_server();
    let_command_end();
    (void)gateway->wait_for("turn.postponed");
    start_server();
    const HttpReply answer = one.get();
    EXPECT_EQ(answer.text(), "re: " + command()) << answer.body;
    EXPECT_EQ(executions(), 1u);
}

TEST_F(DatabaseOutage, D62_AfterTool_RunContinuesWithoutRepeatingIt) {
    let_command_end();
    model.hold(command());
    auto one = post_later(port, command());
    (void)model.wait_for(command(), 2);
    stop_server();
    model.release();
    (void)gateway->wait_for("turn.postponed");
    start_server();
    const HttpReply answer = one.get();
    EXPECT_EQ(answer.text(), "re: " + command()) << answer.body;
    EXPECT_EQ(executions(), 1u);
}

TEST_F(DatabaseOutage, D90_AfterInheritingSubagent_TurnContinues) {
    model.hold("delegate the work");
    auto one = post_later(port, "delegate the work");
    (void)model.wait_for("delegate the work", 2);
    stop_server();
    model.release();
    (void)gateway->wait_for("turn.postponed");
    start_server();
    const HttpReply answer = one.get();
    EXPECT_EQ(answer.text(), "re: delegate the work") << answer.body;
    EXPECT_EQ(model.count("the work"), 1u) << "the sub-agent has ended";
    const std::string request = model.wait_for("delegate the work", 3);
    EXPECT_EQ(request.find("[This message is late"), std::string::npos) << request;
}

}  // namespace
}  // namespace cubepi::gateway_tests
