// Gateways whose sessions are divided among three databases (D258, D259).

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/divided_delivery_log.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/framework.hpp>
#include <bub/hooks.hpp>
#include <bub/tape/divided_tape_store.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../joints/task_model.hpp"
#include "config/store_locations.hpp"
#include "echo_model.hpp"
#include "gateway/control_server.hpp"
#include "gateway/session_location.hpp"
#include "gateway_process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

class ThreeDatabases : public ::testing::Test {
protected:
    ThreeDatabases() {
        for (const char* name : {"a", "b", "c"}) {
            app::DatabasePart& part = parts.emplace_back();
            part.name = name;
            part.url = new_database(one);
        }
        divide("0000-5554", "5555-aaa9", "aaaa-ffff");
    }
    /// Writes the configuration of both gateways.
    void divide(const std::string& a, const std::string& b, const std::string& c) {
        parts[0].sessions = a;
        parts[1].sessions = b;
        parts[2].sessions = c;
        configure();
    }
    void configure(const std::string& more = {}) const {
        std::string text = "{http: {listen: \"127.0.0.1:0\", ag_ui: true, operators: [olga]}" +
                           more + "}\ndatabases:\n";
        for (const app::DatabasePart& part : parts)
            text += "  - {name: " + part.name + ", url: \"" + part.url + "\", sessions: \"" +
                    part.sessions + "\"}\n";
        one.configure(text);
        two.configure(text);
    }
    void record() const {
        const CommandResult recorded = run_command(one, {"db", "divide"});
        EXPECT_EQ(recorded.status, 0) << recorded.output;
    }
    std::unique_ptr<GatewayProcess> start(const GatewayHome& home, std::uint16_t& port) {
        auto gateway = std::make_unique<GatewayProcess>(home, model.flags());
        port = gateway->wait_until_running();
        return gateway;
    }
    std::vector<std::string> query(std::size_t database, const std::string& sql) const {
        return RawPostgres(parts[database].url).query(sql);
    }
    /// A session of the channel http in this database.
    std::string session_in(std::size_t database, const std::string& prefix = "s") const {
        const bub::DatabaseMap map = app::database_map(parts);
        for (int i = 0;; ++i) {
            std::string session = prefix + std::to_string(i);
            if (map.of_session("http:" + session) == database) return session;
        }
    }
    /// Waits until a gateway can use all its databases.
    static void wait_until_sound(const GatewayHome& home) {
        wait_until([&] {
            return !app::call_gateway(home.socket(), JsonObject{{"command", "status"}})
                        .contains("problem");
        });
    }
    /// Ends the connections to a database, and refuses others until `allowed`.
    void allow(std::size_t database, bool allowed) const {
        const std::string name = parts[database].url.substr(parts[database].url.rfind('/') + 1);
        const std::size_t at = database == 0 ? 1 : 0;
        query(at, "ALTER DATABASE " + name + " ALLOW_CONNECTIONS " + (allowed ? "true" : "false"));
        const std::string others = " FROM pg_stat_activity WHERE datname = '" + name + "'";
        while (!allowed && query(at, "SELECT count(*)" + others).front() != "0")
            query(at, "SELECT pg_terminate_backend(pid)" + others);
    }

    const GatewayHome one;
    const GatewayHome two;
    std::vector<app::DatabasePart> parts;
    EchoModel model;
};

