// Clients that leave before the answers to their messages, which another gateway may process or another client wait for (D215, D253).

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/database_map.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "openai_gateway.hpp"
#include "two_gateways.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

constexpr const char* unfinished = "bub_delivery_inbound WHERE finished_at IS NULL";
const std::vector<std::string> interfaces = {"chat/completions", "responses", "ag-ui", "mcp"};

class LeavingClients : public TwoGateways {
protected:
    LeavingClients() {
        for (const GatewayHome* home : {&one, &two})
            home->configure(
                "{http: {listen: \"127.0.0.1:0\", openai: true, ag_ui: true, mcp: true}}\n"
                "database: \"" +
                database + "\"");
        start_first();
        start_second();
    }
    /// Sends a message through an interface, to a session that has the same name at each of them.
    static Client ask(std::uint16_t at, const std::string& interface, const std::string& text,
                      const std::string& session = "s1", const std::string& key = {},
                      JsonObject more = {}) {
        std::string headers = key.empty() ? std::string() : "Idempotency-Key: " + key + "\r\n";
        JsonObject& body = more;
        if (interface == "mcp") {
            body = mcp_call(text, session);
            headers +=
                "Host: 127.0.0.1\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: "
                "tools/call\r\nMcp-Name: "
                "send_message\r\nContent-Type: application/json\r\n";
        } else if (interface == "ag-ui") {
            body = {{"threadId", session},
                    {"runId", "run " + text},
                    {"state", JsonObject()},
                    {"messages", {{{"id", "m"}, {"role", "user"}, {"content", text}}}},
                    {"tools", JsonArray()},
                    {"context", JsonArray()},
                    {"forwardedProps", JsonObject()}};
        } else {
            body["model"] = "cubepi";
            body["metadata"] = JsonObject{{"session", session}};
            if (interface == "responses") body["input"] = text;
            if (interface != "responses") body["messages"] = user(text);
        }
        const std::string path = interface == "mcp" ? "/mcp" : "/v1/" + interface;
        return Client(at, "POST " + path, boost::json::serialize(body),
                      headers + "Connection: close\r\n");
    }
    static JsonObject mcp_call(const std::string& text, const std::string& session) {
        const JsonObject meta{{"io.modelcontextprotocol/protocolVersion", "2026-07-28"},
                              {"io.modelcontextprotocol/clientCapabilities", JsonObject()}};
        const JsonObject arguments{{"text", text}, {"session", session}};
        return {{"jsonrpc", "2.0"},
                {"id", 1},
                {"method", "tools/call"},
                {"params", {{"name", "send_message"}, {"arguments", arguments}, {"_meta", meta}}}};
    }
    /// Returns the status of a response when it has ended.
    std::string wait_for_response(const std::string& id) const {
        std::string status;
        wait_until([&] {
            const HttpReply read = run(call_channel(port, "GET", "/v1/responses/" + id));
            status = detail::text_member(read.json(), "status");
            return status != "in_progress" && status != "queued";
        });
        return status;
    }
    void wait_for_count(const std::string& rows, std::size_t count) const {
        RawPostgres server(database);
        wait_until([&] {
            return server.query("SELECT count(*) FROM " + rows).front() == std::to_string(count);
        });
    }
    /// Begins a turn of the session s1 at the first gateway, which has the session until it ends.
    std::future<HttpReply> begin_turn(const std::string& text = "a") {
        model.hold(text);
        auto running = post_later(port, text);
        (void)model.wait_for(text);
        return running;
    }
    /// Waits until a gateway has ended the turn of a client that left it after all others.
    void wait_for_later_end(std::uint16_t at) {
        model.hold("later");
        Client later = ask(at, "responses", "later", "other");
        (void)model.wait_for("later");
        later.leave();
        wait_until([at] {
            return run(call_channel(at, "GET", "/v1/sessions/other")).json().at("state") == "idle";
        });
    }
};

