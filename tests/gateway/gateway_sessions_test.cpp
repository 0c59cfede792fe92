// Requests to the channel http that read messages and sessions, and what ends a turn: D96, D97.

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/http_client.hpp>

#include "../joints/cutting_model.hpp"
#include "echo_model.hpp"
#include "fake_bot_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;

constexpr const char* writes_a_file =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}]}, "Done."]})";

HttpReply call(std::uint16_t port, const std::string& method, const std::string& path,
               const std::string& body = {}) {
    return run(call_channel(port, method, path, body));
}

HttpReply get(std::uint16_t port, const std::string& path) { return call(port, "GET", path); }

std::string state_of(const HttpReply& reply) { return detail::text_member(reply.json(), "state"); }

std::string error_of(const HttpReply& reply) {
    const JsonObject all = reply.json();
    const JsonObject* const error = detail::object_member(all, "error");
    return error ? detail::text_member(*error, "message") : std::string();
}

/// Sends a message with the key of its text.
std::future<HttpReply> ask_later(std::uint16_t port, const std::string& text,
                                 const std::string& user = "ann") {
    return std::async(std::launch::async, [port, text, user] {
        JsonObject message{{"session", "s1"}, {"text", text}, {"user", user}};
        return run(post_message(port, std::move(message), "key-" + text));
    });
}

HttpReply ask(std::uint16_t port, const std::string& text, const std::string& user = "ann") {
    return ask_later(port, text, user).get();
}

/// Reads the message with this key.
HttpReply read_message(std::uint16_t port, const std::string& key,
                       const std::string& user = "ann") {
    return get(port, "/v1/messages/" + key + "?user=" + user);
}

/// Reads the message of ann with this key until it has this state.
HttpReply wait_for_state(std::uint16_t port, const std::string& key, const std::string& state) {
    HttpReply reply;
    wait_until([&] {
        reply = read_message(port, key);
        return state_of(reply) == state;
    });
    return reply;
}

/// Waits until the list of sessions contains the text.
void wait_until_listed(const GatewayHome& home, const std::string& text) {
    wait_until([&] {
        const std::string listed = run_command(home, {"gateway", "sessions"}).output;
        return listed.find(text) != std::string::npos;
    });
}

void wait_until_waiting(const GatewayHome& home) { wait_until_listed(home, "1 message waiting"); }

TEST(GatewayMessages, D97_MessageInDrain_IsAcceptedWithItsId) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        auto one = ask_later(port, "one");
        (void)model.wait_for("one");
        auto two = ask_later(port, "two");
        wait_until_waiting(home);
        gateway.send(SIGTERM);
        const HttpReply waits = two.get();
        EXPECT_EQ(waits.status, 202) << waits.body;
        EXPECT_EQ(waits.json().at("id"), read_message(port, "key-two").json().at("id"));
        const HttpReply three = ask(port, "three");
        EXPECT_EQ(three.status, 202) << three.body;
        EXPECT_EQ(state_of(three), "pending");
        model.release();
        EXPECT_EQ(one.get().text(), "re: one");
        EXPECT_EQ(gateway.wait(), 0) << gateway.output();
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(wait_for_state(port, "key-two", "answered").text(), "re: two");
    EXPECT_EQ(wait_for_state(port, "key-three", "answered").text(), "re: three");
    EXPECT_EQ(model.count("two"), 1u);
}