TEST_F(ThreeDatabases, D258_Sessions_AreAnsweredAtAnyGateway) {
    record();
    std::uint16_t first_port = 0;
    std::uint16_t second_port = 0;
    const auto first = start(one, first_port);
    const auto second = start(two, second_port);
    for (std::size_t at = 0; at < parts.size(); ++at) {
        const std::string session = session_in(at);
        const std::string text = "text" + std::to_string(at);
        EXPECT_EQ(post_later(first_port, text, session).get().text(), "re: " + text);
        // The same message at the other one.
        (void)post_later(second_port, text, session).get();
        const HttpReply known =
            run(call_channel(second_port, "GET", "/v1/messages/key-" + text + "?user=olga"));
        EXPECT_TRUE(has(known.body, "re: " + text)) << known.body;
        EXPECT_EQ(model.count(text), 1u);
        EXPECT_EQ(post_later(second_port, "next " + text, session).get().text(),
                  "re: next " + text);
        EXPECT_TRUE(has(model.wait_for("next " + text), "re: " + text));
        const HttpReply history = run(call_channel(first_port, "GET", "/v1/sessions/" + session));
        EXPECT_TRUE(has(history.body, "re: next " + text)) << history.body;
    }
    for (std::size_t at = 0; at < parts.size(); ++at) {
        EXPECT_EQ(query(at, "SELECT count(*) FROM bub_delivery_inbound").front(), "2");
        EXPECT_EQ(query(at, "SELECT count(*) FROM bub_tapes").front(), "1");
    }
    const CommandResult shown =
        run_command(one, {"tape", "show", "--session", "http:" + session_in(2)});
    EXPECT_TRUE(has(shown.output, "re: text2")) << shown.output;
}

TEST_F(ThreeDatabases, D258_SubagentOfSession_ContinuesAtOtherGateway) {
    record();
    configure(", rules: [{allow: [\"subagent: *\"]}]");
    joint_tests::TaskModel tasks;
    // By its name, the tape of the sub-agent would be in another database than that of its session.
    const bub::DatabaseMap map = app::database_map(parts);
    std::string session;
    for (int i = 0; session.empty(); ++i) {
        const std::string one = session_in(1, "s" + std::to_string(i) + "-");
        if (map.of_session("http:" + one + "/agent/helper") != 1) session = one;
    }
    const auto send = [&](std::uint16_t port, JsonObject message) {
        message["session"] = session;
        message["user"] = "olga";
        return run(post_message(port, std::move(message)));
    };
    GatewayProcess first(one, tasks.flags());
    const HttpReply asked = send(first.wait_until_running(), {{"text", "helper write new.txt"}});
    EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
    first.kill();
    GatewayProcess second(two, tasks.flags());
    const std::uint16_t port = second.wait_until_running();
    const HttpReply shown = run(call_channel(port, "GET", "/v1/sessions/" + session));
    const JsonObject state = shown.json();
    ASSERT_TRUE(has(shown.body, "\"request_id\"")) << shown.body;
    // The run of the sub-agent continues where it has asked.
    const HttpReply answered =
        send(port, {{"answer_to", state.at("questions").at(0).at("request_id")},
                    {"answer", {{"decision", "approve"}}}});
    EXPECT_EQ(answered.text(), "re: helper write new.txt") << answered.body;
    EXPECT_EQ(tasks.count("write new.txt"), 2u);
    // So does its conversation.
    EXPECT_EQ(send(port, {{"text", "helper next"}}).text(), "re: helper next");
    EXPECT_TRUE(has(tasks.wait_for("next"), "re: write new.txt"));
    for (std::size_t at = 0; at < parts.size(); ++at)
        EXPECT_EQ(query(at, "SELECT count(*) FROM bub_tapes").front(), at == 1 ? "2" : "0");
}

TEST_F(ThreeDatabases, D258_TurnElsewhere_IsListedAndHeldMessagesDecided) {
    record();
    const std::string session = session_in(1);
    model.hold("held");
    std::uint16_t port = 0;
    for (std::size_t kills = 1; kills <= 2; ++kills) {
        const auto gateway = start(one, port);
        const auto lost = kills == 1 ? post_later(port, "held", session) : std::future<HttpReply>();
        (void)model.wait_for("held", kills);
        gateway->kill();
    }
    const auto first = start(one, port);
    const auto second = start(two, port);
    JsonObject held;
    wait_until([&] {
        held = app::call_gateway(two.socket(), JsonObject{{"command", "held"}});
        return !held.at("messages").as_array().empty();
    });
    const std::string id(held.at("messages").as_array()[0].at("id").as_string());
    EXPECT_TRUE(id.starts_with("b:")) << id;
    const std::future<HttpReply> running = post_later(port, "other", session_in(2));
    model.release();
    const CommandResult released = run_command(two, {"gateway", "release", id});
    EXPECT_EQ(released.status, 0) << released.output;
    (void)model.wait_for("held", 3);
    RawPostgres server(parts[1].url);
    wait_until([&] {
        return server.query("SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS NULL")
                   .front() == "0";
    });
}

