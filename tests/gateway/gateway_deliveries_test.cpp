// Messages at a gateway whose turns do not end as usual: a message ends answered, held or pending (D90).

#include <gtest/gtest.h>

#include <condition_variable>
#include <csignal>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "../joints/model_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

/// The last line of the last message of the user in a request to a model.
std::string last_prompt(const std::string& request) {
    const Json body = boost::json::parse(request.substr(request.find("\r\n\r\n") + 4));
    std::string text;
    for (const Json& message : body.at("messages").as_array()) {
        if (message.at("role") == "user") text = std::string(message.at("content").as_string());
    }
    return text.substr(text.rfind('\n') + 1);
}

/// A model server that answers "re: TEXT". Prompts that are held get their answer at release().
class EchoModel {
public:
    EchoModel()
        : server_([this](wire::Connection& connection) {
              for (;;) {
                  const std::string request = connection.read_request();
                  if (request.empty()) return;
                  const std::string text = last_prompt(request);
                  wait_for_release(text, request);
                  const std::string answer = joint_tests::chat_answer("re: " + text);
                  if (!connection.send(wire::ok(answer, "Content-Type: text/event-stream\r\n")))
                      return;
              }
          }) {}
    ~EchoModel() { release(); }

    std::vector<std::string> flags() const {
        return {"--provider", "openai", "--base-url", server_.url("/v1"), "-m", "local"};
    }
    void hold(const std::string& text) {
        const std::lock_guard lock(mutex_);
        held_.insert(text);
    }
    void release() {
        const std::lock_guard lock(mutex_);
        held_.clear();
        changed_.notify_all();
    }
    /// Waits until the model was asked this that many times; returns the last request.
    std::string wait_for(const std::string& text, std::size_t times = 1) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return requests_[text].size() >= times; });
        return requests_[text].back();
    }
    std::size_t count(const std::string& text) {
        const std::lock_guard lock(mutex_);
        return requests_[text].size();
    }

private:
    void wait_for_release(const std::string& text, const std::string& request) {
        std::unique_lock lock(mutex_);
        requests_[text].push_back(request);
        changed_.notify_all();
        changed_.wait(lock, [&] { return !held_.contains(text); });
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::vector<std::string>> requests_;
    std::set<std::string> held_;
    wire::RawServer server_;  // last: its handlers use the others
};

std::future<HttpReply> post_later(std::uint16_t port, const std::string& text) {
    return std::async(std::launch::async, [port, text] {
        JsonObject message{{"session", "s1"}, {"text", text}};
        return run(post_message(port, std::move(message), "key-" + text));
    });
}

HttpReply post(std::uint16_t port, const std::string& text) { return post_later(port, text).get(); }

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

/// The URL of a new database with the tables of tapes.
std::string new_database(const GatewayHome& home) {
    PostgresServer& server = PostgresServer::shared();
    std::string url = "postgres://cubepi@";
    for (const char c : server.socket_directory())
        url += c == '/' ? std::string("%2F") : std::string(1, c);
    url += "/" + server.create_empty_database();
    const CommandResult made = run_command(home, {"db", "init", "--tapes", url});
    EXPECT_EQ(made.status, 0) << made.output;
    return url;
}

TEST(Failover, D90_MessageOfKilledGateway_IsAnsweredAtItsReturn) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = new_database(first);
    for (const GatewayHome* home : {&first, &second})
        home->configure("{http: {listen: \"127.0.0.1:0\"}, root: " + first.path().string() +
                        "/work}\ndatabase: \"" + database + "\"");
    EchoModel model;
    model.hold("one");
    kill_in_turn(first, model, "one");
    {
        GatewayProcess other(second, model.flags());
        EXPECT_EQ(post(other.wait_until_running(), "two").text(), "re: two");
    }
    model.release();
    GatewayProcess gateway(first, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "one").text(), "re: one");
    EXPECT_NE(model.wait_for("one", 2).find("re: two"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::gateway_tests