TEST(GatewayMessages, D97_AnswerAfterRestart_IsReadById) {
    const GatewayHome home;
    EchoModel model;
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        EXPECT_EQ(ask(port, "one").text(), "re: one");
        EXPECT_NE(ask(port, ",tape_info", "olga").text().find("entries: "), std::string::npos);
        gateway.kill();
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply read = read_message(port, "key-one");
    EXPECT_EQ(read.status, 200) << read.body;
    EXPECT_EQ(read.text(), "re: one") << read.body;
    EXPECT_EQ(state_of(read), "answered");
    const HttpReply command = read_message(port, "key-%2Ctape_info", "olga");
    EXPECT_NE(command.text().find("entries: "), std::string::npos) << command.body;
    EXPECT_EQ(ask(port, "one").text(), "re: one");
    EXPECT_EQ(ask(port, ",tape_info", "olga").text(), command.text());
    EXPECT_EQ(get(port, "/v1/messages/unknown").status, 404);
    EXPECT_EQ(run(http_get(port, "/v1/messages/key-one")).status, 401);
    EXPECT_EQ(model.count("one"), 1u);
}

/// Replaces an id in the records and tapes below a directory.
void replace_id(const std::filesystem::path& directory, const std::string& id,
                const std::string& other) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
        if (!entry.is_regular_file()) continue;
        std::ifstream file(entry.path(), std::ios::binary);
        std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        if (text.find('\0') != text.npos || text.find(id) == text.npos) continue;
        for (std::size_t at = 0; (at = text.find(id, at)) != text.npos;)
            text.replace(at, id.size(), other);
        std::ofstream(entry.path(), std::ios::binary) << text;
    }
}

