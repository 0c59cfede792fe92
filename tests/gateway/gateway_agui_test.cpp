// AG-UI at the channel http (D239), responses over a WebSocket (D243), and requests of both that are repeated (D262, D283).

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket.hpp>

#include "echo_model.hpp"
#include "openai_gateway.hpp"
#include "two_gateways.hpp"

namespace cubepi::gateway_tests {
namespace {

JsonObject input(const std::string& thread, const std::string& run, const std::string& text) {
    JsonObject message{{"id", "m"}, {"role", "user"}, {"content", text}};
    return {{"threadId", thread}, {"runId", run}, {"messages", JsonArray{std::move(message)}}};
}

/// Returns the text of the messages of a run.
std::string text_in(const std::vector<JsonObject>& events) {
    std::string text;
    for (const JsonObject& event : events)
        if (event.at("type") == Json("TEXT_MESSAGE_CONTENT"))
            text += std::string_view(event.at("delta").as_string());
    return text;
}

class GatewayAgui : public OpenAIGateway {
protected:
    void start_with(const std::string& http, std::vector<std::string> environment = {}) {
        home.configure(R"({http: {listen: "127.0.0.1:0", ag_ui: true, operators: [olga], )" + http +
                       "}}");
        start(model.flags(), std::move(environment));
    }
    std::vector<JsonObject> run_agent(const JsonObject& body, const std::string& token = {}) {
        const std::string text = boost::json::serialize(body);
        const HttpReply reply = token.empty()
                                    ? run(call_channel(port, "POST", "/v1/ag-ui", text))
                                    : run(call_with_token(port, "POST", "/v1/ag-ui", token, text));
        EXPECT_EQ(reply.status, 200) << reply.body;
        return events_of(reply.body);
    }