TEST_F(ThreeDatabases, D258_DatabaseThatFails_StopsOnlyItsSessions) {
    record();
    std::uint16_t port = 0;
    const auto gateway = start(one, port);
    const std::string away = session_in(1);
    EXPECT_EQ(post_later(port, "before", away).get().text(), "re: before");
    allow(1, false);
    EXPECT_EQ(post_later(port, "lost", away).get().status, 503);
    for (const std::size_t at : {std::size_t{0}, std::size_t{2}}) {
        const std::string text = "text " + std::to_string(at);
        EXPECT_EQ(post_later(port, text, session_in(at)).get().text(), "re: " + text);
        // Whether the id of this run is known is asked before.
        const JsonObject prompt{{"id", "m"}, {"role", "user"}, {"content", "ag-ui " + text}};
        const JsonObject input{
            {"threadId", session_in(at)}, {"runId", "r"}, {"messages", JsonArray{prompt}}};
        const HttpReply answer =
            run(call_channel(port, "POST", "/v1/ag-ui", boost::json::serialize(input)));
        EXPECT_EQ(answer.status, 200) << answer.body;
        EXPECT_TRUE(has(answer.body, "RUN_FINISHED")) << answer.body;
    }
    const JsonObject status = app::call_gateway(one.socket(), JsonObject{{"command", "status"}});
    const std::string problem = detail::text_member(status, "problem");
    EXPECT_TRUE(has(problem, "the database 'b' with the sessions 5555-aaa9 cannot be used"))
        << problem;
    allow(1, true);
    wait_until_sound(one);
    EXPECT_EQ(post_later(port, "lost", away).get().text(), "re: lost");
}

TEST_F(ThreeDatabases, D258_ListsDuringOutage_NameTheDatabase) {
    record();
    configure(", status: \"127.0.0.1:0\"");
    GatewayProcess gateway(one, model.flags());
    std::uint16_t port = 0;
    std::uint16_t status = 0;
    while (port == 0 || status == 0) {
        const JsonObject listening = gateway.wait_for("http_server.listening");
        const auto number = listening.at("port").to_number<std::uint16_t>();
        (listening.at("name") == "status" ? status : port) = number;
    }
    (void)gateway.wait_for("gateway.running");
    const auto has_metrics = [status] {
        const std::string text = run(http_get(status, "/metrics")).body;
        EXPECT_TRUE(has(text, "cubepi_gateway_running_turns")) << text;
        EXPECT_EQ(has(text, "cubepi_gateway_open_questions"),
                  has(text, "cubepi_gateway_held_messages"));
        return has(text, "cubepi_gateway_open_questions");
    };
    EXPECT_EQ(post_later(port, "here", session_in(0)).get().text(), "re: here");
    EXPECT_TRUE(has_metrics());
    const auto call = [this](JsonObject request) {
        return app::call_gateway(one.socket(), request);
    };
    for (const char* list : {"questions", "held", "stored"})
        EXPECT_FALSE(call({{"command", list}}).contains("unread_databases")) << list;
    allow(1, false);
    (void)post_later(port, "lost", session_in(1)).get();
    for (const char* list : {"questions", "held", "stored"})
        EXPECT_EQ(call({{"command", list}}).at("unread_databases"), Json(JsonArray{"b"})) << list;
    EXPECT_FALSE(has_metrics()) << "a part of them is not their number";
    EXPECT_EQ(call({{"command", "stored"}}).at("sessions").as_array().size(), 1U);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"gateway", "held"}, {"inbox", "--gateway"}, {"inbox"}}) {
        const CommandResult shown = run_command(one, command);
        EXPECT_TRUE(has(shown.output, "Without the database b")) << shown.output;
    }
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"gateway", "release", "b:17.1"},
          {"gateway", "discard", "b:17.1"},
          {"inbox", "--gateway", "approve", "unknown"}}) {
        const CommandResult refused = run_command(one, command);
        EXPECT_NE(refused.status, 0);
        EXPECT_TRUE(has(refused.output, "cannot be used at the moment")) << refused.output;
    }
    const CommandResult unknown = run_command(one, {"gateway", "release", "a:17.1"});
    EXPECT_TRUE(has(unknown.output, "no held message or answer has the id")) << unknown.output;
    allow(1, true);
    wait_until_sound(one);
    for (const char* list : {"questions", "held", "stored"})
        EXPECT_FALSE(call({{"command", list}}).contains("unread_databases")) << list;
    EXPECT_TRUE(has_metrics());
}

