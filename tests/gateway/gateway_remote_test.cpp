// Requests about a turn at another gateway than the one that runs it (D253, D254).

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/core/support/json_member.hpp>

#include "fake_bot_server.hpp"
#include "openai_gateway.hpp"
#include "two_gateways.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

/// The last chunk of a response.
constexpr const char* end_of_stream = "\r\n0\r\n\r\n";
constexpr const char* stopped = "The turn was stopped.";
constexpr const char* refused =
    "only the user whose message is being processed, or an operator, may stop it";
constexpr const char* nothing_runs =
    "No turn of this session is running here, and no question waits for an answer.";

/// Waits until the gateway runs. Returns the ports of its parts, which listen at addresses of their own.
std::map<std::string, std::uint16_t> ports_of(GatewayProcess& gateway) {
    (void)gateway.wait_for("gateway.running");
    std::map<std::string, std::uint16_t> ports;
    std::istringstream lines(gateway.output());
    for (std::string line; std::getline(lines, line);) {
        boost::system::error_code failed;
        const Json record = boost::json::parse(line, failed);
        if (failed || !record.is_object()) continue;
        const JsonObject& object = record.get_object();
        if (detail::text_member(object, "event") == "http_server.listening")
            ports[detail::text_member(object, "name")] =
                object.at("port").to_number<std::uint16_t>();
    }
    return ports;
}

class RemoteTurn : public TwoGateways {
protected:
    /// Asks a gateway to stop the turn of the session s1; an empty user is the program that has the token.
    static HttpReply stop(std::uint16_t at, const std::string& key, const std::string& user = {}) {
        if (user.empty()) return run(call_channel(at, "POST", "/v1/sessions/s1/stop"));
        return run(post_message(at, {{"session", "s1"}, {"text", "/stop"}, {"user", user}}, key));
    }
    static HttpReply read_message(std::uint16_t at, const std::string& key,
                                  const std::string& user = "olga") {
        return run(call_channel(at, "GET", "/v1/messages/" + key + "?user=" + user));
    }
    /// Reads a message at a gateway until its turn has ended.
    static JsonObject read_ended(std::uint16_t at, const std::string& key,
                                 const std::string& user = "olga") {
        for (;;) {
            const HttpReply read = read_message(at, key, user);
            if (read.status == 200) return read.json();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }
    /// Sends a message as an operator, at the second gateway.
    JsonObject operator_sends(const std::string& text, bool steers) const {
        return app::call_gateway(two.socket(), JsonObject{{"command", "send"},
                                                          {"id", "http:s1"},
                                                          {"text", text},
                                                          {"key", "key-" + text},
                                                          {"steer", steers}});
    }
    std::string count_of(const std::string& rows) const {
        RawPostgres server(database);
        return server.query("SELECT count(*) FROM " + rows).front();
    }
    void wait_for_count(const std::string& rows, const std::string& count) const {
        RawPostgres server(database);
        wait_until([&] { return server.query("SELECT count(*) FROM " + rows).front() == count; });
    }
};

TEST_F(RemoteTurn, D253_StopElsewhere_EndsTheTurn) {
    start_first();
    start_second();
    model.hold("a");
    auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    const HttpReply answer = stop(second_port, "k1", "olga");
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.text(), stopped);
    const HttpReply ended = waiting.get();
    EXPECT_NE(ended.body.find(stopped), std::string::npos) << ended.body;
    wait_until_idle(one);
    model.hold("b");
    waiting = post_later(port, "b");
    (void)model.wait_for("b");
    // A repeated request stops no later turn, at whichever gateway.
    EXPECT_EQ(stop(second_port, "k1", "olga").text(), stopped);
    EXPECT_EQ(stop(port, "k1", "olga").text(), stopped);
    model.release();
    EXPECT_EQ(waiting.get().text(), "re: b");
    EXPECT_EQ(model.count("a"), 1u);
    EXPECT_EQ(read_ended(second_port, "k1").at("state"), "answered");
}

TEST_F(RemoteTurn, D253_StopDuringSubagent_ReachesClientElsewhere) {
    for (const GatewayHome* home : {&one, &two})
        configure(*home, ", rules: [{allow: [\"subagent: *\"]}]");
    start_first();
    start_second();
    model.hold("look");
    auto here = post_later(port, "delegate look");
    (void)model.wait_for("look");
    // The request is repeated, and the other gateway follows the turn before it begins its answer.
    const JsonObject repeated{{"session", "s1"}, {"text", "delegate look"}, {"user", "olga"}};
    Client reader(second_port, "POST /v1/messages", boost::json::serialize(repeated),
                  "Accept: text/event-stream\r\nIdempotency-Key: key-delegate look\r\n");
    reader.read_until("\r\n\r\n");
    auto there = post_later(second_port, "delegate look");
    EXPECT_EQ(stop(second_port, "k1", "olga").text(), stopped);
    EXPECT_NE(here.get().body.find(stopped), std::string::npos);
    EXPECT_NE(there.get().body.find(stopped), std::string::npos);
    reader.read_until("event: done");
    reader.read_until(end_of_stream);
    EXPECT_NE(reader.text().find(stopped), std::string::npos) << reader.text();
    // Nothing of the sub-agent follows.
    model.release();
    wait_until_idle(one);
    EXPECT_EQ(post(second_port, "b").text(), "re: b");
    EXPECT_EQ(model.count("look"), 1u);
    EXPECT_EQ(model.count("delegate look"), 1u);
    // A client gets its answer before the record of its message is finished.
    wait_for_count("bub_delivery_inbound WHERE finished_at IS NULL", "0");
}

TEST_F(RemoteTurn, D96_StoppedTurn_IsReadAsStoppedElsewhere) {
    start_first();
    start_second();
    model.hold("a");
    auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    EXPECT_EQ(stop(port, "k1", "olga").text(), stopped);
    const JsonObject read = read_ended(second_port, "key-a");
    EXPECT_EQ(read.at("error").at("message"), stopped) << read;
    EXPECT_NE(waiting.get().body.find(stopped), std::string::npos);
    model.release();
}

