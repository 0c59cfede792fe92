// Limits by day at a gateway (D255): through each channel, for scheduled messages and sub-agents, after kills, and at two gateways at once.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/core/run.hpp>

#include "echo_model.hpp"
#include "fake_bot_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;

/// The tokens of each call of the model.
constexpr std::int64_t call_tokens = 100;

/// A model that answers "re: TEXT" and reports its tokens. "delegate TEXT" calls a sub-agent with TEXT, "list TEXT" the tool list before
/// the answer, "write TEXT" a tool that asks. Answers to a held text wait for release().
class MeteredModel {
public:
    ~MeteredModel() { release(); }
    std::vector<std::string> flags() const {
        return {"--provider", "openai", "--base-url", server_.url(), "-m", "local"};
    }
    /// Holds the answers to the results of tools in the turn of this text.
    void hold_after_tool(const std::string& text) {
        const std::lock_guard lock(mutex_);
        held_ = text;
    }
    void release() {
        const std::lock_guard lock(mutex_);
        held_.clear();
        changed_.notify_all();
    }
    void wait_for_calls(int count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return calls_ >= count; });
    }
    int calls() {
        const std::lock_guard lock(mutex_);
        return calls_;
    }

private:
    std::string answer_to(const Asked& asked) {
        const auto answer = [](const std::string& text,
                               const std::vector<joint_tests::SentCall>& sent = {}) {
            return joint_tests::chat_answer_with_usage(text, call_tokens - 10, sent);
        };
        std::unique_lock lock(mutex_);
        ++calls_;
        changed_.notify_all();
        const std::string rest = asked.text.substr(asked.text.find(' ') + 1);
        if (asked.role == "user") {
            if (asked.text.starts_with("list ")) return answer("", {{"list", R"({"path":"."})"}});
            if (asked.text.starts_with("write "))
                return answer("", {{"write", R"({"path":"a","content":"b"})"}});
            if (asked.text.starts_with("delegate ")) {
                JsonObject arguments{{"prompt", rest}, {"session", "temp"}};
                if (rest.starts_with("to ")) arguments["model"] = rest.substr(3);
                return answer("", {{"subagent", boost::json::serialize(arguments)}});
            }
        } else {
            changed_.wait(lock, [&] { return held_ != asked.text; });
        }
        return answer("re: " + asked.text);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::string held_;
    int calls_ = 0;
    joint_tests::ModelServer server_{[this](const boost::json::object& body) {
        return answer_to(Asked("\r\n\r\n" + boost::json::serialize(body)));
    }};
};

struct Used {
    std::int64_t messages = 0;
    std::int64_t tokens = 0;
    bool operator==(const Used&) const = default;
};

Used used(const GatewayHome& home, const std::string& counter) {
    const JsonObject status = app::call_gateway(home.socket(), JsonObject{{"command", "status"}});
    for (const Json& one : status.at("usage").at("used").as_array())
        if (one.at("counter").as_string() == counter)
            return {one.at("messages").as_int64(), one.at("tokens").as_int64()};
    return {};
}

JsonObject message_of(const std::string& user, const std::string& session,
                      const std::string& text) {
    return JsonObject{{"session", session}, {"text", text}, {"user", user}};
}

HttpReply say(std::uint16_t port, const std::string& user, const std::string& session,
              const std::string& text) {
    return run(post_message(port, message_of(user, session, text), "key-" + text));
}

constexpr const char* of_one_message = "the limit of 1 messages a day for each user is reached";

class GatewayUsage : public ::testing::Test {
protected:
    static void configure(const GatewayHome& home, const std::string& limits,
                          const std::string& more = {}) {
        home.configure(
            "{http: {listen: \"127.0.0.1:0\", operators: [olga]}, time_zone: UTC, "
            "limits: " +
            limits + "}" + more);
    }
    std::uint16_t start(const GatewayHome& home) {
        gateway.reset();
        gateway = std::make_unique<GatewayProcess>(home, model.flags());
        return gateway->wait_until_running();
    }

    const GatewayHome home;
    MeteredModel model;
    std::unique_ptr<GatewayProcess> gateway;
};