TEST_F(LeavingClients, D253_MessageThatWaitsElsewhere_IsTakenBack) {
    auto running = begin_turn();
    for (const std::string& interface : interfaces) {
        Client client = ask(second_port, interface, interface);
        wait_for_count(unfinished, 2);
        client.leave();
        wait_for_count(unfinished, 1);
    }
    model.release();
    EXPECT_EQ(running.get().text(), "re: a");
    EXPECT_EQ(post(second_port, "c").text(), "re: c");
    for (const std::string& interface : interfaces) EXPECT_EQ(model.count(interface), 0u);
}

TEST_F(LeavingClients, D253_TurnElsewhere_EndsWithItsClient) {
    for (const std::string& interface : interfaces) {
        model.hold(interface);
        const std::string before = "before " + interface;
        auto running = begin_turn(before);
        Client client = ask(second_port, interface, interface);
        auto later = post_later(second_port, "after " + interface);
        // The first gateway has taken them.
        wait_for_count(std::string(unfinished) + " AND owner > 0", 3);
        model.release(before);
        (void)model.wait_for(interface);
        client.leave();
        EXPECT_EQ(later.get().text(), "re: after " + interface);
        EXPECT_EQ(running.get().text(), "re: " + before);
        EXPECT_EQ(model.count(interface), 1u);
        wait_for_count(unfinished, 0);
    }
}

TEST_F(LeavingClients, D253_MessageOnItsWay_IsTakenBack) {
    auto running = begin_turn();
    for (const std::string& interface : interfaces) {
        first->send(SIGSTOP);
        Client client = ask(second_port, interface, interface);
        wait_for_count(unfinished, 2);
        client.leave();
        if (interface == "responses") {
            EXPECT_NE(client.body().find("the client has closed the connection"),
                      std::string::npos);
        }
        first->send(SIGCONT);
        wait_for_count(unfinished, 1);
    }
    model.release();
    EXPECT_EQ(running.get().text(), "re: a");
    for (const std::string& interface : interfaces) EXPECT_EQ(model.count(interface), 0u);
}

TEST_F(LeavingClients, D215_SecondRequestOnItsWay_IsAnswered) {
    model.hold("a");
    Client left = ask(port, "responses", "a", "s1", "k");
    (void)model.wait_for("a");
    RawPostgres lock(database);
    (void)lock.query("BEGIN");
    (void)lock.query("LOCK TABLE bub_delivery_inbound IN ACCESS EXCLUSIVE MODE");
    Client second = ask(port, "responses", "a", "s1", "k");
    RawPostgres server(database);
    wait_until([&] {
        return server
                   .query(
                       "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND"
                       " query LIKE '%coalesce(message, address)%' AND pid <> pg_backend_pid()")
                   .front() != "0";
    });
    left.leave();
    EXPECT_NE(left.body().find("the client has closed the connection"), std::string::npos);
    (void)lock.query("COMMIT");
    wait_for_later_end(port);
    model.release();
    const std::string answer = second.body();
    EXPECT_NE(answer.find("re: a"), std::string::npos) << answer;
    EXPECT_EQ(model.count("a"), 1u);
}

TEST_F(LeavingClients, D215_TurnWithReaderElsewhere_Continues) {
    for (const std::uint16_t at : {port, second_port}) {
        const std::string text = "text for " + std::to_string(at);
        const std::string session = "s" + std::to_string(at);
        model.hold(text);
        Client left = ask(at, "responses", text, session, text, {{"stream", true}});
        (void)model.wait_for(text);
        Client other = ask(at == port ? second_port : port, "responses", text, session, text,
                           {{"stream", true}});
        other.read_until("response.in_progress");
        left.leave();
        wait_for_later_end(at);
        model.release(text);
        other.read_until("response.completed");
        EXPECT_NE(other.text().find("re: " + text), std::string::npos) << other.text();
        EXPECT_EQ(model.count(text), 1u);
    }
}