TEST_F(RemoteTurn, D96_FinishedBeforeTurnEnds_ReplyIsAwaited) {
    start_first();
    start_second();
    model.hold("a");
    auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    // As of a turn that is stopped, and has not ended yet.
    RawPostgres server(database);
    const std::string record =
        "UPDATE bub_delivery_inbound SET state = 'stopped', finished_at = now() ";
    (void)server.query(record + "+ interval '1 hour'");
    const auto read = [this] { return read_message(second_port, "key-a"); };
    EXPECT_EQ(read().status, 202);
    EXPECT_EQ(read().json().at("state"), "running");
    (void)server.query(record + "- interval '1 hour'");
    EXPECT_EQ(read().json().at("error").at("message"), stopped);
    // Its answer was complete before it could be stopped.
    model.release();
    EXPECT_EQ(waiting.get().text(), "re: a");
    EXPECT_EQ(read().json().at("state"), "answered");
}

TEST_F(RemoteTurn, D253_StopByOtherUser_IsRefused) {
    start_first();
    start_second();
    model.hold("a");
    auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    EXPECT_EQ(stop(second_port, "k1", "bob").status, 403);
    EXPECT_EQ(stop(second_port, "", "").text(), stopped);
    EXPECT_NE(waiting.get().body.find(stopped), std::string::npos);
    const HttpReply idle = stop(second_port, "k2", "olga");
    EXPECT_EQ(idle.text(), nothing_runs) << idle.body;
    // The gateway that has not processed it reads the records.
    const JsonObject read = read_ended(port, "k2");
    EXPECT_EQ(read.at("outputs").at(0).at("text"), nothing_runs) << read;
}

TEST_F(RemoteTurn, D265_RefusedStopOfOwner_IsToldEverywhere) {
    start_first();
    start_second();
    model.hold("a");
    auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    // The owner cannot be asked, and takes the request from its row.
    RawPostgres server(database);
    (void)server.query("ALTER TABLE bub_delivery_calls RENAME TO bub_hidden");
    const HttpReply answer = stop(second_port, "k1", "bob");
    EXPECT_NE(answer.body.find(refused), std::string::npos) << answer.body;
    EXPECT_EQ(answer.body.find(stopped), std::string::npos) << answer.body;
    (void)server.query("ALTER TABLE bub_hidden RENAME TO bub_delivery_calls");
    for (const std::uint16_t at : {port, second_port}) {
        const JsonObject read = read_ended(at, "k1", "bob");
        EXPECT_EQ(read.at("state"), "failed") << read;
        EXPECT_EQ(read.at("error").at("message"), refused) << read;
    }
    EXPECT_EQ(stop(second_port, "k1", "bob").json().at("ok"), false);
    model.release();
    EXPECT_EQ(waiting.get().text(), "re: a");
    // Another process has only the records.
    second.reset();
    start_second();
    EXPECT_EQ(read_ended(second_port, "k1", "bob").at("error").at("message"), refused);
}

TEST_F(RemoteTurn, D265_RefusedWithdrawal_IsReadElsewhere) {
    start_first();
    start_second();
    const JsonObject asking{{"session", "s1"}, {"text", "run true"}, {"user", "ann"}};
    EXPECT_EQ(run(post_message(port, asking)).status, 200);
    const HttpReply answer = stop(second_port, "k1", "bob");
    EXPECT_NE(answer.text().find("You may not withdraw this question"), std::string::npos)
        << answer.body;
    const JsonObject read = read_ended(port, "k1", "bob");
    EXPECT_EQ(read.at("outputs").at(0).at("text"), Json(answer.text())) << read;
}

/// A turn that has asked, and whose answer another gateway works on: the command "true" has run, and the model is asked for the end.
class AnswerInProgress : public RemoteTurn {
protected:
    AnswerInProgress() {
        start_first();
        start_second();
        const HttpReply asked = run(post_message(port, asking, "k1"));
        EXPECT_NE(asked.body.find("\"question\""), std::string::npos) << asked.body;
        // A client gets its answer before the record of its message is finished.
        for (const std::uint16_t at : {port, second_port})
            wait_until([at] { return state_at(at) == "waiting"; });
        model.hold("run true");
        answering = std::async(std::launch::async, [at = port] {
            return run(post_message(
                at, {{"session", "s1"}, {"text", ",approve call_0"}, {"user", "olga"}}, "k2"));
        });
        (void)model.wait_for("run true", 2);
    }
    static std::string state_at(std::uint16_t at) {
        const JsonObject read = read_message(at, "k1").json();
        EXPECT_EQ(read.contains("error"), false) << read;
        return std::string(read.at("state").as_string());
    }
    static std::string session_at(std::uint16_t at) {
        const JsonObject read = run(call_channel(at, "GET", "/v1/sessions/s1")).json();
        return std::string(read.at("state").as_string());
    }

    const JsonObject asking{{"session", "s1"}, {"text", "run true"}, {"user", "olga"}};
    std::future<HttpReply> answering;
};

TEST_F(AnswerInProgress, D97_EveryGateway_ShowsTheMessageRunning) {
    for (const std::uint16_t at : {port, second_port}) {
        EXPECT_EQ(state_at(at), "running");
        EXPECT_EQ(session_at(at), "running");
    }
    // A repeated request waits for the answer.
    auto repeated = std::async(std::launch::async,
                               [this] { return run(post_message(second_port, asking, "k1")); });
    model.release();
    EXPECT_EQ(answering.get().text(), "re: run true");
    EXPECT_EQ(repeated.get().text(), "re: run true");
    for (const std::uint16_t at : {port, second_port}) {
        wait_until([at] { return session_at(at) == "idle"; });
        EXPECT_EQ(state_at(at), "answered");
    }
    EXPECT_EQ(model.count("run true"), 2u);
}

