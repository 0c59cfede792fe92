// D109: the parts of a gateway share its HTTP servers.

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <cubepi/core/run.hpp>

#include "fake_bot_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::int64_t ann = 7;
const std::string bearer = "Authorization: Bearer 0123456789abcdef\r\n";
const std::string secret = "X-Telegram-Bot-Api-Secret-Token: the-secret\r\n";

/// A connection that sends and receives bytes as they are.
class Wire {
public:
    explicit Wire(std::uint16_t port) : socket_(context_) {
        socket_.connect({asio::ip::make_address("127.0.0.1"), port});
    }
    void send(const std::string& text) {
        boost::system::error_code ignored;
        asio::write(socket_, asio::buffer(text), ignored);
    }
    std::string read_until(const std::string& end) {
        boost::system::error_code failed;
        const std::size_t size =
            asio::read_until(socket_, asio::dynamic_buffer(buffer_), end, failed);
        std::string text = buffer_.substr(0, size);
        buffer_.erase(0, size);
        return text;
    }
    std::string read_all() {
        boost::system::error_code ended;
        asio::read(socket_, asio::dynamic_buffer(buffer_), ended);
        return std::exchange(buffer_, {});
    }

private:
    asio::io_context context_;
    tcp::socket socket_;
    std::string buffer_;
};

