#include "fetching.hpp"
#include "raw_server.hpp"

#include <cubepi/net/network_error.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

namespace cubepi::wire {
namespace {

using namespace std::chrono_literals;

HttpRequest request_to(const std::string& url) {
    HttpRequest request("POST", url);
    request.body = "b";
    request.headers.add("authorization", "Bearer sk-secret");
    return request;
}

/// Advances a clock until the peer has disconnected.
void let_time_pass(Connection& connection, testing::ManualClock& clock) {
    while (!connection.closed()) {
        clock.advance(1s);
        std::this_thread::yield();
    }
}

RawServer::Handler answer_once(std::string answer) {
    return [answer = std::move(answer)](Connection& connection) {
        connection.read_request();
        connection.send(answer);
    };
}

void expect_clean(const Failure& failure) {
    EXPECT_EQ(failure.text.find("secret"), std::string::npos) << failure.text;
    EXPECT_EQ(failure.text.find("/path"), std::string::npos) << failure.text;
}

Failure fail_at(const std::string& url) {
    HttpClient client(with_env());
    Failure failure = try_fetch(client, request_to(url));
    expect_clean(failure);
    return failure;
}

// ---- failures of connections

TEST(HttpFailure, ConnectionRefused_IsAConnectError) {
    const std::string port = std::to_string(closed_port());
    const Failure failure = fail_at("http://127.0.0.1:" + port + "/path?key=secret");
    EXPECT_EQ(failure.code, ErrorCode::connect);
    EXPECT_EQ(failure.text, "Cannot connect to 127.0.0.1:" + port +
                                ": Connection refused. Check that the server is running and that "
                                "the address is right.");
}

TEST(HttpFailure, UnknownName_IsADnsError) {
    HttpClientOptions options = with_env();
    options.resolver = [](const std::string& host) -> std::vector<std::string> {
        throw NetworkError(ErrorCode::dns, host, false, "Cannot find the server " + host + ".");
    };
    HttpClient client(std::move(options));
    const Failure failure = try_fetch(client, request_to("http://no.example/path"));
    EXPECT_EQ(failure.code, ErrorCode::dns);
    EXPECT_EQ(failure.text, "Cannot find the server no.example.");
}

TEST(HttpFailure, FailedSystemResolver_IsADnsError) {
    try {
        resolve_with_system("no-such-name.invalid");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::dns);
        EXPECT_NE(std::string(error.what()).find("no-such-name.invalid"), std::string::npos);
    }
}

TEST(HttpFailure, CloseWithoutAnswer_IsADisconnect) {
    RawServer server([](Connection& connection) { connection.read_request(); });
    EXPECT_EQ(fail_at(server.url()).code, ErrorCode::disconnected);
}

TEST(HttpFailure, HalfCloseBeforeAnswer_IsADisconnect) {
    RawServer server([](Connection& connection) {
        connection.half_close();
        connection.wait_until_closed();
    });
    EXPECT_EQ(fail_at(server.url()).code, ErrorCode::disconnected);
}

TEST(HttpFailure, HalfCloseInBody_KeepsThePartialBody) {
    RawServer server([](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("half"));
        connection.half_close();
        connection.wait_until_closed();
    });
    const Failure failure = fail_at(server.url());
    EXPECT_EQ(failure.code, ErrorCode::disconnected);
    EXPECT_EQ(failure.partial, "half");
}

TEST(HttpFailure, BrokenConnection_ReturnsThePartialBody) {
    RawServer server([](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                        chunk("data: a\n\n") + "5\r\nda");
    });
    const Failure failure = fail_at(server.url("/path"));
    EXPECT_EQ(failure.code, ErrorCode::disconnected);
    EXPECT_EQ(failure.partial, "data: a\n\nda");
}