TEST_F(AnswerInProgress, D97_RepeatedStream_EndsWithTheAnswer) {
    Client reader(second_port, "POST /v1/messages", boost::json::serialize(asking),
                  "Accept: text/event-stream\r\nIdempotency-Key: k1\r\n");
    reader.read_until("\r\n\r\n");
    model.release();
    reader.read_until("event: done");
    reader.read_until(end_of_stream);
    EXPECT_NE(reader.text().find("re: run true"), std::string::npos) << reader.text();
    EXPECT_EQ(reader.text().find("failed"), std::string::npos) << reader.text();
}

/// The owner of a turn is frozen in it for longer than its lease, and another gateway ends the turn.
class FrozenOwner : public RemoteTurn {
protected:
    void freeze_first() {
        first->send(SIGSTOP);
        RawPostgres server(database);
        (void)server.query("UPDATE bub_delivery_gateways SET lease_until = now() WHERE pid = " +
                           std::to_string(first->pid()));
    }
    void expect_one_answer(const std::string& text) {
        EXPECT_EQ(count_of("bub_delivery_outbound"), "1");
        const JsonObject session = run(call_channel(second_port, "GET", "/v1/sessions/s1")).json();
        std::size_t answers = 0;
        for (const Json& message : session.at("messages").as_array())
            if (message.at("text") == Json(text)) ++answers;
        EXPECT_EQ(answers, 1u) << session;
        EXPECT_EQ(boost::json::serialize(session).find("technical problem"), std::string::npos);
    }
};

TEST_F(FrozenOwner, D227_ReturnsAfterEnd_AnswersNothing) {
    start_first();
    start_second();
    model.hold("a");
    auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    freeze_first();
    (void)model.wait_for("a", 2);
    model.release();
    EXPECT_EQ(read_ended(second_port, "key-a").at("state"), "answered");
    wait_until_idle(two);
    first->send(SIGCONT);
    // Its client asks at any gateway.
    const HttpReply left = waiting.get();
    EXPECT_EQ(left.status, 202) << left.body;
    (void)first->wait_for("turn.taken");
    wait_until_idle(one);
    for (const std::uint16_t at : {port, second_port}) EXPECT_EQ(post(at, "a").text(), "re: a");
    expect_one_answer("re: a");
    EXPECT_EQ(model.count("a"), 2u);
    EXPECT_EQ(post(port, "b").text(), "re: b");
}

/// The owner is frozen while it executes something that waits for a file.
class FrozenInStep : public FrozenOwner {
protected:
    FrozenInStep() {
        std::ofstream(one.path() / "wait.sh") << "touch " << begun.string() << "\nuntil test -e "
                                              << over.string() << "; do sleep 0.05; done\n";
    }
    void configure(const GatewayHome& home, const std::string& more) const {
        home.configure("{http: {listen: \"127.0.0.1:0\"}, rules: [{allow: [\"shell: cd * && " +
                       command + "\"]}]}\nsandbox: off\ndatabase: \"" + database + "\"\n" + more);
    }
    /// The first gateway is frozen in the step until the second one has ended the turn.
    void expect_silence(const std::string& text, std::size_t requests,
                        std::vector<std::string> environment = {}) {
        start_first(std::move(environment));
        start_second();
        auto waiting = post_later(port, text);
        wait_until([&] { return std::filesystem::exists(begun); });
        freeze_first();
        (void)model.wait_for(text, requests);
        wait_for_count("bub_delivery_inbound WHERE finished_at IS NULL", "0");
        std::ofstream(over) << "";
        first->send(SIGCONT);
        const HttpReply left = waiting.get();
        EXPECT_EQ(left.status, 202) << left.body;
        (void)first->wait_for("turn.taken");
        wait_until_idle(one);
        EXPECT_EQ(first->output().find("turn.held"), std::string::npos) << first->output();
        expect_one_answer("re: " + text);
        EXPECT_EQ(model.count(text), requests);
    }

    const std::filesystem::path begun = one.path() / "begun";
    const std::filesystem::path over = one.path() / "begun.go";
    const std::string command = "sh " + (one.path() / "wait.sh").string();
};

TEST_F(FrozenInStep, D227_ReturnsInItsCall_AnswersNothing) {
    configure(one, "");
    configure(two, "");
    // The second one tells the model that the effect of the call is unknown.
    expect_silence("run " + command, 2);
}

TEST_F(FrozenInStep, D227_ReturnsBeforeItsRun_AnswersNothing) {
    configure(one, "");
    configure(two, "");
    expect_silence("a", 1, {"CUBEPI_TEST_HOLD=" + begun.string()});
}

TEST_F(FrozenInStep, D227_ReturnsInItsHook_AnswersNothing) {
    configure(one, "hooks: {UserPromptSubmit: [{hooks: [{command: '" + command + "'}]}]}\n");
    configure(two, "");
    expect_silence("a", 1);
}

TEST_F(RemoteTurn, D262_OtherTextDuringOpenTurn_IsRefused) {
    start_first();
    start_second();
    model.hold("a");
    auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    const HttpReply other = run(
        post_message(second_port, {{"session", "s1"}, {"text", "b"}, {"user", "olga"}}, "key-a"));
    EXPECT_EQ(other.status, 422) << other.body;
    model.release();
    EXPECT_EQ(waiting.get().text(), "re: a");
}

