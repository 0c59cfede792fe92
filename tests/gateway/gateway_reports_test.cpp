// Reports of the turns of a gateway to senders, operators and monitoring (D98).

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../joints/model_server.hpp"
#include "fake_bot_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

using joint_tests::ModelServer;

/// Words that no user of a gateway may see.
constexpr const char* secret_words[] = {"gpt-secret", "127.0.0.1", "bad_request", "/srv/models",
                                        "SELECT",     "provider",  "run_model"};

std::string refusing_model() {
    return joint_tests::refusal(
        400, R"({"error":{"message":"gpt-secret in /srv/models refused SELECT * FROM keys)" +
                 std::string(300, '.') + R"(the end"}})");
}

/// An answer with 12 tokens in and 3 out.
std::string counted_answer(const std::string& text) {
    const std::string usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3}}\n\n";
    std::string answer = joint_tests::chat_answer(text);
    return answer.insert(answer.rfind("data: [DONE]"), usage);
}

std::vector<std::string> flags(const ModelServer& model) {
    return {"--provider", "openai", "--base-url", model.url(), "-m", "gpt-secret"};
}

HttpReply post(std::uint16_t port, const std::string& text, const std::string& key = {}) {
    return run(post_message(port, JsonObject{{"session", "s1"}, {"text", text}}, key));
}

void expect_neutral(const std::string& text) {
    for (const char* const word : secret_words)
        EXPECT_EQ(text.find(word), std::string::npos) << word << ": " << text;
}

/// Returns the id of an error in a text for a user; empty if there is none.
std::string error_id(const std::string& text) {
    constexpr std::size_t digits = 8;
    const std::string before = "(error ";
    const std::size_t at = text.find(before);
    if (at == std::string::npos) return "";
    const std::string id = text.substr(at + before.size(), digits);
    const bool is_id = id.size() == digits && id.find_first_not_of("0123456789abcdef") == id.npos &&
                       text.substr(at + before.size() + digits).starts_with(")");
    return is_id ? id : "";
}

TEST(Reports, D98_ModelFails_SenderSeesAnIdOnly) {
    const GatewayHome home;
    const ModelServer model({refusing_model()});
    GatewayProcess gateway(home, flags(model));
    const HttpReply reply = post(gateway.wait_until_running(), "hello");
    EXPECT_EQ(reply.json().at("ok"), false) << reply.body;
    expect_neutral(reply.body);
    const std::string id = error_id(reply.text());
    EXPECT_NE(id, "") << reply.body;
    EXPECT_EQ(detail::text_member(*detail::object_member(reply.json(), "error"), "message"),
              reply.text());
    const JsonObject record = gateway.wait_for("turn.error");
    EXPECT_EQ(detail::text_member(record, "id"), id);
    EXPECT_NE(detail::text_member(record, "text").find("gpt-secret in /srv/models"),
              std::string::npos);
    EXPECT_TRUE(detail::text_member(record, "text_2").ends_with("the end"));
}

TEST(Reports, D98_ShowErrorDetails_SenderSeesTheFailure) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, show_error_details: true})");
    const ModelServer model({refusing_model()});
    GatewayProcess gateway(home, flags(model));
    const HttpReply reply = post(gateway.wait_until_running(), "hello");
    EXPECT_NE(reply.text().find("gpt-secret in /srv/models"), std::string::npos) << reply.body;
    EXPECT_NE(error_id(reply.text()), "");
}

TEST(Reports, D98_TurnLimit_IsToldWithoutDetails) {
    const GatewayHome home;
    const ModelServer model({joint_tests::chat_answer("", {{"list", R"({"path":"."})", "c1"}})});
    home.configure("{http: {listen: \"127.0.0.1:0\"}}\nmax_turns: 2");
    GatewayProcess gateway(home, flags(model));
    const HttpReply reply = post(gateway.wait_until_running(), "hello");
    EXPECT_NE(reply.body.find("a limit of this service was reached"), std::string::npos)
        << reply.body;
    expect_neutral(reply.body);
}