TEST_F(LeavingClients, D215_FrozenGatewayOfAReader_EndsNoTurn) {
    // The first gateway waits for answers of the other one for half a second.
    first->kill();
    start_first({"CUBEPI_TEST_CLOCK=10"});
    model.hold("a");
    Client here = ask(port, "responses", "a", "s1", "k", {{"stream", true}});
    (void)model.wait_for("a");
    Client there = ask(second_port, "responses", "a", "s1", "k", {{"stream", true}});
    there.read_until("response.in_progress");
    second->send(SIGSTOP);
    RawPostgres server(database);
    const auto question = [&] {
        return server.query(
            "SELECT coalesce(max(id), 0) FROM bub_delivery_calls WHERE request LIKE '%readers%'");
    };
    here.leave();
    std::string asked;
    wait_until([&] { return (asked = question().front()) != "0"; });
    wait_until([&] { return question().front() != asked; });
    second->send(SIGCONT);
    wait_for_later_end(port);
    model.release("a");
    there.read_until("response.completed");
    EXPECT_NE(there.text().find("re: a"), std::string::npos) << there.text();
    EXPECT_EQ(model.count("a"), 1u);
}

TEST_F(LeavingClients, D215_LastReaderElsewhere_EndsTheTurn) {
    model.hold("a");
    Client here = ask(port, "responses", "a", "s1", "k", {{"stream", true}});
    (void)model.wait_for("a");
    Client there = ask(second_port, "responses", "a", "s1", "k", {{"stream", true}});
    there.read_until("response.in_progress");
    here.leave();
    there.leave();
    wait_for_count(unfinished, 0);
    wait_until_idle(one);
    EXPECT_EQ(model.count("a"), 1u);
}

TEST_F(LeavingClients, D215_LastReaderOfStreamElsewhere_EndsTheTurn) {
    model.hold("a");
    Client here = ask(port, "responses", "a", "s1", "k", {{"stream", true}});
    here.read_until("response.in_progress");
    const std::string created = here.text().substr(0, here.text().find("\n\n"));
    const std::string id(events_of(created + "\n").at(0).at("response").at("id").as_string());
    (void)model.wait_for("a");
    Client there(second_port, "GET /v1/responses/" + id + "?stream=true", "",
                 "Connection: close\r\n");
    there.read_until("response.in_progress");
    here.leave();
    wait_for_later_end(port);
    model.release("later");
    wait_for_count(unfinished, 1);
    there.leave();
    wait_for_count(unfinished, 0);
    wait_until_idle(one);
    EXPECT_EQ(model.count("a"), 1u);
}

TEST_F(LeavingClients, D215_BackgroundResponse_ContinuesWithoutJoinedClients) {
    model.hold("a");
    Client created = ask(port, "responses", "a", "s1", "k", {{"background", true}});
    const Json response = boost::json::parse(created.body());
    (void)model.wait_for("a");
    for (const std::uint16_t at : {port, second_port}) {
        Client joined = ask(at, "responses", "a", "s1", "k", {{"stream", true}});
        joined.read_until("response.in_progress");
        joined.leave();
        wait_for_later_end(at);
        model.release("later");
        wait_for_count(unfinished, 1);
    }
    model.release();
    EXPECT_EQ(wait_for_response(std::string(response.at("id").as_string())), "completed");
}

TEST_F(LeavingClients, D215_BackgroundResponseAfterRestart_ContinuesWithoutJoinedClients) {
    model.hold("a");
    Client created = ask(port, "responses", "a", "s1", "k", {{"background", true}});
    const Json response = boost::json::parse(created.body());
    (void)model.wait_for("a");
    first->kill();
    start_first();
    (void)model.wait_for("a", 2);
    for (const std::uint16_t at : {port, second_port}) {
        Client joined = ask(at, "responses", "a", "s1", "k", {{"stream", true}});
        joined.read_until("response.in_progress");
        joined.leave();
        wait_for_later_end(at);
        model.release("later");
        wait_for_count(unfinished, 1);
    }
    model.release();
    EXPECT_EQ(wait_for_response(std::string(response.at("id").as_string())), "completed");
    EXPECT_EQ(model.count("a"), 2u);
}