TEST_F(RemoteTurn, D291_UsersOfOneToken_HaveTheirOwnKeys) {
    start_first();
    start_second();
    const auto say = [](std::uint16_t at, const std::string& user, const std::string& text) {
        JsonObject message{{"text", text}};
        if (!user.empty()) message["user"] = user;
        return run(post_message(at, std::move(message), "k"));
    };
    for (const std::string user : {"ann", "bob", ""}) {
        const std::string text = "of " + user;
        const HttpReply first_reply = say(port, user, text);
        EXPECT_EQ(first_reply.text(), "re: " + text) << first_reply.body;
        wait_until_idle(one);
        const HttpReply again = say(second_port, user, text);
        EXPECT_EQ(again.text(), "re: " + text) << again.body;
        const std::string id(again.json().at("id").as_string());
        EXPECT_EQ(first_reply.json().at("id"), Json(id));
        EXPECT_EQ(id == "k", user.empty());
        EXPECT_EQ(model.count(text), 1u);
        for (const std::uint16_t at : {port, second_port}) {
            EXPECT_EQ(say(at, user, "other").status, 422) << user;
            EXPECT_EQ(read_message(at, "k", user).text(), "re: " + text);
            const HttpReply by_id = run(call_channel(at, "GET", "/v1/messages/" + id));
            EXPECT_EQ(by_id.text(), "re: " + text) << by_id.body;
        }
    }
    EXPECT_EQ(read_message(port, "k", "eve").status, 404);
    EXPECT_EQ(count_of("bub_delivery_inbound"), "3");
}

TEST_F(RemoteTurn, D253_OwnerKilledBeforeStop_TurnStaysStopped) {
    start_first();
    // It asks the frozen one for some seconds.
    start_second({"CUBEPI_TEST_CLOCK=5"});
    model.hold("a");
    const auto lost = post_later(port, "a");
    (void)model.wait_for("a");
    first->send(SIGSTOP);
    auto stopping =
        std::async(std::launch::async, [this] { return stop(second_port, "k1", "olga"); });
    wait_for_count("bub_delivery_inbound WHERE finished_at IS NULL", "2");
    kill_and_replace(*first, database);
    // The second gateway takes the message and the request.
    const HttpReply answer = stopping.get();
    EXPECT_NE(answer.body.find(stopped), std::string::npos) << answer.body;
    EXPECT_EQ(read_ended(second_port, "key-a").at("state"), "failed");
    model.release();
    EXPECT_EQ(post(second_port, "b").text(), "re: b");
    EXPECT_EQ(model.count("a"), 1u);
}

/// Two gateways with the other interfaces.
class RemoteInterface : public RemoteTurn {
protected:
    RemoteInterface() {
        for (const GatewayHome* home : {&one, &two})
            home->configure(
                "{http: {listen: \"127.0.0.1:0\", openai: true, ag_ui: true, operators: "
                "[olga]}}\ndatabase: \"" +
                database + "\"");
        start_first();
        start_second();
    }
    static std::string run_of(const std::string& text) {
        const JsonObject message{{"id", "m"}, {"role", "user"}, {"content", text}};
        return boost::json::serialize(
            JsonObject{{"threadId", "t"}, {"runId", "r"}, {"messages", JsonArray{message}}});
    }
    static Client completion(std::uint16_t at, const std::string& text,
                             const std::string& by = {}) {
        JsonObject body{{"model", "cubepi"}, {"messages", user(text)}};
        if (!by.empty()) body["user"] = by;
        return Client(at, "POST /v1/chat/completions", boost::json::serialize(body),
                      "Idempotency-Key: k\r\nConnection: close\r\n");
    }
    static std::string head_of(Client client) {
        client.read_until("\r\n\r\n");
        return client.text();
    }
};

TEST_F(RemoteInterface, D262_OtherRunOfAgui_IsRefusedElsewhere) {
    model.hold("a");
    Client first_run(port, "POST /v1/ag-ui", run_of("a"));
    (void)model.wait_for("a");
    for (const bool is_open : {true, false}) {
        const HttpReply other = run(call_channel(second_port, "POST", "/v1/ag-ui", run_of("b")));
        EXPECT_EQ(other.status, 422) << other.body;
        if (is_open) model.release();
        if (is_open) first_run.read_until("RUN_FINISHED");
    }
    const HttpReply same = run(call_channel(second_port, "POST", "/v1/ag-ui", run_of("a")));
    EXPECT_NE(same.body.find("re: a"), std::string::npos) << same.body;
    EXPECT_EQ(model.count("a"), 1u);
    EXPECT_EQ(model.count("b"), 0u);
}

TEST_F(RemoteInterface, D262_OtherCompletion_IsRefusedElsewhere) {
    model.hold("a");
    Client here = completion(port, "a");
    (void)model.wait_for("a");
    EXPECT_NE(head_of(completion(second_port, "b")).find(" 422 "), std::string::npos);
    // The same request, which names no session, is followed.
    Client there = completion(second_port, "a");
    model.release();
    here.read_until("re: a");
    there.read_until("re: a");
    const std::string late = head_of(completion(second_port, "b"));
    EXPECT_NE(late.find(" 422 "), std::string::npos) << late;
    EXPECT_EQ(model.count("a"), 1u);
    EXPECT_EQ(model.count("b"), 0u);
}

TEST_F(RemoteInterface, D291_UsersOfOneToken_HaveTheirOwnKeys) {
    for (const std::string by : {"ann", "bob", ""}) {
        const std::string text = "of " + by;
        for (const std::uint16_t at : {port, second_port})
            completion(at, text, by).read_until("re: " + text);
        EXPECT_NE(head_of(completion(second_port, "other", by)).find(" 422 "), std::string::npos);
        EXPECT_EQ(model.count(text), 1u);
        JsonObject started = boost::json::parse(run_of("thread of " + by)).as_object();
        if (!by.empty()) started["forwardedProps"] = JsonObject{{"user", by}};
        for (const std::uint16_t at : {port, second_port}) {
            const HttpReply ended =
                run(call_channel(at, "POST", "/v1/ag-ui", boost::json::serialize(started)));
            EXPECT_NE(ended.body.find("re: thread of " + by), std::string::npos) << ended.body;
        }
    }
    EXPECT_EQ(model.count("other"), 0u);
}