TEST_F(ThreeDatabases, D258_StopDuringOutage_NamesTheDatabase) {
    record();
    std::future<HttpReply> in_b;
    std::future<HttpReply> in_c;
    std::uint16_t port = 0;
    std::uint16_t other_port = 0;
    const auto first = start(one, port);
    const auto second = start(two, other_port);
    const auto stop = [](const GatewayHome& home, const std::string& session) {
        return run_command(home, {"gateway", "stop", "http:" + session});
    };
    const auto wait_for_outage = [](const GatewayHome& home) {
        wait_until([&home] {
            return app::call_gateway(home.socket(), JsonObject{{"command", "status"}})
                .contains("problem");
        });
    };
    for (const char* text : {"b", "c"}) model.hold(text);
    in_b = post_later(port, "b", session_in(1));
    in_c = post_later(port, "c", session_in(2));
    for (const char* text : {"b", "c"}) (void)model.wait_for(text);
    allow(1, false);
    wait_for_outage(two);
    const CommandResult idle = stop(two, session_in(1, "idle"));
    EXPECT_NE(idle.status, 0);
    EXPECT_TRUE(has(idle.output, "of the database 'b', which cannot be used")) << idle.output;
    // The turn of another gateway, in a database that answers.
    const CommandResult stopped = stop(two, session_in(2));
    EXPECT_EQ(stopped.status, 0) << stopped.output;
    EXPECT_TRUE(has(in_c.get().body, "stopped"));
    allow(1, true);
    wait_until_sound(one);
    wait_until_sound(two);
    // Gateways ask each other through the first database.
    allow(0, false);
    wait_for_outage(one);
    wait_for_outage(two);
    const CommandResult unasked = stop(two, session_in(1));
    EXPECT_NE(unasked.status, 0);
    EXPECT_TRUE(has(unasked.output, "gateways cannot be asked, because the database 'a'"))
        << unasked.output;
    for (const char* list : {"sessions", "held"}) {
        const CommandResult listed = run_command(two, {"gateway", list});
        EXPECT_EQ(listed.status, 0) << listed.output;
        EXPECT_TRUE(has(listed.output, "that did not answer: all others")) << listed.output;
    }
    const CommandResult here = stop(one, session_in(1));
    EXPECT_EQ(here.status, 0) << here.output;
    EXPECT_TRUE(has(in_b.get().body, "stopped"));
    EXPECT_EQ(model.count("b"), 1u);
    allow(0, true);
    wait_until_sound(one);
}

TEST_F(ThreeDatabases, D258_PartOfName_IsRefusedDuringOutage) {
    record();
    joint_tests::TaskModel tasks;
    GatewayProcess gateway(one, tasks.flags());
    const std::uint16_t port = gateway.wait_until_running();
    const std::string session = session_in(0);
    const HttpReply asked = run(
        post_message(port, {{"text", "write new.txt"}, {"session", session}, {"user", "olga"}}));
    const std::string name(
        asked.json().at("outputs").at(0).at("question").at("request_id").as_string());
    allow(1, false);
    for (const std::string& part : {name.substr(0, 8), name.substr(0, name.size() - 1)}) {
        const CommandResult refused = run_command(one, {"inbox", "--gateway", "approve", part});
        EXPECT_NE(refused.status, 0);
        EXPECT_TRUE(has(refused.output, "'b', which cannot be used")) << refused.output;
    }
    const CommandResult answered = run_command(one, {"inbox", "--gateway", "approve", name});
    EXPECT_EQ(answered.status, 0) << answered.output;
    allow(1, true);
    wait_until_sound(one);
}