TEST_F(GatewayUsage, D255_UserAtLimit_IsTold) {
    configure(home, "{per_user: {messages: 1}}");
    std::uint16_t port = start(home);
    EXPECT_EQ(say(port, "ann", "s1", "one").text(), "re: one");
    // The same message again is answered, and not counted.
    EXPECT_EQ(say(port, "ann", "s1", "one").text(), "re: one");
    const HttpReply refused = say(port, "ann", "s2", "two");
    EXPECT_NE(refused.body.find(of_one_message), std::string::npos) << refused.body;
    EXPECT_NE(refused.body.find("00:00 (UTC)"), std::string::npos) << refused.body;
    EXPECT_EQ(say(port, "bob", "s1", "three").text(), "re: three");
    // A restart forgets nothing, and a reload applies another limit.
    port = start(home);
    EXPECT_NE(say(port, "ann", "s1", "four").body.find(of_one_message), std::string::npos);
    EXPECT_EQ(used(home, "user:http:ann"), (Used{1, call_tokens}));
    const CommandResult shown = run_command(home, {"gateway", "status"});
    EXPECT_NE(shown.output.find("user:http:ann\t1 of 1 messages\t100 tokens"), std::string::npos)
        << shown.output;
    configure(home, "{per_user: {messages: 2}}");
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    EXPECT_EQ(say(port, "ann", "s1", "five").text(), "re: five");
    EXPECT_EQ(model.calls(), 3);
}

TEST_F(GatewayUsage, D268_Usage_IsListedAndSearched) {
    configure(home, "{per_user: {messages: 3, tokens: 1000}, total: {messages: 90}}", "");
    const std::uint16_t port = start(home);
    for (const char* const user : {"ann", "bob", "Bobby"})
        EXPECT_EQ(say(port, user, user, user).status, 200);
    while (used(home, "total").tokens < 3 * call_tokens) std::this_thread::yield();
    const auto list = [this](JsonObject request) {
        request["command"] = "usage";
        return app::call_gateway(home.socket(), request);
    };
    const JsonObject found = list(JsonObject{{"search", "BOB"}});
    const JsonArray& all = found.at("used").as_array();
    ASSERT_EQ(all.size(), 3u) << boost::json::serialize(found);
    EXPECT_EQ(all.at(0).at("counter"), "total");
    EXPECT_EQ(all.at(0).at("messages"), 3);
    EXPECT_EQ(all.at(0).at("most_messages"), 90);
    EXPECT_EQ(all.at(1).at("counter"), "user:http:Bobby");
    EXPECT_EQ(all.at(1).at("tokens"), call_tokens);
    EXPECT_EQ(all.at(1).at("most_tokens"), 1000);
    EXPECT_EQ(all.at(1).as_object().if_contains("most_cost"), nullptr);
    EXPECT_EQ(found.at("has_more"), false);
    EXPECT_GT(found.at("ends").to_number<double>(), 0);
    const JsonObject first = list(JsonObject{{"limit", 1}});
    EXPECT_EQ(first.at("used").as_array().size(), 1u);
    EXPECT_EQ(first.at("has_more"), true);
    EXPECT_THROW((void)list(JsonObject{{"search", std::string("a\0b", 3)}}), Error);
    const CommandResult shown = run_command(home, {"gateway", "usage", "ann"});
    EXPECT_NE(shown.output.find("user:http:ann\t1 of 3 messages\t100 of 1000 tokens\t$0.00\n"),
              std::string::npos)
        << shown.output;
    EXPECT_EQ(shown.output.find("bob"), std::string::npos) << shown.output;
}

TEST_F(GatewayUsage, D268_UsageWithoutLimits_NamesTheKey) {
    home.configure("{http: {listen: \"127.0.0.1:0\"}}");
    (void)start(home);
    const CommandResult shown = run_command(home, {"gateway", "usage"});
    EXPECT_NE(shown.status, 0);
    EXPECT_NE(shown.output.find("set gateway.limits"), std::string::npos) << shown.output;
}

TEST_F(GatewayUsage, D255_Tokens_CountSubagentsToTheirUser) {
    configure(home,
              "{per_user: {tokens: 300}, total: {tokens: 100000}}, rules: [{channel: http, "
              "user: olga, allow: [\"subagent: *\"]}]");
    const std::uint16_t port = start(home);
    const HttpReply answer = say(port, "olga", "s1", "delegate look");
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(model.calls(), 3) << answer.body;
    while (used(home, "user:http:olga").tokens < 3 * call_tokens) std::this_thread::yield();
    EXPECT_EQ(used(home, "user:http:olga"), (Used{1, 3 * call_tokens}));
    EXPECT_EQ(used(home, "total"), (Used{1, 3 * call_tokens}));
    EXPECT_NE(say(port, "olga", "s2", "more").body.find("the limit of 300 tokens a day"),
              std::string::npos);
    EXPECT_EQ(model.calls(), 3);
}