/// Responses whose requests are repeated with their Idempotency-Key.
class RemoteResponse : public RemoteInterface {
protected:
    static Client respond(std::uint16_t at, const std::string& text, bool in_background) {
        const JsonObject body{{"model", "cubepi"}, {"input", text}, {"background", in_background}};
        return Client(at, "POST /v1/responses", boost::json::serialize(body),
                      "Idempotency-Key: k\r\nConnection: close\r\n");
    }
    static JsonObject response_of(Client&& client) {
        const std::string body = client.body();
        EXPECT_NE(body.find("\"output\""), std::string::npos) << body;
        return boost::json::parse(body).as_object();
    }
    /// Reads a response at a gateway until it is complete; returns its text.
    static std::string read_completed(std::uint16_t at, const JsonObject& response) {
        const std::string path = "/v1/responses/" + std::string(response.at("id").as_string());
        for (;;) {
            const HttpReply read = run(call_channel(at, "GET", path));
            EXPECT_EQ(read.status, 200) << read.body;
            if (read.status != 200) return {};
            if (read.json().at("status") == "completed") return text_of(read.json());
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }
};

TEST_F(RemoteResponse, D262_RepeatedElsewhere_IsOneTurn) {
    model.hold("a");
    Client here = respond(port, "a", false);
    (void)model.wait_for("a");
    EXPECT_NE(head_of(respond(second_port, "b", false)).find(" 422 "), std::string::npos);
    Client there = respond(second_port, "a", false);
    model.release();
    EXPECT_EQ(text_of(response_of(std::move(here))), "re: a");
    EXPECT_EQ(text_of(response_of(std::move(there))), "re: a");
    // Also when it has ended.
    EXPECT_NE(head_of(respond(second_port, "b", false)).find(" 422 "), std::string::npos);
    EXPECT_EQ(text_of(response_of(respond(second_port, "a", false))), "re: a");
    EXPECT_EQ(model.count("a"), 1u);
    EXPECT_EQ(model.count("b"), 0u);
}

/// The id of an unstored response names nothing, so the answer to one request is not that to the other.
TEST_F(RemoteResponse, D262_OtherStore_IsAnotherRequest) {
    const JsonObject unstored{
        {"model", "cubepi"}, {"input", "a"}, {"store", false}, {"stream", true}};
    const auto expect_refusals = [&] {
        for (const std::uint16_t at : {port, second_port}) {
            const std::string head =
                head_of(Client(at, "POST /v1/responses", boost::json::serialize(unstored),
                               "Idempotency-Key: k\r\nConnection: close\r\n"));
            EXPECT_NE(head.find(" 422 "), std::string::npos) << head;
        }
    };
    model.hold("a");
    Client here = respond(port, "a", false);
    (void)model.wait_for("a");
    expect_refusals();
    model.release();
    EXPECT_EQ(text_of(response_of(std::move(here))), "re: a");
    wait_until_idle(one);
    expect_refusals();
    EXPECT_EQ(text_of(response_of(respond(second_port, "a", false))), "re: a");
    EXPECT_EQ(model.count("a"), 1u);
}

/// Requests that are repeated at the other gateway after their turn has ended.
class RepeatedAfterEnd : public RemoteInterface {
protected:
    /// Returns what the second gateway answers.
    std::string repeat(const std::string& path, const JsonObject& body,
                       const std::string& headers = {}) {
        const std::string key = "Idempotency-Key: k" + std::to_string(++keys_) + "\r\n";
        const auto send = [&](std::uint16_t at) {
            Client client(at, "POST /v1/" + path, boost::json::serialize(body),
                          headers + key + "Connection: close\r\n");
            return client.body();
        };
        (void)send(port);
        wait_until_idle(one);
        return send(second_port);
    }
    void expect_reply(const std::string& answer, const std::string& text) {
        EXPECT_NE(answer.find("re: " + text), std::string::npos) << text << ": " << answer;
        EXPECT_EQ(model.count(text), 1u);
    }

private:
    int keys_ = 0;
};

TEST_F(RepeatedAfterEnd, D262_Message_HasRecordedReply) {
    const auto message = [](const std::string& text) {
        return JsonObject{{"session", "s1"}, {"text", text}, {"user", "olga"}};
    };
    expect_reply(repeat("messages", message("a")), "a");
    expect_reply(repeat("messages", message("b"), "Accept: text/event-stream\r\n"), "b");
    const std::string command = repeat("messages", message(",tape_info"));
    EXPECT_NE(command.find("entries: "), std::string::npos) << command;
    // A question has no answer yet.
    const std::string asking = repeat("messages", message("run true"));
    EXPECT_NE(asking.find("\"question\""), std::string::npos) << asking;
    EXPECT_EQ(model.count("run true"), 1u);
}

TEST_F(RepeatedAfterEnd, D262_OtherInterfaces_HaveRecordedReply) {
    for (const bool streams : {false, true}) {
        const std::string text = streams ? "stream" : "whole";
        const auto request = [&](const char* member, Json value) {
            return JsonObject{{"model", "cubepi"}, {"stream", streams}, {member, std::move(value)}};
        };
        expect_reply(repeat("responses", request("input", Json(text + "1"))), text + "1");
        JsonObject in_background = request("input", Json(text + "2"));
        in_background["background"] = true;
        const std::string begun = repeat("responses", in_background);
        EXPECT_NE(begun.find("\"object\":\"response\""), std::string::npos) << begun;
        EXPECT_EQ(model.count(text + "2"), 1u);
        expect_reply(repeat("chat/completions", request("messages", user(text + "3"))), text + "3");
    }
    expect_reply(repeat("ag-ui", boost::json::parse(run_of("a")).as_object()), "a");
}

TEST_F(RemoteResponse, D262_RepeatedInBackgroundElsewhere_IsOneTurn) {
    model.hold("a");
    const JsonObject here = response_of(respond(port, "a", true));
    (void)model.wait_for("a");
    const JsonObject there = response_of(respond(second_port, "a", true));
    model.release();
    for (const std::uint16_t at : {port, second_port})
        for (const JsonObject& response : {here, there})
            EXPECT_EQ(read_completed(at, response), "re: a");
    EXPECT_EQ(model.count("a"), 1u);
}

TEST_F(RemoteResponse, D262_RepeatedAfterKill_IsAnsweredOnce) {
    model.hold("a");
    Client lost = respond(port, "a", false);
    (void)model.wait_for("a");
    kill_and_replace(*first, database);
    Client there = respond(second_port, "a", false);
    (void)model.wait_for("a", 2);
    model.release();
    EXPECT_EQ(text_of(response_of(std::move(there))), "re: a");
    RawPostgres server(database);
    EXPECT_EQ(server.query("SELECT count(*) FROM bub_delivery_inbound").front(), "1");
}

class RemoteSteering : public RemoteTurn {
protected:
    RemoteSteering() {
        configure(one, ", console: {listen: \"127.0.0.1:0\"}");
        configure(two, ", console: {listen: \"127.0.0.1:0\"}");
    }
    /// Begins a turn at the first gateway that waits for the model.
    std::future<HttpReply> begin(bool has_history = false) {
        first = std::make_unique<GatewayProcess>(one, model.flags());
        port = ports_of(*first).at("http");
        second = std::make_unique<GatewayProcess>(two, model.flags());
        second_port = ports_of(*second).at("http");
        if (has_history) {
            EXPECT_EQ(post(port, "earlier").text(), "re: earlier");
        }
        model.hold("a");
        auto waiting = post_later(port, "a");
        (void)model.wait_for("a");
        return waiting;
    }
    std::int64_t steering() const {
        const JsonObject all = call(one, "sessions");
        const JsonArray& busy = all.at("sessions").as_array();
        return busy.empty() ? 0 : busy[0].at("steering").to_number<std::int64_t>();
    }
};

TEST_F(RemoteSteering, D253_SteeringElsewhere_ReachesTheTurn) {
    auto waiting = begin();
    const auto later = post_later(second_port, "later");
    wait_for_count("bub_delivery_inbound WHERE finished_at IS NULL", "2");
    (void)operator_sends("steered", true);
    wait_until([this] { return steering() == 1; });
    model.release();
    const HttpReply answer = waiting.get();
    EXPECT_NE(answer.body.find("re: steered"), std::string::npos) << answer.body;
    wait_until_idle(one);
    EXPECT_EQ(model.count("steered"), 1u);
    EXPECT_EQ(model.count("later"), 1u);
    EXPECT_EQ(count_of("bub_delivery_inbound WHERE finished_at IS NULL"), "0");
    // A repeated request is the same message.
    (void)operator_sends("steered", true);
    wait_until_idle(two);
    EXPECT_EQ(model.count("steered"), 1u);
}

TEST_F(RemoteSteering, D253_OwnerKilledWithSteering_MessageIsNotLost) {
    const auto lost = begin();
    (void)operator_sends("steered", true);
    wait_until([this] { return steering() == 1; });
    kill_and_replace(*first, database);
    (void)model.wait_for("a", 2);
    model.release();
    (void)model.wait_for("steered");
    wait_until_idle(two);
    EXPECT_EQ(read_ended(second_port, "key-a").at("state"), "answered");
    EXPECT_EQ(model.count("steered"), 1u);
    EXPECT_EQ(count_of("bub_delivery_inbound WHERE finished_at IS NULL"), "0");
}

TEST_F(RemoteSteering, D253_OwnerKilledBeforeSteering_MessageFollows) {
    // The gateway that is frozen cannot say that it has the session.
    const auto lost = begin(true);
    first->send(SIGSTOP);
    (void)operator_sends("steered", true);
    kill_and_replace(*first, database);
    (void)model.wait_for("a", 2);
    model.release();
    (void)model.wait_for("steered");
    wait_until_idle(two);
    EXPECT_EQ(model.count("steered"), 1u);
    EXPECT_EQ(count_of("bub_delivery_inbound WHERE finished_at IS NULL"), "0");
}

/// The answer to a question reaches the gateway that has messages of its session.
TEST_F(RemoteTurn, D253_AnswerElsewhere_ReachesWaitingSession) {
    start_first();
    start_second();
    const auto as = [](std::uint16_t at, const std::string& user, const std::string& text) {
        return run(post_message(at, {{"session", "s1"}, {"text", text}, {"user", user}}));
    };
    const HttpReply asked = as(port, "ann", "run true");
    EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
    EXPECT_NE(post(port, "later").body.find("This session waits for an answer"), std::string::npos);
    // It waits for the answer at the first gateway.
    wait_for_count("bub_delivery_inbound WHERE finished_at IS NULL AND owner > 0", "1");
    const HttpReply answered = as(second_port, "olga", ",approve call_0");
    EXPECT_EQ(answered.text(), "re: run true") << answered.body;
    (void)model.wait_for("later");
    wait_for_count("bub_delivery_inbound WHERE finished_at IS NULL", "0");
    EXPECT_EQ(model.count("later"), 1u);
}

/// A model whose answers stop after their first half until release().
class HalfModel {
public:
    HalfModel()
        : server_([this](wire::Connection& connection) {
              const std::string request = connection.read_request();
              if (request.empty() || request.starts_with("GET ")) return;
              const std::string whole = joint_tests::chat_answer("first half,");
              const std::string first = whole.substr(0, whole.find("\n\n") + 2);
              (void)connection.send(
                  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: "
                  "close\r\n\r\n" +
                  first);
              {
                  std::unique_lock lock(mutex_);
                  changed_.wait(lock, [this] { return released_; });
              }
              (void)connection.send(joint_tests::chat_answer(" second half"));
          }) {}
    ~HalfModel() { release(); }
    std::vector<std::string> flags() const {
        return {"--provider", "openai", "--base-url", server_.url("/v1"), "-m", "local"};
    }
    void release() {
        const std::lock_guard lock(mutex_);
        released_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool released_ = false;
    wire::RawServer server_;  // last: its handlers use the others
};

constexpr const char* whole_answer = "first half, second half";

class RemoteStream : public TwoGateways {
protected:
    RemoteStream() {
        for (const GatewayHome* home : {&one, &two})
            home->configure(
                "{http: {listen: \"127.0.0.1:0\", openai: true, operators: [olga]}}\ndatabase: \"" +
                database + "\"");
        first = std::make_unique<GatewayProcess>(one, half.flags());
        port = first->wait_until_running();
        second = std::make_unique<GatewayProcess>(two, half.flags());
        second_port = second->wait_until_running();
    }
    static Client reader(std::uint16_t at, const std::string& text, const std::string& key) {
        const JsonObject message{{"session", "s1"}, {"text", text}, {"user", "olga"}};
        return Client(at, "POST /v1/messages", boost::json::serialize(message),
                      "Accept: text/event-stream\r\nIdempotency-Key: " + key + "\r\n");
    }
    /// The text of the events `delta`.
    static std::string deltas_of(const std::string& stream) {
        std::string text;
        for (const JsonObject& event : events_of(stream))
            if (event.size() == 1 && event.contains("text"))
                text += std::string_view(event.at("text").as_string());
        return text;
    }