TEST_F(ThreeDatabases, D266_KeyWithoutSession_IsOneMessage) {
    record();
    std::uint16_t first_port = 0;
    std::uint16_t second_port = 0;
    auto first = start(one, first_port);
    const auto second = start(two, second_port);
    constexpr int keys = 6;
    // Also by a process that remembers no reply.
    for (int processes = 0; processes < 2; ++processes) {
        for (int i = 0; i < keys; ++i) {
            const std::string text = "text" + std::to_string(i);
            for (const std::uint16_t port : {first_port, second_port}) {
                const HttpReply reply = run(post_message(port, {{"text", text}}, "key-" + text));
                EXPECT_EQ(reply.text(), "re: " + text) << reply.body;
            }
            EXPECT_EQ(model.count(text), 1u);
        }
        std::size_t rows = 0;
        for (std::size_t at = 0; at < parts.size(); ++at)
            rows += std::stoul(query(at, "SELECT count(*) FROM bub_delivery_inbound").front());
        EXPECT_EQ(rows, std::size_t{keys});
        first.reset();
        first = start(one, first_port);
    }
}

TEST_F(ThreeDatabases, D255_LimitsDuringOutage_StopNoTurn) {
    record();
    configure(", time_zone: UTC, limits: {per_user: {messages: 1}}");
    std::uint16_t port = 0;
    const auto gateway = start(one, port);
    const std::string session = session_in(1);
    allow(0, false);
    for (const char* text : {"one", "two"})
        EXPECT_EQ(post_later(port, text, session).get().text(), std::string("re: ") + text);
    allow(0, true);
    wait_until_sound(one);
    // From now on messages are counted; those from before may be.
    (void)post_later(port, "three", session).get();
    const HttpReply limited = post_later(port, "four", session).get();
    EXPECT_TRUE(has(limited.body, "the limit of 1 messages a day")) << limited.body;
    EXPECT_EQ(model.count("four"), 0u);
}

TEST_F(ThreeDatabases, D258_DatabaseThatIsAway_PreventsNoStart) {
    record();
    allow(1, false);
    std::uint16_t port = 0;
    const auto gateway = start(one, port);
    EXPECT_EQ(post_later(port, "here", session_in(0)).get().text(), "re: here");
    EXPECT_EQ(post_later(port, "away", session_in(1)).get().status, 503);
    allow(1, true);
    wait_until_sound(one);
    EXPECT_EQ(post_later(port, "away", session_in(1)).get().text(), "re: away");
}

TEST_F(ThreeDatabases, D259_OtherDivision_IsRefused) {
    const auto refusal = [this] {
        GatewayProcess gateway(one, model.flags());
        EXPECT_NE(gateway.wait(), 0);
        return gateway.output();
    };
    // Without an argument they are about all of the databases.
    for (const char* command : {"init", "status", "check"}) {
        const CommandResult result = run_command(one, {"db", command});
        EXPECT_EQ(result.status, 0) << result.output;
    }
    EXPECT_TRUE(has(refusal(), "cubepi db divide"));
    record();
    record();  // without effect
    divide("0000-7fff", "8000-aaa9", "aaaa-ffff");
    const std::string other = refusal();
    EXPECT_TRUE(has(other, "is recorded as")) << other;
    EXPECT_TRUE(has(other, "cubepi db divide")) << other;
    // One of them alone.
    one.configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + parts[1].url + "\"");
    const std::string alone = refusal();
    EXPECT_TRUE(has(alone, "has a part of the sessions only")) << alone;
}

