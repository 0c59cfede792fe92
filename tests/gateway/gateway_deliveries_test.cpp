// Messages at a gateway whose turns do not end as usual: a message ends answered, held or pending (D90).

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "../joints/model_server.hpp"
#include "fake_bot_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

/// A request to a model.
struct Asked {
    explicit Asked(const std::string& request)
        : body(request.substr(request.find("\r\n\r\n") + 4)) {
        const Json parsed = boost::json::parse(body);
        for (const Json& message : parsed.at("messages").as_array()) {
            role = std::string(message.at("role").as_string());
            if (role == "user") text = std::string(message.at("content").as_string());
        }
        text.erase(0, text.rfind('\n') + 1);
    }
    std::string body;
    std::string role;  ///< of the last message
    std::string text;  ///< the last line of the last message of the user
};

/// A model server that answers "re: TEXT"; for "run COMMAND" after the command. Prompts that are held get their answer at
/// release().
class EchoModel {
public:
    EchoModel()
        : server_([this](wire::Connection& connection) {
              for (;;) {
                  const std::string request = connection.read_request();
                  if (request.empty()) return;
                  const std::string answer = answer_to(Asked(request));
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
    /// Waits until the model was asked this that many times; returns the body of the last request.
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
    std::string answer_to(const Asked& asked) {
        std::unique_lock lock(mutex_);
        requests_[asked.text].push_back(asked.body);
        changed_.notify_all();
        if (asked.text.starts_with("run ") && asked.role == "user") {
            const JsonObject arguments{{"command", asked.text.substr(4)}};
            return joint_tests::chat_answer("", {{"shell", boost::json::serialize(arguments)}});
        }
        changed_.wait(lock, [&] { return !held_.contains(asked.text); });
        return joint_tests::chat_answer("re: " + asked.text);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::vector<std::string>> requests_;
    std::set<std::string> held_;
    wire::RawServer server_;  // last: its handlers use the others
};

std::future<HttpReply> post_later(std::uint16_t port, const std::string& text,
                                  const std::string& session = "s1") {
    return std::async(std::launch::async, [port, text, session] {
        JsonObject message{{"session", session}, {"text", text}, {"user", "olga"}};
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
        EXPECT_EQ(reply.text(), "re: t" + std::to_string(i)) << reply.body;
    }
    (void)gateway.wait_for("turn.postponed");
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

/// Lets two gateways serve the same sessions.
void share_sessions(const GatewayHome& first, const GatewayHome& second,
                    const std::string& database) {
    for (const GatewayHome* home : {&first, &second})
        home->configure("{http: {listen: \"127.0.0.1:0\"}, root: " + first.path().string() +
                        "/work}\ndatabase: \"" + database + "\"");
}

TEST(Failover, D90_MessageOfKilledGateway_IsAnsweredLater) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = new_database(first);
    share_sessions(first, second, database);
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

TEST(Failover, D90_SessionBusyElsewhere_MessageWaits) {
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
    (void)other.wait_for("turn.postponed");
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
                       command().substr(4) + "\"]}]}\ndatabase: \"" + new_database(home) + "\"");
        gateway = std::make_unique<GatewayProcess>(home, model.flags());
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

}  // namespace
}  // namespace cubepi::gateway_tests