    HalfModel half;
};

TEST_F(RemoteStream, D254_ReaderElsewhere_GetsTextWhileItIsGenerated) {
    Client here = reader(port, "a", "k1");
    here.read_until("first half,");
    // A client whose connection broke repeats its request at another gateway.
    Client there = reader(second_port, "a", "k1");
    there.read_until("first half,");
    EXPECT_FALSE(call(one, "sessions").at("sessions").as_array().empty());
    half.release();
    there.read_until(end_of_stream);
    EXPECT_EQ(deltas_of(there.text()), whole_answer) << there.text();
    here.read_until(end_of_stream);
    EXPECT_EQ(deltas_of(here.text()), whole_answer) << here.text();
}

TEST_F(RemoteStream, D254_OtherOwner_IsStreamedWhereAsked) {
    Client one_reader = reader(port, "a", "k1");
    one_reader.read_until("first half,");
    Client two_reader = reader(second_port, "b", "k2");
    half.release();
    two_reader.read_until(end_of_stream);
    EXPECT_EQ(deltas_of(two_reader.text()), whole_answer) << two_reader.text();
    RawPostgres server(database);
    wait_until(
        [&] { return server.query("SELECT count(*) FROM bub_delivery_calls").front() == "0"; });
}

TEST_F(RemoteStream, D254_OwnerKilled_StreamRestarts) {
    Client here = reader(port, "a", "k1");
    here.read_until("first half,");
    Client there = reader(second_port, "a", "k1");
    there.read_until("first half,");
    kill_and_replace(*first, database);
    half.release();
    there.read_until(end_of_stream);
    EXPECT_NE(there.text().find("\"text\":\"first half, second half\""), std::string::npos)
        << there.text();
}

TEST_F(RemoteStream, D254_Response_ContinuesAtOtherGateway) {
    const JsonObject body{{"model", "cubepi"}, {"input", "a"}, {"background", true}};
    const HttpReply created =
        run(call_channel(port, "POST", "/v1/responses", boost::json::serialize(body)));
    ASSERT_EQ(created.status, 200) << created.body;
    const std::string path = "/v1/responses/" + std::string(created.json().at("id").as_string());
    std::size_t seen = 0;
    {
        Client there(second_port, "GET " + path + "?stream=true", "");
        there.read_until("first half,");
        const std::string& text = there.text();
        seen = events_of(text.substr(0, text.rfind("\n\n") + 1)).size();
    }
    half.release();
    wait_until([&] {
        return run(call_channel(second_port, "GET", path)).json().at("status") == "completed";
    });
    const std::string rest = path + "?stream=true&starting_after=" + std::to_string(seen - 1);
    const HttpReply there = run(call_channel(second_port, "GET", rest));
    const std::vector<JsonObject> events = events_of(there.body);
    ASSERT_FALSE(events.empty()) << there.body;
    // The numbers are those of the gateway that has made the response.
    for (std::size_t i = 0; i < events.size(); ++i)
        EXPECT_EQ(events[i].at("sequence_number").to_number<std::size_t>(), seen + i);
    EXPECT_EQ(text_of(events.back().at("response").as_object()), whole_answer);
}

TEST_F(RemoteStream, D254_CancelElsewhere_EndsTheResponse) {
    const JsonObject body{{"model", "cubepi"}, {"input", "a"}, {"background", true}};
    const HttpReply created =
        run(call_channel(port, "POST", "/v1/responses", boost::json::serialize(body)));
    ASSERT_EQ(created.status, 200) << created.body;
    const std::string path = "/v1/responses/" + std::string(created.json().at("id").as_string());
    {
        Client here(port, "GET " + path + "?stream=true", "");
        here.read_until("first half,");
    }
    const HttpReply cancelled = run(call_channel(second_port, "POST", path + "/cancel", ""));
    EXPECT_EQ(cancelled.status, 200) << cancelled.body;
    wait_until_idle(one);
}

/// Two gateways with the webhook of one bot.
class RemoteChat : public TwoGateways {
protected:
    RemoteChat() {
        for (const GatewayHome* home : {&one, &two})
            configure(*home, ", telegram: {users: [42, 43], progress: false, api_url: \"" +
                                 bot.url() +
                                 "\", webhook: {url: \"https://example.org/telegram\", "
                                 "listen: \"127.0.0.1:0\"}}");
        bot.with_api([](bub::telegram::FakeBotApi& api) { api.add_chat(42); });
        for (auto* gateway : {&first, &second}) {
            *gateway = std::make_unique<GatewayProcess>(
                gateway == &first ? one : two, model.flags(),
                std::vector<std::string>{"TELEGRAM_BOT_TOKEN=" + bot.token(),
                                         "TELEGRAM_WEBHOOK_SECRET=the-secret"});
            std::map<std::string, std::uint16_t> ports = ports_of(**gateway);
            ports.erase("http");
            hooks.push_back(ports.begin()->second);
        }
    }
    /// The user writes, and the service passes the update to this gateway.
    void say(std::size_t gateway, std::int64_t update, const std::string& text) {
        const Json sent = bot.with_api(
            [&](bub::telegram::FakeBotApi& api) { return Json(api.message_of(42, 42, text)); });
        const std::string body =
            boost::json::serialize(JsonObject{{"update_id", update}, {"message", sent}});
        Client client(hooks.at(gateway), "POST /telegram", body,
                      "X-Telegram-Bot-Api-Secret-Token: the-secret\r\n");
        client.read_until("\r\n\r\n");
        EXPECT_NE(client.text().find(" 200 "), std::string::npos) << client.text();
    }
    void wait_for_text(const std::string& text) {
        bot.wait_until([&text](bub::telegram::FakeBotApi& api) {
            for (const std::string& sent : api.texts(42))
                if (sent == text) return true;
            return false;
        });
    }
    std::size_t texts() {
        return bot.with_api([](bub::telegram::FakeBotApi& api) { return api.texts(42).size(); });
    }

