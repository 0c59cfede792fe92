// D90: a reload leaves a service, whatever the new configuration is.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <cubepi/core/run.hpp>
#include <cubepi/net/http_server.hpp>

#include "fake_bot_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

constexpr std::int64_t ann = 7;

HttpReply post(std::uint16_t port, const std::string& session, const std::string& text) {
    return run(post_message(port, JsonObject{{"session", session}, {"text", text}}));
}

std::string address(std::uint16_t port) { return "\"127.0.0.1:" + std::to_string(port) + "\""; }

/// A gateway with the channel http and a bot of Telegram.
class ReloadTest : public ::testing::Test {
protected:
    void configure(const std::string& http, const std::string& telegram,
                   const std::string& more = {}) const {
        home.configure("{http: {" + http + "}, telegram: {users: [7], api_url: \"" + bot.url() +
                       "\", " + telegram + "}" + more + "}");
    }
    void start(std::vector<std::string> environment = {}) {
        environment.push_back("TELEGRAM_BOT_TOKEN=" + bot.token());
        bot.with_api([](bub::telegram::FakeBotApi& api) { api.add_chat(ann); });
        configure(listen_free, polls);
        gateway = std::make_unique<GatewayProcess>(home, std::vector<std::string>(), environment);
        port = gateway->wait_until_running();
    }
    std::string reload() const {
        const CommandResult result = run_command(home, {"gateway", "reload"});
        return result.status == 0 ? "reloaded" : result.output;
    }
    /// Expects that both channels serve.
    void expect_service(const std::string& text) {
        ASSERT_EQ(post(port, "s", text).text(), "re: " + text) << gateway->output();
        bot.with_api([&](bub::telegram::FakeBotApi& api) { (void)api.say(ann, text); });
        bot.wait_until([&](const bub::telegram::FakeBotApi& api) {
            for (const std::string& sent : api.texts(ann))
                if (sent == "re: " + text) return true;
            return false;
        });
    }
    void expect_refusal(const std::string& reason) {
        const std::string output = reload();
        EXPECT_NE(output.find(reason), std::string::npos) << output;
        EXPECT_NE(run_command(home, {"gateway", "status"}).output.find("running"),
                  std::string::npos);
        expect_service(reason);
    }

    const std::string listen_free = R"(listen: "127.0.0.1:0")";
    const std::string polls = "progress: false";
    GatewayHome home;
    FakeBotServer bot{std::make_shared<ScaledClock>(20)};
    std::unique_ptr<GatewayProcess> gateway;
    std::uint16_t port = 0;
};

TEST_F(ReloadTest, D90_PortInUse_LeavesTheOldConfiguration) {
    boost::asio::io_context context;
    HttpServer taken(context.get_executor());
    taken.open();
    const std::string used = address(taken.port());
    start({"TELEGRAM_WEBHOOK_SECRET=secret"});
    configure("listen: " + used, polls);
    expect_refusal("gateway.http.listen: cannot listen on 127.0.0.1");
    configure(listen_free, polls, ", status: " + used);
    expect_refusal("gateway.status: cannot listen on 127.0.0.1");
    configure(listen_free, "webhook: {url: \"https://example.org\", listen: " + used + "}");
    expect_refusal("gateway.telegram.webhook.listen: cannot listen on 127.0.0.1");
    configure(listen_free + ", certificate: /no/such.pem, key: /no/such.pem", polls);
    expect_refusal("cannot use the certificate");
}

TEST_F(ReloadTest, D205_OtherDatabase_NeedsARestart) {
    start();
    // It is refused before anything connects to it.
    home.configure("{http: {" + listen_free + "}, telegram: {users: [7], api_url: \"" + bot.url() +
                   "\", " + polls + "}}\ndatabase: \"postgres://cubepi@127.0.0.1:1/none\"");
    expect_refusal("a change of 'database' or of 'gateway.tape_namespace' needs a restart");
    configure(listen_free, polls);
    EXPECT_EQ(reload(), "reloaded");
    port = gateway->wait_until_running();
    expect_service("as before");
}

