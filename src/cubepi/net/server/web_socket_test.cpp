#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/connect.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/net/server/http_server_test_support.hpp>

namespace cubepi::http_server_tests {

namespace {

namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;

/// A client of RFC 6455, not one of this project.
class SocketClient {
public:
    explicit SocketClient(std::uint16_t port, const std::string& path = "/socket")
        : socket_(context_) {
        socket_.next_layer().connect({asio::ip::make_address("127.0.0.1"), port});
        socket_.handshake("localhost", path);
    }
    void send(const std::string& text, bool is_text = true) {
        socket_.text(is_text);
        socket_.write(asio::buffer(text));
    }
    /// Returns the code of the end in place of a message: "closed 1001".
    std::string receive() {
        std::string text;
        auto buffer = asio::dynamic_buffer(text);
        beast::error_code failed;
        socket_.read(buffer, failed);
        if (failed) return "closed " + std::to_string(socket_.reason().code);
        return text;
    }
    void close() { socket_.close(websocket::close_code::normal); }
    void cut() { socket_.next_layer().close(); }

private:
    asio::io_context context_;
    websocket::stream<tcp::socket> socket_;
};

Task<> echo(WebSocket* socket) {
    for (;;) {
        std::optional<std::string> text = co_await socket->read();
        if (!text || *text == "end") co_return;
        if (*text == "throw") throw Error(ErrorCode::io, "on purpose");
        co_await socket->write(std::move(*text));
    }
}

/// A server with a WebSocket that returns its messages.
class WebSocketTest : public ::testing::Test {
protected:
    WebSocketTest() {
        served.routes().add("GET", "/socket", [](HttpServerRequest) -> Task<HttpServerResponse> {
            HttpServerResponse response;
            response.web_socket = [](WebSocket& socket) { return echo(&socket); };
            co_return response;
        });
        served.start();
    }
    static HttpRouteOptions limits() {
        HttpRouteOptions options;
        options.max_body_bytes = 1000;
        return options;
    }