    EchoModel model;
};

TEST_F(GatewayAgui, D239_RepeatedRun_IsOneMessage) {
    start_with("openai: true");
    const std::vector<JsonObject> first = run_agent(input("t1", "r1", "one"));
    EXPECT_EQ(text_in(first), "re: one");
    EXPECT_EQ(first.back().at("outcome").at("type"), Json("success"));
    EXPECT_EQ(run_agent(input("t1", "r1", "one")), first);
    EXPECT_EQ(model.count("one"), 1U);
    // The same id with another message is not the same run, and the session has the first one.
    const HttpReply other = call("POST", "/v1/ag-ui", input("t1", "r1", "two"));
    EXPECT_EQ(other.status, 422) << other.body;
    EXPECT_EQ(text_in(run_agent(input("t1", "r2", "three"))), "re: three");
    EXPECT_NE(model.wait_for("three").find("re: one"), std::string::npos);
    wait_until([&] { return session_state("t1") == "idle"; });
}

TEST_F(GatewayAgui, D239_RepeatedResume_JoinsItsRun) {
    model.hold("run echo one");
    start_with("openai: true");
    JsonObject asked = input("t1", "r1", "run echo one");
    asked["forwardedProps"] = JsonObject{{"user", "olga"}};
    const std::vector<JsonObject> first = run_agent(asked);
    const JsonObject outcome = first.back().at("outcome").as_object();
    ASSERT_EQ(outcome.at("type"), Json("interrupt"));
    EXPECT_EQ(run_agent(asked), first);
    JsonObject resume = asked;
    resume["runId"] = "r2";
    resume["messages"] = JsonArray();
    const Json approval = JsonObject{{"interruptId", outcome.at("interrupts").at(0).at("id")},
                                     {"status", "resolved"},
                                     {"payload", JsonObject{{"approved", true}}}};
    resume["resume"] = JsonArray({approval});
    const std::string body = boost::json::serialize(resume);
    Client client(port, "POST /v1/ag-ui", body);
    client.read_until("RUN_STARTED");
    model.wait_for("run echo one", 2);
    Client again(port, "POST /v1/ag-ui", body);
    again.read_until("RUN_STARTED");
    JsonObject other = resume;
    other["state"] = JsonObject{{"x", 1}};
    EXPECT_EQ(call("POST", "/v1/ag-ui", other).status, 422);
    model.release();
    client.read_until("RUN_FINISHED");
    again.read_until("RUN_FINISHED");
    EXPECT_EQ(text_in(run_agent(resume)), "re: run echo one");
    JsonObject open = asked;
    open["threadId"] = "t2";
    EXPECT_EQ(run_agent(open).back().at("outcome").at("type"), Json("interrupt"));
    // The records have the answers of runs of an earlier process.
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0);
    start(model.flags());
    const std::vector<JsonObject> known = run_agent(resume);
    EXPECT_EQ(text_in(known), "re: run echo one");
    EXPECT_EQ(known.back().at("outcome").at("type"), Json("success"));
    EXPECT_EQ(run_agent(open).back().at("outcome").at("type"), Json("interrupt"));
    EXPECT_EQ(run_agent(asked).back().at("outcome").at("type"), Json("success"));
    // The records answer the run that they have, and no other one with its id.
    JsonObject changed = asked;
    changed["messages"].at(0).as_object()["content"] = "run echo two";
    EXPECT_EQ(call("POST", "/v1/ag-ui", changed).status, 422);
    JsonObject denied = resume;
    denied["resume"].at(0).at("payload").as_object()["approved"] = false;
    EXPECT_EQ(call("POST", "/v1/ag-ui", denied).status, 422);
    EXPECT_EQ(model.count("run echo one"), 3U);
}

TEST_F(GatewayAgui, D217_Key_ReachesItsThreadsOnly) {
    start_with(R"(keys: ["ann=ANN_TOKEN", "bob=BOB_TOKEN"])",
               {"ANN_TOKEN=token-of-ann-0123456789", "BOB_TOKEN=token-of-bob-0123456789"});
    const std::string ann = "token-of-ann-0123456789";
    const std::string bob = "token-of-bob-0123456789";
    EXPECT_EQ(text_in(run_agent(input("t", "r", "one"), ann)), "re: one");
    // The same ids are another thread and another run for another key.
    EXPECT_EQ(text_in(run_agent(input("t", "r", "two"), bob)), "re: two");
    EXPECT_EQ(model.wait_for("two").find("re: one"), std::string::npos);
    JsonObject forged = input("ann:t", "r2", "three");
    forged["forwardedProps"] = JsonObject{{"user", "olga"}};
    EXPECT_EQ(text_in(run_agent(forged, bob)), "re: three");
    EXPECT_EQ(model.wait_for("three").find("re: one"), std::string::npos);
    wait_until([&] { return session_state("bob:ann:t") == "idle"; });
    // The protocol was not enabled.
    EXPECT_EQ(get("/v1/models").status, 404);
    const std::string sub = boost::json::serialize(input("t/agent/x", "r", "four"));
    EXPECT_EQ(run(call_with_token(port, "POST", "/v1/ag-ui", ann, sub)).status, 400);
}

TEST_F(GatewayAgui, D194_DisconnectedClient_EndsItsTurn) {
    model.hold("slow");
    start_with("openai: true");
    Client client(port, "POST /v1/ag-ui", boost::json::serialize(input("t1", "r1", "slow")));
    client.read_until("RUN_STARTED");
    model.wait_for("slow");
    client.close();
    wait_until([&] { return session_state("t1") == "idle"; });
    model.release();
}

class Socket {
public:
    explicit Socket(std::uint16_t port, const std::string& token = "0123456789abcdef")
        : socket_(io_) {
        namespace beast = boost::beast;
        socket_.next_layer().connect({boost::asio::ip::make_address("127.0.0.1"), port});
        socket_.set_option(beast::websocket::stream_base::decorator(
            [token](beast::websocket::request_type& request) {
                request.set(beast::http::field::authorization, "Bearer " + token);
            }));
        boost::beast::error_code failed;
        socket_.handshake("localhost", "/v1/responses", failed);
        is_open = !failed;
    }
    void create(JsonObject body) {
        body["type"] = "response.create";
        body["model"] = "cubepi";
        socket_.write(boost::asio::buffer(boost::json::serialize(body)));
    }
    JsonObject receive() {
        std::string text;
        auto buffer = boost::asio::dynamic_buffer(text);
        socket_.read(buffer);
        return boost::json::parse(text).as_object();
    }
    /// Returns the first event of this type.
    JsonObject receive(std::string_view type) {
        for (JsonObject event = receive();; event = receive())
            if (event.at("type") == Json(type)) return event;
    }
    void cut() { socket_.next_layer().close(); }

