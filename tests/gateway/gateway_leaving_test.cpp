// Clients that leave before the answers to their messages, which another gateway may process or another client wait for (D215, D253).

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <string>
#include <utility>
#include <vector>

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
    const std::string path = "/v1/responses/" + std::string(response.at("id").as_string());
    const auto status = [&] {
        return detail::text_member(run(call_channel(port, "GET", path)).json(), "status");
    };
    wait_until([&] { return status() != "in_progress"; });
    EXPECT_EQ(status(), "completed");
}

}  // namespace
}  // namespace cubepi::gateway_tests