    Served served{HttpServerOptions(), limits()};
};

TEST_F(WebSocketTest, Messages_PassInBothDirections) {
    SocketClient client(served.port());
    for (int round = 0; round < 8; ++round) {
        for (int i = 0; i < 8; ++i) client.send(std::to_string(i));
        for (int i = 0; i < 8; ++i) EXPECT_EQ(client.receive(), std::to_string(i));
    }
    client.send("end");
    EXPECT_EQ(client.receive(), "closed 1001");
}

TEST_F(WebSocketTest, OtherRequest_IsAskedForAnUpgrade) {
    Wire wire(served);
    wire.send("GET /socket HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(wire.read_all().starts_with("HTTP/1.1 426 "));
}

/// A connection with TLS that sends and receives bytes as they are.
class TlsWire {
public:
    explicit TlsWire(std::uint16_t port) : stream_(context_, tls_) {
        stream_.next_layer().connect({asio::ip::make_address("127.0.0.1"), port});
        stream_.handshake(asio::ssl::stream_base::client);
    }
    void send(const std::string& bytes) { asio::write(stream_, asio::buffer(bytes)); }
    std::string read(std::size_t size) {
        std::string bytes(size, '\0');
        asio::read(stream_, asio::buffer(bytes));
        return bytes;
    }
    std::string read_until(const std::string& end) {
        std::string text;
        while (!text.ends_with(end)) text += read(1);
        return text;
    }
    /// Returns true if the server ends the connection with the alert of TLS.
    bool is_closed_cleanly() {
        beast::error_code ended;
        char byte = 0;
        asio::read(stream_, asio::buffer(&byte, 1), ended);
        return ended == asio::error::eof;
    }

private:
    asio::io_context context_;
    asio::ssl::context tls_{asio::ssl::context::tls_client};
    asio::ssl::stream<tcp::socket> stream_;
};

/// Returns a frame of a client whose mask is zero.
std::string client_frame(char opcode, const std::string& text) {
    return std::string{static_cast<char>(0x80 | opcode), static_cast<char>(0x80 | text.size())} +
           std::string(4, '\0') + text;
}

TEST_F(WebSocketTest, Tls_CarriesRequestsAndMessages) {
    const ScopedTestDirectory files;
    const std::string create =
        "cd " + files.path().string() +
        " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
        "-keyout key.pem -out cert.pem -days 2 -subj /CN=localhost 2>/dev/null";
    ASSERT_EQ(std::system(create.c_str()), 0);
    served.call([&] {
        HttpAccess access;
        access.certificate = read_certificate(files / "cert.pem", files / "key.pem");
        served.server().set_access(std::move(access));
    });
    TlsWire client(served.port());
    // More than a record of TLS and a buffer of the server, in both directions.
    const std::string query(12'000, 'q');
    const std::string body(1000, 'b');
    client.send("POST /echo/name?" + query +
                " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + body);
    EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
    const std::string expected = "name?" + query + "=" + body;
    EXPECT_EQ(client.read(expected.size()), expected);
    client.send(
        "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 101 "));
    for (int round = 0; round < 8; ++round) {
        client.send(client_frame(1, "hello"));
        EXPECT_EQ(client.read(7), std::string("\x81\x05hello"));
    }
    // The client closes: the server answers, and then ends TLS.
    client.send(client_frame(8, "\x03\xe8"));
    EXPECT_EQ(client.read(4), std::string("\x88\x02\x03\xe8"));
    EXPECT_TRUE(client.is_closed_cleanly());
}

TEST_F(WebSocketTest, InvalidMessage_EndsTheConnection) {
    SocketClient too_long(served.port());
    too_long.send(std::string(1001, 'x'));
    EXPECT_EQ(too_long.receive(), "closed 1009");
    SocketClient binary(served.port());
    binary.send("x", false);
    EXPECT_EQ(binary.receive(), "closed 1003");
    SocketClient not_utf8(served.port());
    not_utf8.send("\xff");
    EXPECT_EQ(not_utf8.receive(), "closed 1007");
    Wire wire(served);
    wire.send(
        "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 7\r\n\r\n");
    EXPECT_TRUE(wire.read_all().starts_with("HTTP/1.1 426 "));
}

TEST_F(WebSocketTest, ThrowingHandler_EndsItsConnectionOnly) {
    SocketClient client(served.port());
    SocketClient other(served.port());
    client.send("throw");
    EXPECT_EQ(client.receive(), "closed 1001");
    other.send("x");
    EXPECT_EQ(other.receive(), "x");
}

/// Waits until the client is gone.
Task<> hold(std::stop_token closed) {
    AsyncEvent gone;
    const std::stop_callback on_close(closed, [&gone] { gone.set(); });
    co_await gone.wait();
}

TEST_F(WebSocketTest, D243_NinthWaitingMessage_EndsTheConnection) {
    served.call([&] {
        served.routes().add("GET", "/held",
                            [](HttpServerRequest request) -> Task<HttpServerResponse> {
                                HttpServerResponse response;
                                response.web_socket = [closed = request.closed](WebSocket&) {
                                    return hold(closed);
                                };
                                co_return response;
                            });
    });
    SocketClient many(served.port(), "/held");
    for (int i = 0; i < 9; ++i) many.send("x");
    EXPECT_EQ(many.receive(), "closed 1013");
    SocketClient large(served.port(), "/held");
    for (int i = 0; i < 2; ++i) large.send(std::string(600, 'x'));
    EXPECT_EQ(large.receive(), "closed 1013");
}

Task<> flood(WebSocket* socket, std::promise<void>* ended) {
    Outcome<> written{std::monostate()};
    while (written) {
        Task<> writing = socket->write(std::string(1 << 20, 'x'));
        written = co_await outcome_of(std::move(writing));
    }
    ended->set_value();
    written.rethrow();
}

TEST(WebSocketTimeout, ClientThatDoesNotRead_EndsItsHandler) {
    std::ostringstream log;
    HttpServerOptions options;
    options.write_timeout = 50ms;
    options.idle_timeout = std::chrono::hours(1);
    options.log = Logger(std::make_shared<StreamLogSink>(log, LogFormat::text), LogLevel::warning);
    Served served(options);
    std::promise<void> ended;
    served.routes().add("GET", "/socket", [&](HttpServerRequest) -> Task<HttpServerResponse> {
        HttpServerResponse response;
        response.web_socket = [&](WebSocket& socket) { return flood(&socket, &ended); };
        co_return response;
    });
    served.start();
    const SocketClient client(served.port());
    ended.get_future().wait();
    served.run_task(served.routes().stop(std::chrono::hours(1)));
    EXPECT_EQ(log.str(), "");
}

TEST_F(WebSocketTest, ClientThatLeaves_EndsItsHandler) {
    {
        SocketClient client(served.port());
        client.send("x");
        EXPECT_EQ(client.receive(), "x");
        client.close();
    }
    SocketClient cut(served.port());
    cut.send("x");
    EXPECT_EQ(cut.receive(), "x");
    cut.cut();
    // Waits for all requests in progress.
    served.run_task(served.routes().stop(std::chrono::hours(1)));
}

TEST_F(WebSocketTest, Stop_EndsSocketsThatWait) {
    SocketClient client(served.port());
    client.send("x");
    EXPECT_EQ(client.receive(), "x");
    std::future<std::string> end = std::async(std::launch::async, [&] { return client.receive(); });
    served.run_task(served.routes().stop(std::chrono::hours(1)));
    EXPECT_EQ(end.get(), "closed 1001");
}

}  // namespace

}  // namespace cubepi::http_server_tests