    FakeBotServer bot{std::make_shared<SystemClock>()};
    std::vector<std::uint16_t> hooks;
};

TEST_F(RemoteChat, D227_FrozenOwnerReturns_ChatHasOneAnswer) {
    model.hold("a");
    say(0, 1, "a");
    (void)model.wait_for("a");
    first->send(SIGSTOP);
    RawPostgres server(database);
    (void)server.query("UPDATE bub_delivery_gateways SET lease_until = now() WHERE pid = " +
                       std::to_string(first->pid()));
    (void)model.wait_for("a", 2);
    model.release();
    wait_for_text("re: a");
    first->send(SIGCONT);
    wait_until_idle(one);
    say(0, 2, "b");
    wait_for_text("re: b");
    EXPECT_EQ(texts(), 2u) << "no notice of a problem";
}

TEST_F(RemoteChat, D253_StopAtOtherWebhook_EndsTheTurn) {
    model.hold("a");
    say(0, 1, "a");
    (void)model.wait_for("a");
    say(1, 2, "/stop");
    wait_for_text(stopped);
    model.release();
    // The service delivers it again, at both.
    for (const std::size_t gateway : {0u, 1u}) say(gateway, 2, "/stop");
    say(1, 3, "b");
    wait_for_text("re: b");
    EXPECT_EQ(texts(), 2u);
    EXPECT_EQ(model.count("a"), 1u);
    // The answer arrives before its turn is over.
    wait_until_idle(two);
    say(1, 4, "/stop");
    wait_for_text(nothing_runs);
}

/// The service does not answer the calls that send messages until release().
class SilentService {
public:
    explicit SilentService(FakeBotServer& bot) : bot_(bot) {
        bot.with_api([this](bub::telegram::FakeBotApi& api) {
            api.on_call = [this](const std::string& method, std::size_t) {
                return method == "sendMessage" ? wait() : bub::telegram::Fault::none;
            };
        });
    }
    ~SilentService() {
        release();
        bot_.with_api([](bub::telegram::FakeBotApi& api) { api.on_call = nullptr; });
    }
    SilentService(const SilentService&) = delete;
    SilentService& operator=(const SilentService&) = delete;
    void wait_for_call() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return called_; });
    }
    /// The service has not executed the call.
    void release() {
        const std::lock_guard lock(mutex_);
        released_ = true;
        changed_.notify_all();
    }