TEST(GatewayMessages, D291_MessageOfEarlierVersion_IsRepeatedOnce) {
    const GatewayHome home;
    EchoModel model;
    {
        GatewayProcess gateway(home, model.flags());
        const HttpReply reply = ask(gateway.wait_until_running(), "one");
        gateway.kill();
        // The earlier version had the key as id.
        const std::string id(reply.json().at("id").as_string());
        replace_id(home.path(), id, "key-one");
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply again = ask(port, "one");
    EXPECT_EQ(again.text(), "re: one") << again.body;
    EXPECT_EQ(again.json().at("id"), "key-one");
    EXPECT_EQ(get(port, "/v1/messages/key-one").text(), "re: one");
    EXPECT_EQ(model.count("one"), 1u);
    EXPECT_EQ(ask(port, "one", "bob").text(), "re: one");
    EXPECT_EQ(model.count("one"), 2u);
}

TEST(GatewayMessages, D97_MessageWithoutAnswer_ShowsItsState) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    for (int turn = 1; turn <= 2; ++turn) {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        std::vector<std::future<HttpReply>> lost;
        if (turn == 1) lost.push_back(ask_later(port, "one"));
        (void)model.wait_for("one", static_cast<std::size_t>(turn));
        if (turn == 1) lost.push_back(ask_later(port, "two"));
        const HttpReply running = wait_for_state(port, "key-one", "running");
        EXPECT_EQ(running.status, 202) << running.body;
        EXPECT_EQ(wait_for_state(port, "key-two", "pending").status, 202);
        // It is pending before it is stored.
        wait_until([port] { return get(port, "/v1/sessions/s1").json().at("pending") == 1; });
        EXPECT_EQ(state_of(get(port, "/v1/sessions/s1")), "running");
        gateway.kill();
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(wait_for_state(port, "key-one", "held").status, 202);
    EXPECT_EQ(wait_for_state(port, "key-two", "answered").text(), "re: two");
}

/// Follows the events of the message "one".
Task<HttpReply> events_of_one(std::uint16_t port) {
    HttpRequest request("POST", "http://127.0.0.1:" + std::to_string(port) + "/v1/messages");
    request.headers.set("authorization", "Bearer 0123456789abcdef");
    request.headers.set("idempotency-key", "key-one");
    request.headers.set("accept", "text/event-stream");
    request.body = R"({"session": "s1", "text": "one", "user": "ann"})";
    HttpClient client;
    HttpResponse response = co_await client.send(std::move(request));
    HttpReply reply;
    reply.status = response.status;
    for (bool more = true; more;) more = co_await response.body->read(reply.body);
    co_return reply;
}

TEST(GatewayMessages, D97_ReleasedMessage_IsReadAndFollowed) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    std::vector<std::future<HttpReply>> lost;
    for (const std::size_t turn : {1U, 2U}) {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        if (turn == 1) lost.push_back(ask_later(port, "one"));
        (void)model.wait_for("one", turn);
        gateway.kill();
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(wait_for_state(port, "key-one", "held").status, 202);
    EXPECT_EQ(ask(port, "two").text(), "re: two");
    const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
    const std::string id(held.at("messages").at(0).at("id").as_string());
    EXPECT_EQ(run_command(home, {"gateway", "release", id}).status, 0);
    (void)model.wait_for("one", 3);
    EXPECT_EQ(wait_for_state(port, "key-one", "running").status, 202);
    auto events = std::async(std::launch::async, [port] { return run(events_of_one(port)); });
    model.release();
    const HttpReply followed = events.get();
    EXPECT_EQ(followed.status, 200) << followed.body;
    EXPECT_NE(followed.body.find("event: message\n"), std::string::npos) << followed.body;
    EXPECT_NE(followed.body.find("re: one"), std::string::npos) << followed.body;
    EXPECT_NE(followed.body.find("event: done\n"), std::string::npos) << followed.body;
    const HttpReply read = wait_for_state(port, "key-one", "answered");
    EXPECT_EQ(read.text(), "re: one") << read.body;
    // The late message is repeated in the history, under an id with which it is read too.
    const HttpReply history = get(port, "/v1/sessions/s1");
    const std::string message(read.json().at("id").as_string());
    EXPECT_NE(history.body.find("\"message\":\"" + message + "+\""), std::string::npos)
        << history.body;
    const HttpReply repeated = get(port, "/v1/messages/" + message + "+");
    EXPECT_EQ(repeated.status, 200) << repeated.body;
    EXPECT_EQ(repeated.text(), "re: one") << repeated.body;
    EXPECT_EQ(repeated.json().at("id"), Json(message));
    EXPECT_EQ(get(port, "/v1/messages/unknown+").status, 404);
}

TEST(GatewayMessages, D97_AnswerOfInbox_ReachesTheClient) {
    const GatewayHome home;
    {
        GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
        const std::uint16_t port = gateway.wait_until_running();
        (void)ask(port, "write");
        const HttpReply waiting = read_message(port, "key-write");
        EXPECT_EQ(state_of(waiting), "waiting") << waiting.body;
        EXPECT_EQ(waiting.json().at("outputs").at(0).at("question").at("question_id"), "c1");
        gateway.kill();
    }
    const std::string continues = R"({"tokens_per_second": 100000, "answers": ["Done."]})";
    GatewayProcess gateway(home, {"--script", home.script(continues)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply waiting = read_message(port, "key-write");
    EXPECT_EQ(state_of(waiting), "waiting") << waiting.body;
    EXPECT_EQ(run_command(home, {"inbox", "--gateway", "approve", "c1"}).status, 0);
    EXPECT_EQ(wait_for_state(port, "key-write", "answered").text(), "Done.");
}

TEST(GatewayMessages, D97_History_IsReadInPages) {
    const GatewayHome home;
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply first =
        call(port, "POST", "/v1/sessions/s%2F1/messages", R"({"text": "one\u0001\u001b[2J"})");
    EXPECT_EQ(first.status, 200) << first.body;
    EXPECT_EQ(first.json().at("session"), "s/1");
    (void)call(port, "POST", "/v1/sessions/s%2F1/messages", R"({"text": "two"})");
    const HttpReply newest = get(port, "/v1/sessions/s%2F1?limit=2");
    EXPECT_EQ(state_of(newest), "idle") << newest.body;
    const JsonArray messages = newest.json().at("messages").as_array();
    ASSERT_EQ(messages.size(), 2u) << newest.body;
    EXPECT_EQ(messages[0].at("role"), "user");
    EXPECT_EQ(messages[1].at("text"), "re: two");
    const std::int64_t before = newest.json().at("before").to_number<std::int64_t>();
    const HttpReply older = get(port, "/v1/sessions/s%2F1?before=" + std::to_string(before));
    ASSERT_EQ(older.json().at("messages").as_array().size(), 2u) << older.body;
    EXPECT_NE(older.body.find("\\u0001"), std::string::npos) << older.body;
    EXPECT_EQ(older.body.find('\x1b'), std::string::npos);
    EXPECT_FALSE(older.json().contains("before"));
}

TEST(GatewayMessages, D97_HostileIds_AreRefused) {
    const GatewayHome home;
    GatewayProcess gateway(home);
    const std::uint16_t port = gateway.wait_until_running();
    for (const std::string& id :
         {std::string("%00"), std::string("%FF"), std::string("a%0Ab"), std::string(201, 'x')}) {
        EXPECT_EQ(get(port, "/v1/sessions/" + id).status, 400) << id;
        EXPECT_EQ(call(port, "POST", "/v1/sessions/" + id + "/stop").status, 400) << id;
    }
    for (const char* id : {"..%2F..%2Fetc%2Fpasswd", "telegram:7", "unknown"})
        EXPECT_EQ(get(port, std::string("/v1/sessions/") + id).status, 404) << id;
    EXPECT_EQ(get(port, "/v1/sessions/s1?limit=all").status, 400);
    EXPECT_EQ(
        call(port, "POST", "/v1/sessions/s1/messages", R"({"session": "s2", "text": "hello"})")
            .status,
        400);
    EXPECT_EQ(run(http_get(port, "/v1/sessions/s1")).status, 401);
}

TEST(GatewayStop, D96_StoppedTurn_IsNeverRetried) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    model.hold("three");
    model.hold("five");
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        auto one = ask_later(port, "one");
        (void)model.wait_for("one");
        auto two = ask_later(port, "two");
        wait_until_waiting(home);
        const HttpReply stopped = call(port, "POST", "/v1/sessions/s1/stop");
        EXPECT_EQ(stopped.status, 200) << stopped.body;
        EXPECT_EQ(stopped.text(), "The turn was stopped.");
        EXPECT_EQ(error_of(one.get()), "The turn was stopped.");
        EXPECT_EQ(two.get().text(), "re: two");
        const HttpReply idle = call(port, "POST", "/v1/sessions/s1/stop");
        EXPECT_EQ(idle.text(),
                  "No turn of this session is running here, and no question waits for an answer.");
        auto three = ask_later(port, "three");
        (void)model.wait_for("three");
        EXPECT_EQ(ask(port, "/stop", "ann").text(), "The turn was stopped.");
        EXPECT_EQ(error_of(three.get()), "The turn was stopped.");
        auto five = ask_later(port, "five");
        (void)model.wait_for("five");
        EXPECT_EQ(ask(port, "/stop", "ann").text(), "The turn was stopped.");
        EXPECT_EQ(state_of(read_message(port, "key-five")), "running")
            << "a repeated request does not stop a later turn";
        EXPECT_EQ(call(port, "POST", "/v1/sessions/s1/stop").status, 200);
        gateway.kill();
    }
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    for (const char* key : {"key-one", "key-three", "key-five"}) {
        const HttpReply failed = read_message(port, key);
        EXPECT_EQ(state_of(failed), "failed");
        EXPECT_EQ(failed.body.find("technical problem"), std::string::npos) << failed.body;
    }
    const HttpReply history = get(port, "/v1/sessions/s1");
    EXPECT_EQ(history.body.find("technical problem"), std::string::npos) << history.body;
    model.release();
    EXPECT_EQ(ask(port, "four").text(), "re: four");
    for (const char* text : {"one", "three", "five"}) EXPECT_EQ(model.count(text), 1u) << text;
}

TEST(GatewayStop, D96_OtherUser_MayNotStop) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    model.hold("two");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    auto one = ask_later(port, "one", "ann");
    (void)model.wait_for("one");
    EXPECT_EQ(ask(port, "/stop", "bob").status, 403);
    EXPECT_EQ(call(port, "POST", "/v1/sessions/s1/stop", R"({"user": "bob"})").status, 403);
    EXPECT_EQ(state_of(read_message(port, "key-one")), "running");
    EXPECT_EQ(ask(port, ",stop", "ann").status, 200);
    const HttpReply stopped = one.get();
    EXPECT_EQ(error_of(stopped), "The turn was stopped.");
    EXPECT_EQ(stopped.text(), "") << stopped.body;
    auto two = ask_later(port, "two", "ann");
    (void)model.wait_for("two");
    EXPECT_EQ(ask(port, "/stop", "olga").status, 200) << "an operator";
    EXPECT_EQ(error_of(two.get()), "The turn was stopped.");
}

TEST(GatewayStop, D96_Command_NamesASession) {
    const GatewayHome home;
    EchoModel model;
    model.hold("one");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(run_command(home, {"gateway", "stop"}).status, 2);
    const CommandResult idle = run_command(home, {"gateway", "stop", "http:s1"});
    EXPECT_NE(idle.output.find("no turn is running in the session 'http:s1'"), std::string::npos)
        << idle.output;
    EXPECT_EQ(idle.status, 1);
    auto one = ask_later(port, "one");
    (void)model.wait_for("one");
    EXPECT_EQ(run_command(home, {"gateway", "stop", "http:s1"}).status, 0);
    EXPECT_EQ(error_of(one.get()), "The turn was stopped.");
    EXPECT_EQ(ask(port, "two").text(), "re: two");
}

TEST(GatewayStop, D96_SuspendedTurn_IsWithdrawn) {
    const GatewayHome home;
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    (void)ask(port, "write");
    const HttpReply other = ask(port, "/stop", "bob");
    EXPECT_NE(other.text().find("You may not withdraw this question"), std::string::npos)
        << other.body;
    EXPECT_EQ(call(port, "POST", "/v1/sessions/s1/stop").text(), "The question was withdrawn.");
    EXPECT_EQ(state_of(read_message(port, "key-write")), "failed");
    EXPECT_EQ(state_of(get(port, "/v1/sessions/s1")), "idle");
}

TEST(GatewayStop, D96_FailedTurn_IsNotTriedAgain) {
    const GatewayHome home;
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    const std::filesystem::path away = home.path() / "away";
    EXPECT_EQ(ask(port, "zero").text(), "re: zero");
    std::filesystem::rename(home.tapes(), away);
    std::ofstream(home.tapes()) << "not a directory";
    auto one = ask_later(port, "one");
    (void)gateway.wait_for("turn.postponed");
    HttpReply stopped;
    // The next attempt may be running.
    while (stopped.text() != "The turn was stopped.")
        stopped = call(port, "POST", "/v1/sessions/s1/stop");
    EXPECT_EQ(error_of(one.get()), "The turn was stopped.");
    std::filesystem::remove(home.tapes());
    std::filesystem::rename(away, home.tapes());
    EXPECT_EQ(ask(port, "two").text(), "re: two");
    EXPECT_EQ(model.count("one"), 0u);
}

constexpr std::int64_t ann = 7;

TEST(GatewayStop, D96_MessageBeforeItsTurn_IsDropped) {
    const GatewayHome home;
    FakeBotServer bot{std::make_shared<SystemClock>()};
    home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                   "\", users: [7]}}");
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    (void)gateway.wait_for("gateway.running");
    const auto wait_for = [&bot](const std::string& text) {
        bot.wait_until([&](const FakeBotApi& api) {
            const std::vector<std::string> sent = api.texts(ann);
            return !sent.empty() && sent.back() == text;
        });
    };
    bot.with_api([](FakeBotApi& api) {
        (void)api.say(ann, "one");
        (void)api.say(ann, "/stop");
    });
    wait_for("The turn was stopped.");
    bot.with_api([](FakeBotApi& api) { (void)api.say(ann, "two"); });
    wait_for("re: two");
    EXPECT_EQ(model.count("one"), 0u);
}