/// A model without a price would count as free.
TEST_F(GatewayUsage, D245_Subagent_HasAConfiguredModel) {
    configure(home, "{total: {tokens: 100000}}, rules: [{allow: [\"subagent: *\"]}]",
              "\ncompact_model: small");
    const std::uint16_t port = start(home);
    int calls = 0;
    for (const char* const refused : {"delegate to dear", "delegate to openai/dear"}) {
        EXPECT_EQ(say(port, "ann", "s1", refused).status, 200);
        EXPECT_EQ(model.calls(), calls += 2) << refused;
    }
    for (const char* const allowed : {"delegate to local", "delegate to openai/small"}) {
        EXPECT_EQ(say(port, "ann", "s1", allowed).status, 200);
        EXPECT_EQ(model.calls(), calls += 3) << allowed;
    }
}

TEST_F(GatewayUsage, D255_ApprovedCall_CountsToItsUser) {
    configure(home, "{per_user: {messages: 5, tokens: 100000}}");
    const std::uint16_t port = start(home);
    EXPECT_EQ(say(port, "ann", "s1", "write it").status, 200);
    const HttpReply approved =
        run(post_message(port, message_of("olga", "s1", ",approve call_0"), "approval"));
    EXPECT_EQ(approved.status, 200) << approved.body;
    EXPECT_EQ(model.calls(), 2);
    EXPECT_EQ(used(home, "user:http:ann"), (Used{1, 2 * call_tokens}));
    EXPECT_EQ(used(home, "user:http:olga"), Used());
}

TEST_F(GatewayUsage, D255_KilledTurn_CountsWhatItHasUsed) {
    configure(home, "{per_user: {messages: 1, tokens: 100000}}");
    std::uint16_t port = start(home);
    model.hold_after_tool("list it");
    std::thread client([port] { (void)say(port, "ann", "s1", "list it"); });
    model.wait_for_calls(2);
    // The first call has ended; what it has used is stored at once.
    while (used(home, "user:http:ann").tokens < call_tokens) std::this_thread::yield();
    gateway->kill();
    client.join();
    model.release();
    port = start(home);
    EXPECT_EQ(say(port, "ann", "s1", "list it").text(), "re: list it");
    EXPECT_EQ(model.calls(), 3);
    // The call in progress at the kill reported nothing; the message counts once.
    EXPECT_EQ(used(home, "user:http:ann"), (Used{1, 2 * call_tokens}));
    EXPECT_NE(say(port, "ann", "s1", "more").body.find(of_one_message), std::string::npos);
}

TEST_F(GatewayUsage, D255_TwoGateways_ShareTheLimits) {
    const GatewayHome other;
    const std::string database = "\ndatabase: \"" + new_database(home) + "\"";
    for (const GatewayHome* const one : {&home, &other})
        configure(*one, "{per_user: {messages: 5, tokens: 100000}}", database);
    GatewayProcess first(home, model.flags());
    GatewayProcess second(other, model.flags());
    const std::uint16_t ports[] = {first.wait_until_running(), second.wait_until_running()};
    constexpr int sent = 12;
    std::vector<HttpReply> replies(sent);
    std::vector<std::thread> clients;
    for (int i = 0; i < sent; ++i) {
        clients.emplace_back([&, i] {
            const std::string number = std::to_string(i);
            replies[static_cast<std::size_t>(i)] = say(ports[i % 2], "ann", "s" + number, number);
        });
    }
    for (std::thread& client : clients) client.join();
    int answered = 0;
    for (const HttpReply& reply : replies) {
        if (reply.body.find("the limit of 5 messages a day") == std::string::npos) ++answered;
    }
    EXPECT_EQ(answered, 5);
    EXPECT_EQ(model.calls(), 5);
    while (used(other, "user:http:ann").tokens < 5 * call_tokens) std::this_thread::yield();
    EXPECT_EQ(used(home, "user:http:ann"), (Used{5, 5 * call_tokens}));
    // One store, one list.
    const JsonObject usage{{"command", "usage"}};
    EXPECT_EQ(app::call_gateway(home.socket(), usage), app::call_gateway(other.socket(), usage));
    const HttpReply later = say(ports[0], "ann", "s0", "later");
    EXPECT_NE(later.body.find("the limit of 5 messages a day"), std::string::npos) << later.body;
}