/// Returns the response to "GET /path", with the headers.
std::string ask(std::uint16_t port, const std::string& line, const std::string& headers = {},
                const std::string& body = {}) {
    Wire wire(port);
    wire.send(line + " HTTP/1.1\r\n" + headers + "Connection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
    return wire.read_all();
}

int status(std::uint16_t port, const std::string& line, const std::string& headers = {},
           const std::string& body = {}) {
    const std::string response = ask(port, line, headers, body);
    return response.size() < 12 ? 0 : std::stoi(response.substr(9, 3));
}

std::string message(const std::string& text) {
    return boost::json::serialize(JsonObject{{"session", "s1"}, {"text", text}});
}

/// A reverse proxy: adds its headers to the first request of each connection.
class Proxy {
public:
    Proxy(std::uint16_t upstream, std::string headers)
        : upstream_(upstream),
          headers_(std::move(headers)),
          acceptor_(context_, {asio::ip::make_address("127.0.0.1"), 0}),
          thread_([this] { serve(); }) {}
    ~Proxy() {
        ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
        thread_.join();
    }
    Proxy(const Proxy&) = delete;
    Proxy& operator=(const Proxy&) = delete;
    std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

private:
    void serve() {
        for (;;) {
            boost::system::error_code failed;
            tcp::socket client(context_);
            acceptor_.accept(client, failed);
            if (failed) return;
            std::string request;
            const std::size_t head =
                asio::read_until(client, asio::dynamic_buffer(request), "\r\n\r\n");
            request.insert(head - 2, headers_);
            tcp::socket server(context_);
            server.connect({asio::ip::make_address("127.0.0.1"), upstream_});
            asio::write(server, asio::buffer(request));
            std::string response;
            asio::read(server, asio::dynamic_buffer(response), failed);
            asio::write(client, asio::buffer(response), failed);
        }
    }

    const std::uint16_t upstream_;
    const std::string headers_;
    asio::io_context context_;
    tcp::acceptor acceptor_;
    std::thread thread_;
};

/// A gateway with the channel http, a webhook and a status address.
class GatewayHttp : public ::testing::Test {
protected:
    void configure(const std::string& http, const std::string& webhook,
                   const std::string& more = {}) const {
        home.configure("{http: {" + http +
                       "}, telegram: {users: [7], progress: false, api_url: \"" + bot.url() +
                       "\", webhook: {url: \"https://example.org/telegram\"" + webhook + "}}" +
                       more + "}");
    }
    void start() {
        bot.with_api([](bub::telegram::FakeBotApi& api) { api.add_chat(ann); });
        gateway = std::make_unique<GatewayProcess>(
            home, std::vector<std::string>(),
            std::vector<std::string>{"TELEGRAM_BOT_TOKEN=" + bot.token(),
                                     "TELEGRAM_WEBHOOK_SECRET=the-secret"});
        read_ports();
    }
    /// Reads the ports of the three parts from the log, and waits until the gateway runs.
    void read_ports() {
        for (int i = 0; i < 3; ++i) {
            const JsonObject record = gateway->wait_for("http_server.listening");
            const auto& name = record.at("name");
            (name == "status" ? status_port
             : name == "http" ? http_port
                              : webhook_port) = record.at("port").to_number<std::uint16_t>();
        }
        (void)gateway->wait_for("gateway.running");
        bot.wait_until([](const bub::telegram::FakeBotApi& api) { return !api.webhook.empty(); });
    }
    std::string update(std::int64_t id, const std::string& text) {
        const Json sent = bot.with_api(
            [&](bub::telegram::FakeBotApi& api) { return Json(api.message_of(ann, ann, text)); });
        return boost::json::serialize(JsonObject{{"update_id", id}, {"message", sent}});
    }
    /// Expects that each part answers at its port.
    void expect_service(const std::string& base = {}, const std::string& host = {}) {
        EXPECT_EQ(status(status_port, "GET " + base + "/healthz", host), 200);
        EXPECT_EQ(status(status_port, "GET " + base + "/readyz", host), 200);
        EXPECT_NE(
            ask(status_port, "GET " + base + "/metrics", host).find("cubepi_gateway_running_turns"),
            std::string::npos);
        const std::string answer =
            ask(http_port, "POST " + base + "/v1/messages", host + bearer, message("hello"));
        EXPECT_NE(answer.find("re: hello"), std::string::npos) << answer << gateway->output();
        const std::string text = "update " + std::to_string(++updates);
        EXPECT_EQ(status(webhook_port, "POST " + base + "/telegram", host + secret,
                         update(updates, text)),
                  200);
        bot.wait_until([&](const bub::telegram::FakeBotApi& api) {
            for (const std::string& sent : api.texts(ann))
                if (sent == "re: " + text) return true;
            return false;
        });
    }
    std::string reload() const {
        const CommandResult result = run_command(home, {"gateway", "reload"});
        return result.status == 0 ? "reloaded" : result.output;
    }

    const std::string free = R"("127.0.0.1:0")";
    GatewayHome home;
    FakeBotServer bot{std::make_shared<ScaledClock>(20)};
    std::unique_ptr<GatewayProcess> gateway;
    std::uint16_t http_port = 0;
    std::uint16_t webhook_port = 0;
    std::uint16_t status_port = 0;
    std::int64_t updates = 0;
};

TEST_F(GatewayHttp, D109_ConfigurationWithThreePorts_HasThree) {
    configure("listen: " + free, ", listen: " + free, ", status: " + free);
    start();
    EXPECT_NE(http_port, webhook_port);
    EXPECT_NE(http_port, status_port);
    expect_service();
    EXPECT_EQ(status(http_port, "GET /healthz"), 404);
    EXPECT_EQ(status(http_port, "POST /telegram", secret), 404);
    EXPECT_EQ(status(webhook_port, "POST /v1/messages", bearer, message("x")), 404);
    EXPECT_EQ(status(status_port, "POST /v1/messages", bearer, message("x")), 404);
}

TEST_F(GatewayHttp, McpClient_TalksToSessions) {
    configure("mcp: true", "", ", listen: \"127.0.0.1:0\"");
    start();
    const std::string url = "http://127.0.0.1:" + std::to_string(http_port) + "/mcp";
    EXPECT_EQ(status(http_port, "POST /mcp", secret, "{}"), 401);
    EXPECT_EQ(status(http_port, "POST /mcp", bearer + "Origin: https://evil.example\r\n", "{}"),
              403);
    const std::string header = bearer.substr(0, bearer.size() - 2);
    ASSERT_EQ(run_command(home, {"mcp", "add", "--header", header, "team", url}).status, 0);
    const auto call = [&](const std::string& tool, const std::string& arguments) {
        return run_command(home, {"mcp", "call", "--json", "team", tool, arguments}).output;
    };
    const std::string first = call("send_message", R"({"text":"hello"})");
    EXPECT_NE(first.find("re: hello"), std::string::npos) << first << gateway->output();
    const Json result = boost::json::parse(first).at("structuredContent");
    const std::string session(result.at("session").as_string());
    const std::string named = boost::json::serialize(JsonObject{{"session", session}});
    const std::string read = call("read_session", named);
    EXPECT_NE(read.find("hello"), std::string::npos) << read;
    EXPECT_NE(call("stop_session", named).find("\"ok\":true"), std::string::npos);
    EXPECT_NE(call("read_session", R"({"session":"../x"})").find("no session"), std::string::npos);
}

TEST_F(GatewayHttp, D109_CommonAddress_ServesAllParts) {
    configure("", "", ", listen: \"127.0.0.1:0\"");
    start();
    EXPECT_EQ(http_port, webhook_port);
    EXPECT_EQ(http_port, status_port);
    expect_service();
    // Each part has its own authentication.
    EXPECT_EQ(status(http_port, "POST /v1/messages", secret, message("x")), 401);
    EXPECT_EQ(status(http_port, "POST /v1/messages", {}, message("x")), 401);
    EXPECT_EQ(status(http_port, "GET /v1/sessions/s1", bearer), 200);
    EXPECT_EQ(status(http_port, "GET /v1/sessions/s1", "Authorization: Bearer the-secret\r\n"),
              401);
    EXPECT_EQ(status(http_port, "POST /telegram", bearer, update(100, "x")), 401);
    // Unknown paths do not depend on the client.
    for (const std::string& headers : {std::string(), bearer, secret}) {
        EXPECT_EQ(status(http_port, "GET /v1/unknown", headers), 404);
        EXPECT_EQ(status(http_port, "DELETE /v1/messages", headers), 405);
        EXPECT_EQ(status(http_port, "GET /v1/sessions/..", headers), 404);
        EXPECT_EQ(status(http_port, "GET /v1%2Fsessions/s1", headers), 404);
    }
    EXPECT_NE(ask(http_port, "DELETE /v1/messages").find("allow: POST\r\n"), std::string::npos);
}

TEST_F(GatewayHttp, D109_EachPart_HasItsLimits) {
    configure("max_body_mb: 2", "", ", listen: \"127.0.0.1:0\"");
    start();
    const std::string large = message(std::string(1'500'000, 'x'));
    EXPECT_EQ(status(http_port, "POST /v1/messages", bearer, large), 200);
    EXPECT_EQ(status(http_port, "POST /telegram", secret, large), 413);
    EXPECT_EQ(status(http_port, "POST /telegram", {}, large), 401);
    EXPECT_EQ(status(http_port, "GET /healthz", {}, "x"), 413);
    EXPECT_EQ(status(http_port, "POST /v1/messages", bearer, std::string(3'000'000, 'x')), 413);
}

TEST_F(GatewayHttp, D109_FloodedPart_LeavesTheOthers) {
    configure("", "", ", listen: \"127.0.0.1:0\"");
    start();
    const std::string unfinished = "Content-Length: 10\r\n\r\n{";
    const std::vector<std::string> floods = {
        "",
        "POST /v1/mess",
        "POST /v1/messages HTTP/1.1\r\n" + unfinished,
        "POST /telegram HTTP/1.1\r\n" + secret + unfinished,
        "POST /v1/messages HTTP/1.1\r\n" + bearer + unfinished,
    };
    std::vector<std::unique_ptr<Wire>> wires;
    for (const std::string& flood : floods) {
        wires.clear();
        for (int i = 0; i < 1100; ++i) {
            wires.push_back(std::make_unique<Wire>(http_port));
            wires.back()->send(flood);
        }
        EXPECT_EQ(status(http_port, "GET /healthz"), 200) << flood;
        EXPECT_EQ(status(http_port, "GET /metrics"), 200) << flood;
    }
    // The places of the channel are taken.
    EXPECT_EQ(status(http_port, "POST /v1/messages", bearer, message("x")), 503);
    wires.clear();
    while (status(http_port, "POST /telegram", secret, update(500, "after")) == 503) {
    }
    while (status(http_port, "POST /v1/messages", bearer, message("x")) == 503) {
    }
    expect_service();
}

TEST_F(GatewayHttp, D109_PathOfAnotherPart_IsRefused) {
    configure("", "", ", listen: " + free);
    start();
    configure("", ", path: /v1/messages", ", listen: " + free);
    EXPECT_NE(reload().find("the path /v1/messages of 'telegram' is one of 'http'"),
              std::string::npos);
    expect_service();
    configure("", ", path: /v1/messages, listen: " + free, ", listen: " + free);
    EXPECT_EQ(reload(), "reloaded");
}

TEST_F(GatewayHttp, D90_Reload_MovesPartsBetweenServers) {
    const std::string common = ", listen: \"127.0.0.1:0\"";
    configure("", "", common);
    start();
    Wire open(http_port);
    open.send("GET /healthz HTTP/1.1\r\n\r\n");
    EXPECT_NE(open.read_until("ok\n"), "");
    std::atomic<bool> over = false;
    std::future<std::string> lost = std::async(std::launch::async, [&, port = http_port] {
        std::string failures;
        while (!over) {
            const std::string health = ask(port, "GET /healthz");
            if (!health.ends_with("ok\n")) failures += health;
            const std::string unauthorized = ask(port, "POST /telegram");
            if (unauthorized.find(" 401 ") == std::string::npos) failures += unauthorized;
        }
        return failures;
    });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(reload(), "reloaded");
    over = true;
    EXPECT_EQ(lost.get(), "") << gateway->output();
    // The connection is one of the same server.
    open.send("GET /healthz HTTP/1.1\r\n\r\n");
    EXPECT_NE(open.read_until("ok\n"), "");
    for (int i = 0; i < 3; ++i) read_ports();

    configure("listen: " + free, ", listen: " + free, common);
    EXPECT_EQ(reload(), "reloaded");
    const std::uint16_t before = http_port;
    read_ports();
    EXPECT_NE(http_port, before);
    EXPECT_EQ(status_port, before);
    expect_service();
    EXPECT_EQ(status(before, "POST /v1/messages", bearer, message("x")), 404);
    const std::uint16_t unused = http_port;
    configure("", "", common);
    EXPECT_EQ(reload(), "reloaded");
    read_ports();
    expect_service();
    EXPECT_THROW(Wire{unused}, std::exception);
}

TEST_F(GatewayHttp, D109_ReverseProxy_IsTrustedOnlyIfListed) {
    const std::string common =
        ", listen: \"127.0.0.1:0\", base_path: /agents, allowed_hosts: [agents.example.org]";
    configure("", "", common + ", trusted_proxies: [127.0.0.1, 10.0.0.0/8]");
    start();
    const Proxy proxy(http_port,
                      "X-Forwarded-For: 192.0.2.1, 203.0.113.7, 10.0.0.2\r\n"
                      "X-Forwarded-Proto: https\r\nX-Forwarded-Host: agents.example.org\r\n");
    const std::uint16_t direct = http_port;
    http_port = webhook_port = status_port = proxy.port();
    expect_service("/agents", "Host: upstream:8080\r\n");
    for (const char* path : {"/healthz", "/agentshealthz", "/agents/../healthz", "/agents", "/"})
        EXPECT_EQ(status(proxy.port(), std::string("GET ") + path, "Host: upstream\r\n"), 404)
            << path;
    EXPECT_EQ(status(proxy.port(), "POST /agents/v1/messages", "Host: x\r\n"), 401);
    const JsonObject refused = gateway->wait_for("http_server.refused");
    EXPECT_EQ(refused.at("client"), "203.0.113.7");
    EXPECT_EQ(refused.at("name"), "http");
    // Not through the proxy: the names of this machine, or the allowed one.
    EXPECT_EQ(status(direct, "GET /agents/healthz", "Host: localhost:1\r\n"), 200);
    EXPECT_EQ(status(direct, "GET /agents/healthz", "Host: agents.example.org\r\n"), 200);
    for (const char* host :
         {"Host: evil.example\r\n", "", "Host: localhost\r\nX-Forwarded-Host: evil.example\r\n"})
        EXPECT_EQ(status(direct, "GET /agents/healthz", host), 421) << host;

    configure("", "", common);
    EXPECT_EQ(reload(), "reloaded");
    // The headers of a proxy that is not listed are those of any client.
    EXPECT_EQ(status(proxy.port(), "GET /agents/healthz", "Host: upstream\r\n"), 421);
    EXPECT_EQ(status(proxy.port(), "POST /agents/v1/messages", "Host: localhost\r\n"), 401);
    JsonObject last;
    do last = gateway->wait_for("http_server.refused");
    while (last.at("status") != 401);
    EXPECT_EQ(last.at("client"), "127.0.0.1");
}

}  // namespace
}  // namespace cubepi::gateway_tests