constexpr std::int64_t bob = 8;
constexpr std::int64_t group = -100;

TEST(GatewayStop, D96_UserOfTelegram_StopsTheOwnTurn) {
    const GatewayHome home;
    FakeBotServer bot{std::make_shared<ScaledClock>(20)};
    home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                   "\", users: [7], chats: [-100]}}");
    const auto say = [&bot](std::int64_t user, std::int64_t chat, const std::string& text) {
        bot.with_api([&](FakeBotApi& api) {
            JsonObject update;
            update["message"] = api.message_of(user, chat, text);
            api.add_update(std::move(update));
        });
    };
    const auto wait_for = [&bot](std::int64_t chat, const std::string& text) {
        bot.wait_until([&](const FakeBotApi& api) {
            for (const std::string& sent : api.texts(chat))
                if (sent.find(text) != std::string::npos) return true;
            return false;
        });
    };
    bot.with_api([](FakeBotApi& api) {
        for (const std::int64_t chat : {ann, group}) api.add_chat(chat);
    });
    EchoModel model;
    model.hold("one");
    model.hold("Ann: /two@cubepi_bot");
    GatewayProcess gateway(home, model.flags(), {"CUBEPI_TEST_CLOCK=20"});
    (void)gateway.wait_for("gateway.running");
    say(ann, ann, "one");
    (void)model.wait_for("one");
    say(ann, ann, "/stop");
    wait_for(ann, "The turn was stopped.");
    say(ann, ann, "/stop");
    wait_for(ann, "No turn of this session is running here, and no question waits for an answer.");
    say(ann, group, "/two@cubepi_bot");
    wait_until_listed(home, "\trunning");
    say(bob, group, "/stop");
    wait_for(group, "Only the user whose message is being processed");
    say(ann, group, "/stop@cubepi_bot");
    wait_for(group, "The turn was stopped.");
    model.release();
    say(ann, ann, "three");
    wait_for(ann, "re: three");
}