/// The same gateways, whose sessions are divided among two databases.
class LeavingClientsOfTwo : public LeavingClients {
protected:
    LeavingClientsOfTwo() {
        first->kill();
        second->kill();
        std::string text =
            "{http: {listen: \"127.0.0.1:0\", openai: true, ag_ui: true, mcp: true}}";
        text += "\ndatabases:\n";
        for (const bub::DatabaseShare& share : shares) {
            urls.push_back(new_database(one));
            text += "  - {name: " + share.name + ", url: \"" + urls.back() + "\", sessions: \"" +
                    share.ranges + "\"}\n";
        }
        for (const GatewayHome* home : {&one, &two}) home->configure(text);
        const CommandResult divided = run_command(one, {"db", "divide"});
        EXPECT_EQ(divided.status, 0) << divided.output;
        start_first();
        start_second();
    }
    std::string session_in(std::size_t at) const {
        const bub::DatabaseMap map(shares);
        for (int i = 0;; ++i) {
            std::string session = "s" + std::to_string(i);
            if (map.of_session("http:" + session) == at) return session;
        }
    }
    /// Waits until the database has so many unfinished messages, of which a gateway has `owned`.
    void wait_for_open(std::size_t at, const std::string& count, const std::string& owned) const {
        RawPostgres server(urls[at]);
        const std::string open = std::string(" FROM ") + unfinished;
        wait_until([&] {
            return server.query("SELECT count(*)" + open).front() == count &&
                   server.query("SELECT count(*)" + open + " AND owner > 0").front() == owned;
        });
    }
    void allow(std::size_t at, bool allowed) const {
        RawPostgres server(urls[1 - at]);
        const std::string name = urls[at].substr(urls[at].rfind('/') + 1);
        (void)server.query("ALTER DATABASE " + name + " ALLOW_CONNECTIONS " +
                           (allowed ? "true" : "false"));
        if (!allowed)
            (void)server.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name +
                "'");
    }

    const std::vector<bub::DatabaseShare> shares = {{"a", "0000-7fff"}, {"b", "8000-ffff"}};
    std::vector<std::string> urls;
};

TEST_F(LeavingClientsOfTwo, D258_ClientsElsewhere_LeaveInEachDatabase) {
    for (std::size_t at = 0; at < urls.size(); ++at) {
        const std::string session = session_in(at);
        const std::string text = "before " + std::to_string(at);
        model.hold(text);
        auto running = post_later(port, text, session);
        (void)model.wait_for(text);
        for (const std::string& interface : interfaces) {
            Client waiting = ask(second_port, interface, "waiting " + interface, session);
            wait_for_open(at, "2", "2");
            waiting.leave();
            wait_for_open(at, "1", "1");
        }
        const std::string asked = "turn " + std::to_string(at);
        model.hold(asked);
        Client client = ask(second_port, "responses", asked, session);
        wait_for_open(at, "2", "2");
        model.release(text);
        EXPECT_EQ(running.get().text(), "re: " + text);
        (void)model.wait_for(asked);
        client.leave();
        wait_for_open(at, "0", "0");
        wait_until_idle(one);
    }
    for (const std::string& interface : interfaces)
        EXPECT_EQ(model.count("waiting " + interface), 0u);
}

/// Gateways ask each other through the first database.
TEST_F(LeavingClientsOfTwo, D258_LeftDuringOutage_TurnEndsAfterIt) {
    model.hold("before");
    const std::string session = session_in(1);
    auto running = post_later(port, "before", session);
    (void)model.wait_for("before");
    model.hold("asked");
    Client client = ask(second_port, "responses", "asked", session);
    wait_for_open(1, "2", "2");
    model.release("before");
    EXPECT_EQ(running.get().text(), "re: before");
    (void)model.wait_for("asked");
    allow(0, false);
    client.leave();
    (void)second->wait_for("delivery.database_failed");
    EXPECT_EQ(RawPostgres(urls[1]).query(std::string("SELECT count(*) FROM ") + unfinished).front(),
              "1");
    allow(0, true);
    wait_for_open(1, "0", "0");
    EXPECT_EQ(model.count("asked"), 1u);
}

}  // namespace
}  // namespace cubepi::gateway_tests