TEST_F(GatewayUsage, D255_OtherGatewayContinues_CountsOnce) {
    const GatewayHome other;
    const std::string database = new_database(home);
    for (const GatewayHome* const one : {&home, &other})
        configure(*one, "{per_user: {messages: 1, tokens: 100000}}",
                  "\ndatabase: \"" + database + "\"");
    GatewayProcess second(other, model.flags());
    const std::uint16_t port_of_second = second.wait_until_running();
    const std::uint16_t port = start(home);
    model.hold_after_tool("list it");
    std::thread client([port] { (void)say(port, "ann", "s1", "list it"); });
    model.wait_for_calls(2);
    while (used(other, "user:http:ann").tokens < call_tokens) std::this_thread::yield();
    kill_and_replace(*gateway, database);
    client.join();
    model.release();
    model.wait_for_calls(3);
    HttpReply answer = say(port_of_second, "ann", "s1", "list it");
    while (answer.status == 202) answer = say(port_of_second, "ann", "s1", "list it");
    EXPECT_EQ(answer.text(), "re: list it");
    EXPECT_EQ(used(other, "user:http:ann"), (Used{1, 2 * call_tokens}));
}

TEST_F(GatewayUsage, D255_MissingTables_NameTheCommand) {
    const std::string url = new_database(home);
    (void)RawPostgres(url).query("DROP TABLE bub_usage_schema, bub_usage, bub_usage_messages");
    configure(home, "{per_user: {messages: 1}}", "\ndatabase: \"" + url + "\"");
    GatewayProcess refused(home, model.flags());
    EXPECT_NE(refused.wait(), 0);
    EXPECT_NE(refused.output().find("cubepi db migrate"), std::string::npos) << refused.output();
    EXPECT_EQ(run_command(home, {"db", "migrate", "--tapes", url}).status, 0);
    EXPECT_EQ(say(start(home), "ann", "s1", "one").text(), "re: one");
}

TEST_F(GatewayUsage, D255_MoneyWithoutPrice_IsRefusedAtStart) {
    configure(home, "{per_user: {money: 5}}");
    GatewayProcess refused(home, model.flags());
    EXPECT_NE(refused.wait(), 0);
    EXPECT_NE(refused.output().find("the price of the model 'local' is unknown"), std::string::npos)
        << refused.output();
}

class TelegramUsage : public ::testing::Test {
protected:
    TelegramUsage() {
        bot.with_api([](FakeBotApi& api) { api.add_chat(ann); });
        home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                       "\", progress: false, users: [42]}, time_zone: UTC, limits: {per_user: "
                       "{messages: 1}}, rules: [{channel: telegram, user: 42, allow: [\"schedule: "
                       "*\"]}]}");
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

    static constexpr std::int64_t ann = 42;
    const GatewayHome home;
    FakeBotServer bot{std::make_shared<SystemClock>()};
    EchoModel model;
    std::unique_ptr<GatewayProcess> gateway;
};

TEST_F(TelegramUsage, D255_MessageOverLimit_IsAnsweredInChat) {
    say("one");
    EXPECT_EQ(texts(1).back(), "re: one");
    say("two");
    const std::string refused = texts(2).back();
    EXPECT_NE(refused.find(of_one_message), std::string::npos) << refused;
    EXPECT_EQ(used(home, "user:telegram:42").messages, 1);
    EXPECT_EQ(model.count("two"), 0u);
}

TEST_F(TelegramUsage, D255_FiringOverLimit_IsAnsweredInChat) {
    const JsonObject call{{"action", "add"}, {"at", "+1m"}, {"text", "check the build"}};
    say("schedule " + boost::json::serialize(call));
    (void)texts(1);
    const JsonObject list = app::call_gateway(home.socket(), JsonObject{{"command", "schedules"}});
    ASSERT_EQ(list.at("schedules").as_array().size(), 1u) << boost::json::serialize(list);
    // Due at once: the gateway that starts next reads the file.
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0) << gateway->output();
    const std::filesystem::path file = home.path() / ".bub/deliveries/schedules.json";
    std::ifstream in(file);
    Json json = boost::json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
    json.at("schedules").at(0).as_object()["next"] =
        std::chrono::duration_cast<std::chrono::seconds>(
            std::chrono::system_clock::now().time_since_epoch())
            .count();
    std::ofstream(file) << boost::json::serialize(json);
    gateway = std::make_unique<GatewayProcess>(home, model.flags());
    const std::string refused = texts(2).back();
    EXPECT_NE(refused.find(of_one_message), std::string::npos) << refused;
    EXPECT_EQ(model.count("check the build"), 0u);
}

}  // namespace
}  // namespace cubepi::gateway_tests