/// A server that cuts long requests without saying so; another process of the gateway in the middle (D111).
TEST(GatewaySessions, D111_SilentCut_ForgetsNothing) {
    const GatewayHome home;
    home.configure("{http: {listen: \"127.0.0.1:0\"}}");
    joint_tests::CuttingModel model;
    joint_tests::ModelServer server(
        [&model](const boost::json::object& body) { return model.answer(body); });
    const auto serve = [&](std::size_t prompts, const std::string& last) {
        GatewayProcess gateway(home,
                               {"--provider", "openai", "--base-url", server.url(), "-m", "local"});
        const std::uint16_t port = gateway.wait_until_running();
        const auto post = [port](const std::string& text) {
            return run(post_message(port, {{"session", "s1"}, {"text", text}, {"user", "ann"}}));
        };
        for (std::size_t i = 0; i < prompts; ++i) {
            const HttpReply reply = post(model.prompt());
            ASSERT_EQ(reply.status, 200) << reply.body;
        }
        if (!last.empty()) {
            EXPECT_EQ(post(last).status, 200);
        }
        gateway.send(SIGTERM);
        EXPECT_EQ(gateway.wait(), 0);
    };
    serve(12, "");
    serve(8, "recall all");
    EXPECT_GE(model.summaries, 1u);
    EXPECT_LE(model.largest_summary, joint_tests::CuttingModel::window);
    EXPECT_FALSE(model.was_cut) << "later requests fit";
    EXPECT_EQ(joint_tests::CuttingModel::recalled(server).size(), model.planted);
}

}  // namespace
}  // namespace cubepi::gateway_tests