TEST_F(ThreeDatabases, D259_Divide_MovesSessionsWithTheirTapes) {
    divide("0000-ffff", "none", "none");
    record();
    std::uint16_t port = 0;
    auto gateway = start(one, port);
    const std::vector<std::string> sessions = {"s0", "s1", "s2", "s3", "s4", "s5"};
    for (const std::string& session : sessions)
        (void)post_later(port, "first " + session, session).get();
    divide("0000-5554", "5555-aaa9", "aaaa-ffff");
    const CommandResult busy = run_command(one, {"db", "divide"});
    EXPECT_NE(busy.status, 0);
    EXPECT_TRUE(has(busy.output, "1 gateways use the database 'a'")) << busy.output;
    EXPECT_EQ(run_command(one, {"gateway", "drain"}).status, 0);
    EXPECT_EQ(gateway->wait(), 0);
    const CommandResult refused = run_command(one, {"db", "divide"});
    EXPECT_NE(refused.status, 0);
    EXPECT_TRUE(has(refused.output, "cubepi db divide --move")) << refused.output;
    EXPECT_EQ(query(1, "SELECT count(*) FROM bub_tapes").front(), "0");
    const CommandResult moved = run_command(one, {"db", "divide", "--move"});
    EXPECT_EQ(moved.status, 0) << moved.output;
    gateway = start(one, port);
    const bub::DatabaseMap map = app::database_map(parts);
    std::vector<int> tapes(parts.size());
    for (const std::string& session : sessions) {
        EXPECT_EQ(post_later(port, "next " + session, session).get().text(), "re: next " + session);
        EXPECT_TRUE(has(model.wait_for("next " + session), "re: first " + session)) << session;
        ++tapes[map.of_session("http:" + session)];
    }
    for (std::size_t at = 0; at < parts.size(); ++at)
        EXPECT_EQ(query(at, "SELECT count(*) FROM bub_tapes").front(), std::to_string(tapes[at]));
}

TEST_F(ThreeDatabases, D259_InterruptedMove_IsContinued) {
    record();
    const bub::DatabaseMap before = app::database_map(parts);
    // As it is before the first tape is moved to the new places.
    divide("0000-7fff", "8000-aaa9", "aaaa-ffff");
    const bub::DatabaseMap map = app::database_map(parts);
    // Copies without a side state, as earlier versions left them: where the tape belongs, and where it was.
    for (std::size_t good = 0; good < 2; ++good) {
        const std::string session = "http:" + session_in(1, good == 0 ? "s" : "t");
        const std::string tape = "0123456789abcdef__" + detail::sha256_hex(session).substr(0, 32);
        for (std::size_t at = 0; at < 2; ++at) {
            PostgresOptions database;
            database.connection = parts[at].url;
            bub::PostgresTapeStore store(database, before.record(at));
            std::vector<bub::TapeEntry> entries(1, bub::message_entry("user", "text"));
            entries[0].date = "2026-03-01T12:00:00.000000+00:00";
            (void)run(store.append(tape, std::move(entries), bub::TapeAppend()));
            if (at != good) continue;
            (void)run(store.edit_state(tape, [](JsonObject& state) {
                state["title"] = "of the session";
                return Json();
            }));
        }
    }
    for (std::size_t at = 0; at < parts.size(); ++at) {
        PostgresOptions database;
        database.connection = parts[at].url;
        run(bub::record_division(database, "being divided as " + map.record(at)));
    }
    // Neither the division from before nor a database alone.
    const auto refusal = [this] {
        const CommandResult refused = run_command(one, {"tape", "list"});
        EXPECT_NE(refused.status, 0);
        return refused.output;
    };
    divide("0000-5554", "5555-aaa9", "aaaa-ffff");
    EXPECT_TRUE(has(refusal(), "cubepi db divide --move"));
    one.configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + parts[0].url + "\"");
    EXPECT_TRUE(has(refusal(), "cubepi db divide --move"));
    divide("0000-7fff", "8000-aaa9", "aaaa-ffff");
    EXPECT_TRUE(has(refusal(), "cubepi db divide --move"));
    const CommandResult moved = run_command(one, {"db", "divide", "--move"});
    EXPECT_EQ(moved.status, 0) << moved.output;
    EXPECT_EQ(run_command(one, {"tape", "list"}).status, 0);
    const std::string states =
        "SELECT count(*) FROM bub_tapes WHERE state::text LIKE '%of the session%'";
    EXPECT_EQ(query(0, "SELECT count(*) FROM bub_tapes").front(), "0");
    EXPECT_EQ(query(1, "SELECT count(*) FROM bub_tapes").front(), "2");
    EXPECT_EQ(query(1, states).front(), "2");
}