    bool is_open = false;

private:
    boost::asio::io_context io_;
    boost::beast::websocket::stream<boost::asio::ip::tcp::socket> socket_;
};

TEST_F(GatewayAgui, D243_WebSocket_AnswersInOrderUntilItsEnd) {
    model.hold("slow");
    start_with("openai: true");
    EXPECT_FALSE(Socket(port, "another-token-of-16").is_open);
    Socket socket(port);
    ASSERT_TRUE(socket.is_open);
    socket.create({{"input", "one"}});
    socket.create({{"input", "two"}});
    EXPECT_EQ(text_of(socket.receive("response.completed").at("response").as_object()), "re: one");
    EXPECT_EQ(text_of(socket.receive("response.completed").at("response").as_object()), "re: two");
    const JsonObject named{{"session", "s1"}};
    socket.create({{"input", "slow"}, {"metadata", named}});
    (void)socket.receive("response.in_progress");
    model.wait_for("slow");
    socket.cut();
    wait_until([&] { return session_state("s1") == "idle"; });
    model.release();
    // One that waits does not delay the end of the gateway.
    Socket idle(port);
    idle.create({{"input", "three"}});
    (void)idle.receive("response.completed");
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0);
}

TEST_F(GatewayAgui, D243_WaitingMessages_EndWithTheirClient) {
    model.hold("slow");
    start_with("openai: true");
    Socket socket(port);
    socket.create({{"input", "slow"}, {"metadata", JsonObject{{"session", "s1"}}}});
    socket.create({{"input", "next"}});
    model.wait_for("slow");
    socket.cut();
    wait_until([&] { return session_state("s1") == "idle"; });
    model.release();
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0);
    EXPECT_EQ(model.count("next"), 0U);
}

TEST_F(GatewayAgui, D243_IdleWebSocket_EndsAfterAnHour) {
    start_with("openai: true", {"CUBEPI_TEST_CLOCK=2000"});
    Socket socket(port);
    ASSERT_TRUE(socket.is_open);
    EXPECT_EQ(socket.receive("error").at("error").at("code"),
              Json("websocket_connection_limit_reached"));
}

TEST_F(GatewayAgui, D243_SocketsOfAKey_LeaveSomeForOthers) {
    start_with(R"(openai: true, keys: ["ann=ANN_TOKEN"])", {"ANN_TOKEN=token-of-ann-0123456789"});
    const std::string ann = "token-of-ann-0123456789";
    std::vector<std::unique_ptr<Socket>> sockets;
    for (int i = 0; i < 16; ++i) {
        sockets.push_back(std::make_unique<Socket>(port, ann));
        EXPECT_TRUE(sockets.back()->is_open);
    }
    EXPECT_FALSE(Socket(port, ann).is_open);
    EXPECT_TRUE(Socket(port).is_open);
    sockets.pop_back();
    wait_until([&] { return Socket(port, ann).is_open; });
}

TEST_F(GatewayAgui, D283_KeyOnWebSocket_NamesItsMessage) {
    start_with("openai: true");
    const auto answer = [this](JsonObject body) {
        Socket socket(port);
        body["idempotency_key"] = "k";
        socket.create(std::move(body));
        return text_of(socket.receive("response.completed").at("response").as_object());
    };
    EXPECT_EQ(answer({{"input", "one"}}), "re: one");
    Socket socket(port);
    // A key is that of one message, not of those that follow on the connection.
    socket.create({{"input", "first"}, {"idempotency_key", "f"}, {"store", false}});
    const JsonObject first = socket.receive("response.completed").at("response").as_object();
    EXPECT_EQ(text_of(first), "re: first");
    socket.create({{"input", "two"}, {"store", false}, {"previous_response_id", first.at("id")}});
    (void)socket.receive("response.completed");
    EXPECT_NE(model.wait_for("two").find("re: first"), std::string::npos);
    for (const Json& wrong : {Json(7), Json(JsonArray())}) {
        socket.create({{"input", "three"}, {"idempotency_key", wrong}});
        EXPECT_EQ(socket.receive("error").at("status"), Json(400));
    }
    socket.create({{"input", "three"}, {"idempotency_key", "k"}});
    EXPECT_EQ(socket.receive("error").at("status"), Json(422));
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0);
    start(model.flags());
    EXPECT_EQ(answer({{"input", "one"}}), "re: one");
    EXPECT_EQ(model.count("one"), 1U);
    EXPECT_EQ(model.count("three"), 0U);
}