TEST_F(ReloadTest, D90_WrongOrUnreachableBot_LeavesTheOldConfiguration) {
    start();
    configure(listen_free, "token: \"42:another-secret-of-a-bot\"");
    expect_refusal("Telegram does not know the bot token");
    home.configure(R"({http: {listen: "127.0.0.1:0"}, telegram: {users: [7], )"
                   R"(api_url: "http://127.0.0.1:1"}})");
    expect_refusal("Telegram did not answer getMe");
    configure(listen_free, polls, ", threads: 1");
    EXPECT_EQ(reload(), "reloaded");
    port = gateway->wait_until_running();
    expect_service("after all");
}

TEST_F(ReloadTest, D90_ChannelFailsToStart_LeavesTheOldConfiguration) {
    const std::string broken = (home.path() / "broken").string();
    start({"CUBEPI_TEST_BREAKS=" + broken});
    std::ofstream(broken) << "";
    configure(listen_free, polls, ", threads: 1");
    expect_refusal("the channel is broken");
    EXPECT_EQ(reload(), "reloaded");
    expect_service("repaired");
    // No manager of the failed configuration has answered too.
    const std::vector<std::string> texts =
        bot.with_api([](const bub::telegram::FakeBotApi& api) { return api.texts(ann); });
    for (const char* text : {"re: the channel is broken", "re: repaired"})
        EXPECT_EQ(std::count(texts.begin(), texts.end(), text), 1) << text;
    const std::string status = run_command(home, {"gateway", "status"}).output;
    EXPECT_NE(status.find("Channels:   breaking, http, telegram"), std::string::npos) << status;
}

TEST_F(ReloadTest, D90_TlsAfterReload_ClosesPlainConnections) {
    const std::string files = home.path().string();
    ASSERT_EQ(
        std::system(("cd " + files +
                     " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
                     "-keyout key.pem -out cert.pem -days 2 -subj /CN=localhost 2>/dev/null")
                        .c_str()),
        0);
    start();
    boost::asio::io_context context;
    boost::asio::ip::tcp::socket plain(context);
    plain.connect({boost::asio::ip::make_address("127.0.0.1"), port});
    const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    std::string received;
    boost::asio::write(plain, boost::asio::buffer(request));
    boost::asio::read_until(plain, boost::asio::dynamic_buffer(received), "}}\n");
    configure("listen: " + address(port) + ", certificate: " + files + "/cert.pem, key: " + files +
                  "/key.pem",
              polls);
    EXPECT_EQ(reload(), "reloaded");
    // Not even the beginning of a handshake answers it.
    boost::system::error_code ended;
    boost::asio::write(plain, boost::asio::buffer(request), ended);
    received.clear();
    boost::asio::read(plain, boost::asio::dynamic_buffer(received), ended);
    EXPECT_TRUE(ended);
    EXPECT_EQ(received, "");
    EXPECT_EQ(post(port, "s", "plain").status, 0);
}

TEST_F(ReloadTest, D90_StatusAddress_IsApplied) {
    start();
    configure(listen_free, polls, R"(, status: "127.0.0.1:0")");
    EXPECT_EQ(reload(), "reloaded");
    JsonObject listening;
    do listening = gateway->wait_for("http_server.listening");
    while (!listening.empty() && listening.at("name") != "status");
    const auto status = listening.at("port").to_number<std::uint16_t>();
    EXPECT_EQ(run(http_get(status, "/readyz")).status, 200);
    EXPECT_NE(run(http_get(status, "/metrics")).body.find("cubepi_gateway_running_turns"),
              std::string::npos);
    configure(listen_free, polls);
    EXPECT_EQ(reload(), "reloaded");
    EXPECT_EQ(run(http_get(status, "/readyz")).status, 0);
    // The ports of both servers change places.
    configure("listen: " + address(port), polls, ", status: " + address(status));
    EXPECT_EQ(reload(), "reloaded");
    configure("listen: " + address(status), polls, ", status: " + address(port));
    EXPECT_EQ(reload(), "reloaded");
    EXPECT_EQ(run(http_get(port, "/readyz")).status, 200);
    EXPECT_EQ(post(status, "s", "hello").text(), "re: hello");
}

TEST_F(ReloadTest, D90_Reloads_LoseNoConnectionOrMessage) {
    start();
    std::atomic<bool> over = false;
    std::future<std::string> lost = std::async(std::launch::async, [&] {
        std::string failures;
        for (int i = 0; !over; ++i) {
            const std::string text = "m" + std::to_string(i);
            const JsonObject message{{"session", "s" + std::to_string(i % 3)}, {"text", text}};
            HttpReply reply = run(post_message(port, message, text));
            // The configuration ended before the turn began; the next one runs it.
            while (reply.status == 202 || reply.status == 503)
                reply = run(post_message(port, message, text));
            if (reply.text() != "re: " + text)
                failures += text + ": " + std::to_string(reply.status) + " " + reply.body + "\n";
        }
        return failures;
    });
    for (int i = 0; i < 5; ++i) EXPECT_EQ(reload(), "reloaded");
    over = true;
    EXPECT_EQ(lost.get(), "") << gateway->output();
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0) << gateway->output();
}

}  // namespace
}  // namespace cubepi::gateway_tests