private:
    bub::telegram::Fault wait() {
        std::unique_lock lock(mutex_);
        if (released_) return bub::telegram::Fault::none;
        called_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return released_; });
        return bub::telegram::Fault::cut_before;
    }

    FakeBotServer& bot_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool called_ = false;
    bool released_ = false;
};

TEST_F(RemoteChat, B18_AnswerOfStoppedTurn_IsHeldAndDecided) {
    for (const bool releases : {true, false}) {
        const std::string text = releases ? "one" : "two";
        const std::int64_t update = releases ? 1 : 3;
        {
            SilentService silent(bot);
            say(0, update, text);
            silent.wait_for_call();
            const CommandResult stopping = operate({"stop", "telegram:42"});
            EXPECT_EQ(stopping.status, 0) << stopping.output;
            wait_until(
                [this] { return operate({"held"}).output.find("nswer") != std::string::npos; });
        }
        wait_for_text(stopped);
        const std::string held = operate({"held"}).output;
        const JsonObject list = call(two, "held");
        const JsonArray& answers = list.at("answers").as_array();
        ASSERT_EQ(answers.size(), 1u) << boost::json::serialize(list) << held;
        const std::string id(answers[0].at("id").as_string());
        EXPECT_NE(held.find(id), std::string::npos) << held;
        // The session does not wait for the operator.
        say(1, update + 1, "after " + text);
        wait_for_text("re: after " + text);
        const CommandResult decided = operate({releases ? "release" : "discard", id});
        EXPECT_EQ(decided.status, 0) << decided.output;
        EXPECT_TRUE(call(two, "held").at("answers").as_array().empty());
        EXPECT_TRUE(call(one, "held").at("answers").as_array().empty());
    }
    const std::vector<std::string> sent =
        bot.with_api([](bub::telegram::FakeBotApi& api) { return api.texts(42); });
    const auto count = [&sent](const std::string& part) {
        return std::count_if(sent.begin(), sent.end(), [&part](const std::string& one) {
            return one.find(part) != std::string::npos;
        });
    };
    EXPECT_EQ(count("re: one"), 1);
    EXPECT_EQ(count("re: two"), 0);
    EXPECT_EQ(model.count("one"), 1u);
}

}  // namespace
}  // namespace cubepi::gateway_tests