TEST(Reports, D98_MessageThatIsNotStored_HasNoDetails) {
    const GatewayHome home;
    GatewayProcess gateway(home);
    const std::uint16_t port = gateway.wait_until_running();
    const rlimit nothing{1, 1};
    ASSERT_EQ(prlimit(gateway.pid(), RLIMIT_FSIZE, &nothing, nullptr), 0);
    const HttpReply reply = post(port, "hello");
    EXPECT_EQ(reply.status, 503) << reply.body;
    EXPECT_NE(error_id(reply.body), "") << reply.body;
    EXPECT_EQ(reply.body.find(home.path().string()), std::string::npos) << reply.body;
}

TEST(Reports, D98_UserOfTelegram_SeesAnIdOnly) {
    const GatewayHome home;
    FakeBotServer bot{std::make_shared<SystemClock>()};
    home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                   "\", users: [42]}}");
    const ModelServer model({refusing_model()});
    GatewayProcess gateway(home, flags(model));
    (void)gateway.wait_for("gateway.running");
    bot.with_api([](bub::telegram::FakeBotApi& api) { api.say(42, "hello"); });
    bot.wait_until([](bub::telegram::FakeBotApi& api) { return !api.texts(42).empty(); });
    const std::string text =
        bot.with_api([](bub::telegram::FakeBotApi& api) { return api.texts(42); }).front();
    expect_neutral(text);
    EXPECT_EQ(detail::text_member(gateway.wait_for("turn.error"), "id"), error_id(text)) << text;
}

TEST(Reports, D98_EachTurn_IsOneLineWithoutContent) {
    const GatewayHome home;
    const ModelServer model({counted_answer("the secret answer"), refusing_model()});
    GatewayProcess gateway(home, flags(model));
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, "the secret question", "order-17");
    const JsonObject answered = gateway.wait_for("turn.ended");
    EXPECT_EQ(answered.at("session"), "http:s1");
    EXPECT_EQ(answered.at("message"), "order-17");
    EXPECT_EQ(answered.at("channel"), "http");
    EXPECT_EQ(answered.at("outcome"), "answered");
    EXPECT_TRUE(answered.at("duration_ms").is_number());
    EXPECT_EQ(answered.at("input_tokens"), 12);
    EXPECT_EQ(answered.at("output_tokens"), 3);
    EXPECT_EQ(answered.at("model"), "gpt-secret");
    (void)post(port, "the second question", "order-18");
    const JsonObject failed = gateway.wait_for("turn.ended");
    EXPECT_EQ(failed.at("message"), "order-18");
    EXPECT_EQ(failed.at("outcome"), "failed");
    EXPECT_EQ(failed.at("error"), "bad_request");
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0);
    for (const char* const text : {"secret answer", "secret question", "second question"})
        EXPECT_EQ(gateway.output().find(text), std::string::npos) << gateway.output();
}

TEST(Reports, D98_Metrics_CountMessagesByChannel) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, status: "127.0.0.1:0"})");
    const ModelServer model(
        {counted_answer("one"), refusing_model(),
         joint_tests::chat_answer("", {{"write", R"({"path":"a","content":"b"})", "c1"}})});
    GatewayProcess gateway(home, flags(model));
    std::uint16_t status = 0;
    std::uint16_t port = 0;
    while (status == 0 || port == 0) {
        const JsonObject listening = gateway.wait_for("http_server.listening");
        const auto number = listening.at("port").to_number<std::uint16_t>();
        (listening.at("name") == "status" ? status : port) = number;
    }
    (void)gateway.wait_for("gateway.running");
    const std::string first = run(http_get(status, "/metrics")).body;
    EXPECT_NE(first.find("cubepi_gateway_messages_received_total{channel=\"http\"} 0\n"),
              std::string::npos)
        << first;
    for (const char* const text : {"one", "two", "three"}) {
        (void)post(port, text);
        (void)gateway.wait_for("turn.ended");
    }
    const std::string metrics = run(http_get(status, "/metrics")).body;
    for (const char* const line : {
             "messages_received_total{channel=\"http\"} 3\n",
             "messages_answered_total{channel=\"http\"} 2\n",
             "messages_failed_total{channel=\"http\"} 1\n",
             "messages_held_total{channel=\"http\"} 0\n",
             "held_messages{channel=\"http\"} 0\n",
             "open_questions{channel=\"http\"} 1\n",
             "latency_seconds_count{channel=\"http\"} 3\n",
             "tokens_total{channel=\"http\",type=\"input\"} 12\n",
             "tokens_total{channel=\"http\",type=\"output\"} 3\n",
             "cost_USD_total{channel=\"http\"} 0\n",
         })
        EXPECT_NE(metrics.find(std::string("\ncubepi_gateway_") + line), std::string::npos)
            << line << metrics;
}