/// Requests that are repeated at the same gateway, at another one, and after a restart.
class RepeatedRequest : public TwoGateways {
protected:
    RepeatedRequest() {
        for (const GatewayHome* home : {&one, &two})
            home->configure(
                "{http: {listen: \"127.0.0.1:0\", openai: true, ag_ui: true}}\ndatabase: \"" +
                database + "\"");
        start_first();
        start_second();
    }
    void restart_first() {
        first->send(SIGTERM);
        EXPECT_EQ(first->wait(), 0);
        start_first();
    }
    static std::vector<JsonObject> run_agent(std::uint16_t at, const std::string& text) {
        const std::string body = boost::json::serialize(input("t1", "r1", text));
        const HttpReply reply = run(call_channel(at, "POST", "/v1/ag-ui", body));
        const std::vector<JsonObject> events = events_of(reply.body);
        if (events.empty()) throw std::runtime_error(reply.body);
        return events;
    }
    static void ask(Socket& socket, const std::string& text) {
        socket.create({{"input", text}, {"idempotency_key", "k"}});
    }
    static std::string answer_of(Socket& socket) {
        return text_of(socket.receive("response.completed").at("response").as_object());
    }
    static std::string respond(std::uint16_t at, const std::string& text) {
        Socket socket(at);
        ask(socket, text);
        return answer_of(socket);
    }
};

TEST_F(RepeatedRequest, D262_EndedRun_HasItsReplyEverywhere) {
    for (const std::uint16_t at : {port, port, second_port, second_port})
        EXPECT_EQ(text_in(run_agent(at, "one")), "re: one");
    restart_first();
    for (const std::uint16_t at : {port, second_port}) {
        const std::vector<JsonObject> events = run_agent(at, "one");
        EXPECT_EQ(text_in(events), "re: one");
        EXPECT_EQ(events.back().at("outcome").at("type"), Json("success"));
    }
    EXPECT_EQ(model.count("one"), 1U);
}

TEST_F(RepeatedRequest, D262_RunInProgress_IsJoinedEverywhere) {
    model.hold("slow");
    const std::string body = boost::json::serialize(input("t1", "r1", "slow"));
    Client begun(port, "POST /v1/ag-ui", body);
    (void)model.wait_for("slow");
    Client here(port, "POST /v1/ag-ui", body);
    here.read_until("RUN_STARTED");
    Client there(second_port, "POST /v1/ag-ui", body);
    there.read_until("\r\n\r\n");
    // Those that joined do not end the run when the first client leaves.
    begun.close();
    model.release();
    for (Client* const client : {&here, &there}) {
        client->read_until("RUN_FINISHED");
        EXPECT_NE(client->text().find("re: slow"), std::string::npos) << client->text();
    }
    EXPECT_EQ(model.count("slow"), 1U);
}

TEST_F(RepeatedRequest, D262_AskingRun_AsksOnce) {
    std::vector<std::uint16_t> ports = {port, second_port};
    for (const std::uint16_t at : ports)
        EXPECT_EQ(run_agent(at, "run true").back().at("outcome").at("type"), Json("interrupt"));
    restart_first();
    const std::vector<JsonObject> events = run_agent(port, "run true");
    EXPECT_EQ(events.back().at("outcome").at("type"), Json("interrupt"));
    EXPECT_EQ(model.count("run true"), 1U);
}

TEST_F(RepeatedRequest, D283_EndedResponse_HasItsReplyEverywhere) {
    for (const std::uint16_t at : {port, port, second_port, second_port})
        EXPECT_EQ(respond(at, "one"), "re: one");
    restart_first();
    for (const std::uint16_t at : {port, second_port}) EXPECT_EQ(respond(at, "one"), "re: one");
    EXPECT_EQ(model.count("one"), 1U);
}

TEST_F(RepeatedRequest, D283_ResponseInProgress_IsJoinedEverywhere) {
    model.hold("slow");
    Socket begun(port);
    ask(begun, "slow");
    (void)model.wait_for("slow");
    Socket here(port);
    Socket there(second_port);
    for (Socket* const socket : {&here, &there}) {
        ask(*socket, "slow");
        (void)socket->receive("response.in_progress");
    }
    begun.cut();
    model.release();
    for (Socket* const socket : {&here, &there}) EXPECT_EQ(answer_of(*socket), "re: slow");
    EXPECT_EQ(model.count("slow"), 1U);
}

}  // namespace
}  // namespace cubepi::gateway_tests