TEST_F(ThreeDatabases, D259_DivideThatWouldHideSessions_IsRefused) {
    record();
    const auto refusal = [this] {
        const CommandResult refused = run_command(one, {"db", "divide", "--move"});
        EXPECT_NE(refused.status, 0);
        return refused.output;
    };
    const std::vector<app::DatabasePart> before = parts;
    // One is left out.
    parts.pop_back();
    parts[0].sessions = "0000-7fff";
    parts[1].sessions = "8000-ffff";
    configure();
    const std::string without = refusal();
    EXPECT_TRUE(has(without, "has recorded that 'c' has the sessions aaaa-ffff")) << without;
    EXPECT_TRUE(has(without, "it is not configured")) << without;
    // One has another address.
    parts = before;
    parts[1].url = new_database(one);
    configure();
    const std::string empty = refusal();
    EXPECT_TRUE(has(empty, "the configured database 'b' has no record")) << empty;
    // Another one is the first.
    parts = before;
    query(
        0,
        "INSERT INTO bub_schedules (account, id, session, configured, has_problem, schedule) SELECT"
        " 'gateway', 's', 'http:s', 0, 0, '{}'");
    std::swap(parts[0], parts[1]);
    configure();
    const std::string schedules = refusal();
    EXPECT_TRUE(has(schedules, "the database 'a' has 1 schedules")) << schedules;
    parts = before;
    configure();
    const CommandResult same = run_command(one, {"db", "divide"});
    EXPECT_EQ(same.status, 0) << same.output;
    EXPECT_TRUE(has(same.output, "already")) << same.output;
}

/// A turn whose session a hook has chosen.
TEST_F(ThreeDatabases, D258_HookThatMapsToAnotherDatabase_IsRefused) {
    record();
    std::vector<std::shared_ptr<bub::SessionTapeStore>> stores;
    const bub::DatabaseMap map = app::database_map(parts);
    for (std::size_t at = 0; at < parts.size(); ++at) {
        PostgresOptions database;
        database.connection = parts[at].url;
        stores.push_back(std::make_shared<bub::PostgresTapeStore>(database, map.record(at)));
    }
    const auto tapes = std::make_shared<bub::DividedTapeStore>(map, stores);
    app::DeliveryLocation place;
    place.databases = parts;
    place.account = "gateway";
    const auto log = run(app::open_deliveries(place, [](const std::string&) {}));
    bub::FrameworkOptions options;
    options.workspace = one.path();
    bub::Framework framework(std::move(options));
    std::string chosen;
    bub::Plugin plugin;
    plugin.name = "test";
    plugin.provide_tape_store = [tapes](bub::ProvideCall&) {
        return std::shared_ptr<bub::TapeStore>(tapes);
    };
    plugin.resolve_session = [&chosen](bub::ResolveSessionCall&) {
        return std::optional<std::string>(chosen);
    };
    plugin.run_model = [](bub::RunModelCall&) { return std::optional<std::string>("answer"); };
    framework.add(std::move(plugin));
    framework.add(app::gateway_sessions(framework, app::GatewaySettings(), log));
    const auto problem_of = [&](const std::string& chat, const std::string& session) {
        chosen = session;
        bub::Envelope message = bub::Envelope("hi").on("http", chat);
        message.receipts.push_back(run(log->receive(message)).value());
        try {
            (void)run(framework.process_inbound(std::move(message)));
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const std::string here = session_in(1);
    EXPECT_EQ(problem_of(here, "http:" + session_in(1, "other")), "");
    const std::string elsewhere = "http:" + session_in(2);
    const std::string problem = problem_of(here, elsewhere);
    EXPECT_TRUE(has(problem, "the database 'b' to the session '" + elsewhere)) << problem;
    EXPECT_EQ(query(2, "SELECT count(*) FROM bub_tapes").front(), "0");
    run(log->release());
}

}  // namespace
}  // namespace cubepi::gateway_tests