/// A gateway whose sessions are in a new database of the test server.
class Tables : public ::testing::Test {
protected:
    Tables() {
        PostgresServer& server = PostgresServer::shared();
        database = server.create_empty_database();
        url = "postgres://cubepi@";
        for (const char c : server.socket_directory())
            url += c == '/' ? std::string("%2F") : std::string(1, c);
        url += "/" + database;
        home.configure("{http: {listen: \"127.0.0.1:0\"}}\ndatabase: \"" + url + "\"");
    }
    /// Starts a gateway that does not start; returns its output.
    std::string failed_start() const {
        GatewayProcess gateway(home);
        EXPECT_EQ(gateway.wait(), 4);
        return gateway.output();
    }

    const GatewayHome home;
    std::string database;
    std::string url;
};

TEST_F(Tables, D98_MissingTables_GatewayDoesNotStart) {
    const std::string output = failed_start();
    EXPECT_NE(output.find("cubepi db init"), std::string::npos) << output;
    EXPECT_EQ(run_command(home, {"db", "init"}).status, 0);
    GatewayProcess gateway(home);
    EXPECT_EQ(post(gateway.wait_until_running(), "hello").text(), "re: hello");
}

/// Of the database, and of the files of another gateway.
TEST_F(Tables, D209_StoresInUse_AreChecked) {
    EXPECT_EQ(run_command(home, {"db", "init"}).status, 0);
    GatewayHome files;
    files.configure("{http: {listen: \"127.0.0.1:0\"}}");
    for (const GatewayHome* const one : std::initializer_list<const GatewayHome*>{&home, &files}) {
        GatewayProcess gateway(*one);
        const std::uint16_t port = gateway.wait_until_running();
        EXPECT_EQ(post(port, "hello").text(), "re: hello");
        const CommandResult checked = run_command(*one, {"db", "check", "--json"});
        EXPECT_EQ(checked.status, 0) << checked.output;
        EXPECT_NE(checked.output.find("\"tapes\":1,"), std::string::npos) << checked.output;
        EXPECT_NE(checked.output.find("\"unsettled answers\":"), std::string::npos)
            << checked.output;
        // The messages of the first one are in tables.
        const bool has_tables =
            checked.output.find("\"deliveries in PostgreSQL") != std::string::npos;
        EXPECT_EQ(has_tables, one == &home) << checked.output;
        EXPECT_EQ(post(port, "again").text(), "re: again");
    }
}

TEST_F(Tables, D98_TablesOfOtherVersions_GatewayDoesNotStart) {
    EXPECT_EQ(run_command(home, {"db", "init"}).status, 0);
    RawPostgres connection(PostgresServer::shared().connection(database));
    (void)connection.query("DELETE FROM bub_schema WHERE version = 2");
    (void)connection.query("UPDATE bub_schema SET version = 1");
    const std::string older = failed_start();
    EXPECT_NE(older.find("cubepi db migrate"), std::string::npos) << older;
    (void)connection.query("UPDATE bub_schema SET version = 1000");
    const std::string newer = failed_start();
    EXPECT_NE(newer.find("update the program"), std::string::npos) << newer;
}

}  // namespace
}  // namespace cubepi::gateway_tests