TEST(HttpFailure, ConnectionReset_IsADisconnect) {
    std::promise<void> read;
    RawServer server([&](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
        read.get_future().wait();
        connection.reset();
    });
    HttpClient client(with_env());
    HttpRequest request = request_to(server.url());
    std::string body;
    auto use = [&]() -> Task<> {
        HttpResponse response = co_await client.send(std::move(request));
        while (co_await response.body->read(body)) {
            if (body == "abc") read.set_value();
        }
    };
    const Failure failure = try_fetch(client, HttpRequest(), [&](Task<>) { run(use()); });
    EXPECT_EQ(failure.code, ErrorCode::disconnected);
    EXPECT_EQ(body, "abc");
}

TEST(HttpFailure, WrongContentLength_FailsOrIsTruncated) {
    RawServer promises_more(answer_once("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
    const Failure failure = fail_at(promises_more.url());
    EXPECT_EQ(failure.code, ErrorCode::disconnected);
    EXPECT_EQ(failure.partial, "abc");

    RawServer sends_more(answer_once("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcdef"));
    HttpClient client(with_env());
    EXPECT_EQ(run(fetch(client, request_to(sends_more.url()))).body, "ab");

    RawServer nonsense(answer_once("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc"));
    EXPECT_EQ(fail_at(nonsense.url()).code, ErrorCode::protocol);
}

TEST(HttpFailure, NonHttpAnswer_IsAProtocolError) {
    RawServer server(answer_once("SSH-2.0-OpenSSH_9.2\r\n\r\n"));
    EXPECT_EQ(fail_at(server.url()).code, ErrorCode::protocol);
}

TEST(HttpFailure, ServerWithoutTls_IsATlsError) {
    RawServer server([](Connection& connection) {
        connection.read_some();
        connection.send("HTTP/1.1 400 Bad Request\r\n\r\n");
        connection.wait_until_closed();
    });
    const Failure failure = fail_at("https://127.0.0.1:" + std::to_string(server.port()) + "/path");
    EXPECT_EQ(failure.code, ErrorCode::tls);
}

TEST(HttpFailure, EndlessHeaders_AreRefused) {
    for (const std::size_t line : {std::size_t{100}, std::size_t{50'000}, std::size_t{500'000}}) {
        RawServer server([line](Connection& connection) {
            connection.read_request();
            connection.send("HTTP/1.1 200 OK\r\n");
            while (connection.send("X-Filler: " + std::string(line, 'x') + "\r\n")) {
            }
        });
        EXPECT_EQ(fail_at(server.url()).code, ErrorCode::too_large) << line;
    }
}

TEST(HttpFailure, BodyBeyondLimit_IsRefused) {
    RawServer server(answer_once("HTTP/1.1 200 OK\r\n\r\n" + std::string(5000, 'x')));
    HttpClient client(with_env());
    HttpRequest request = request_to(server.url());
    request.max_response_bytes = 4999;
    EXPECT_EQ(try_fetch(client, std::move(request)).code, ErrorCode::too_large);
}

TEST(HttpFailure, InvalidRequest_IsRefused) {
    HttpClient client(with_env());
    HttpRequest with_break("GET", "http://127.0.0.1/");
    with_break.headers.add("authorization", "Bearer secret\n");
    const Failure failure = try_fetch(client, std::move(with_break));
    EXPECT_EQ(failure.code, ErrorCode::invalid_argument);
    expect_clean(failure);
    EXPECT_EQ(try_fetch(client, HttpRequest("GET", "localhost:8080")).code,
              ErrorCode::invalid_argument);
    EXPECT_EQ(try_fetch(client, HttpRequest("GE T", "http://127.0.0.1/")).code,
              ErrorCode::invalid_argument);
    HttpRequest both("GET", "http://127.0.0.1/");
    both.follow_redirects = true;
    both.resolve_to = {"127.0.0.1"};
    EXPECT_EQ(try_fetch(client, std::move(both)).code, ErrorCode::invalid_argument);
}

// ---- the timeouts

struct ClockTest : ::testing::Test {
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();

    Failure fail(HttpRequest request) {
        HttpClientOptions options = with_env();
        options.clock = clock;
        HttpClient client(std::move(options));
        return try_fetch(client, std::move(request));
    }
};

using HttpTimeout = ClockTest;

TEST_F(HttpTimeout, D16_ConnectTimeout_IncludesTheTlsHandshake) {
    RawServer server([&](Connection& connection) {
        connection.read_some();
        let_time_pass(connection, *clock);
    });
    const Failure failure =
        fail(request_to("https://127.0.0.1:" + std::to_string(server.port()) + "/path"));
    EXPECT_EQ(failure.timeout, "connect");
    EXPECT_EQ(
        failure.text,
        "No connection to 127.0.0.1:" + std::to_string(server.port()) +
            " within 10 s. Check the address and the network (timeout: connect; raise it if that "
            "is expected).");
}

TEST_F(HttpTimeout, D16_ConnectTimeout_IncludesNameResolution) {
    std::promise<void> release;
    HttpClientOptions options = with_env();
    options.clock = clock;
    options.resolver = [&](const std::string&) {
        clock->advance(11s);
        release.get_future().wait();
        return std::vector<std::string>{"127.0.0.1"};
    };
    HttpClient client(std::move(options));
    const Failure failure = try_fetch(client, request_to("http://slow.example/"));
    EXPECT_EQ(failure.timeout, "connect");
    release.set_value();
}

TEST_F(HttpTimeout, D16_ServerNeverAnswers_FirstByteTimeoutApplies) {
    RawServer server([&](Connection& connection) {
        connection.read_request();
        let_time_pass(connection, *clock);
    });
    HttpRequest request = request_to(server.url());
    request.timeouts.connect = 0s;
    const Failure failure = fail(std::move(request));
    EXPECT_EQ(failure.code, ErrorCode::timeout);
    EXPECT_EQ(failure.timeout, "first_byte");
}

TEST_F(HttpTimeout, D16_BodyNeverRead_FirstByteTimeoutApplies) {
    std::atomic<bool> over{false};
    RawServer server([&](Connection&) {
        while (!over) {
            clock->advance(1s);
            std::this_thread::yield();
        }
    });
    HttpRequest request = request_to(server.url());
    request.body.assign(64u << 20, 'x');
    request.timeouts.connect = 0s;
    const Failure failure = fail(std::move(request));
    over = true;
    EXPECT_EQ(failure.timeout, "first_byte");
}

TEST_F(HttpTimeout, D16_TotalTimeout_RunsThroughKeepAlives) {
    RawServer server([&](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while (connection.send(chunk(": keep-alive\n\n"))) {
            clock->advance(1s);
            std::this_thread::yield();
        }
    });
    HttpRequest request = request_to(server.url());
    request.timeouts.connect = 0s;
    request.timeouts.first_byte = 0s;
    request.timeouts.total = 100s;
    EXPECT_EQ(fail(std::move(request)).timeout, "total");
}

// ---- abort

TEST(HttpAbort, D7_AbortDuringNameResolution_CancelsTheRequest) {
    std::stop_source stop;
    std::promise<void> release;
    std::atomic<bool> resolved{false};
    HttpClientOptions options = with_env();
    options.resolvers = std::make_shared<WorkerPool>(2);
    options.resolver = [&](const std::string&) {
        stop.request_stop();
        release.get_future().wait();
        resolved = true;
        return std::vector<std::string>{"127.0.0.1"};
    };
    HttpClient client(options);
    const Failure failure = try_fetch(client, request_to("http://slow.example/"), stop);
    EXPECT_TRUE(failure.cancelled) << failure.text;
    EXPECT_FALSE(resolved);
    EXPECT_EQ(options.resolvers->stats().stuck, 1u);
    release.set_value();
}

TEST(HttpAbort, D7_AbortBeforeStart_CancelsTheRequest) {
    std::stop_source stop;
    stop.request_stop();
    RawServer server(answer_once(ok("x")));
    HttpClient client(with_env());
    EXPECT_TRUE(try_fetch(client, request_to(server.url()), stop).cancelled);
}

/// Aborts when the server has executed `until`; the server observes that the connection closes.
void expect_abort_closes(const std::function<void(Connection&)>& until, bool tls = false) {
    std::stop_source stop;
    RawServer server([&](Connection& connection) {
        until(connection);
        stop.request_stop();
        connection.wait_until_closed();
    });
    HttpClient client(with_env());
    const std::string url =
        tls ? "https://127.0.0.1:" + std::to_string(server.port()) + "/" : server.url();
    const Failure failure = try_fetch(client, request_to(url), stop);
    EXPECT_TRUE(failure.cancelled) << failure.text;
    server.wait_for_ended(1);
}

TEST(HttpAbort, D7_AbortInTlsHandshake_ClosesTheConnection) {
    expect_abort_closes([](Connection& connection) { connection.read_some(); }, true);
}

TEST(HttpAbort, D7_AbortBeforeHeaders_ClosesTheConnection) {
    expect_abort_closes([](Connection& connection) { connection.read_request(); });
}

TEST(HttpAbort, D7_AbortInHeaders_ClosesTheConnection) {
    expect_abort_closes([](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Le");
    });
}

TEST(HttpAbort, D7_AbortOfStalledBody_ClosesTheConnection) {
    expect_abort_closes([](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    });
}

TEST(HttpAbort, D7_DroppedBody_ClosesTheConnection) {
    RawServer server([&](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
        connection.wait_until_closed();
    });
    HttpClient client(with_env());
    HttpRequest request = request_to(server.url());
    auto use = [&]() -> Task<> {
        HttpResponse response = co_await client.send(std::move(request));
        EXPECT_EQ(response.status, 200);
    };
    run(use());
    server.wait_for_ended(1);
}

TEST(HttpAbort, D7_DestroyedClient_KeepsItsExchanges) {
    RawServer server(answer_once(ok("still here")));
    auto client = std::make_unique<HttpClient>(with_env());
    HttpRequest request = request_to(server.url());
    auto use = [&]() -> Task<std::string> {
        Task<HttpResponse> sending = client->send(std::move(request));
        client.reset();
        HttpResponse response = co_await std::move(sending);
        std::string body;
        for (bool more = true; more;) more = co_await response.body->read(body);
        co_return body;
    };
    EXPECT_EQ(run(use()), "still here");
}

TEST(HttpAbort, D7_DestroyedEventLoop_ClosesTheConnections) {
    for (const bool in_body : {false, true}) {
        std::promise<void> reached;
        RawServer server([&](Connection& connection) {
            connection.read_request();
            if (in_body) connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
            reached.set_value();
            connection.wait_until_closed();
        });
        HttpClient client(with_env());
        std::string body;
        {
            boost::asio::io_context context(1);
            boost::asio::co_spawn(context, fetch_into(client, request_to(server.url()), body),
                                  [](std::exception_ptr) {});
            auto future = reached.get_future();
            while (future.wait_for(0s) != std::future_status::ready || (in_body && body != "abc"))
                context.run_one_for(1ms);
        }
        server.wait_for_ended(1);
    }
}

TEST(HttpAbort, D7_Body_MayOutliveItsEventLoop) {
    RawServer server([&](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
        connection.wait_until_closed();
    });
    HttpClient client(with_env());
    std::unique_ptr<HttpBody> body;
    {
        boost::asio::io_context context(1);
        auto use = [&]() -> Task<> {
            HttpResponse response = co_await client.send(request_to(server.url()));
            body = std::move(response.body);
        };
        boost::asio::co_spawn(context, use(), [](std::exception_ptr) {});
        while (!body) context.run_one();
    }
    server.wait_for_ended(1);
    std::string out;
    (void)body->read_ready(out);
    body.reset();
}

}  // namespace
}  // namespace cubepi::wire
