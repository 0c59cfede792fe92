#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/net/server/http_server_test_support.hpp>

namespace cubepi {
namespace {

using namespace http_server_tests;

TEST(HttpServer, ProjectClient_IsAnswered) {
    Served served;
    served.start();
    const auto exchange = [](std::string url) -> Task<std::string> {
        HttpClient client;
        HttpRequest request("POST", std::move(url));
        request.body = "body";
        HttpResponse response = co_await client.send(std::move(request));
        EXPECT_EQ(response.status, 200);
        EXPECT_EQ(response.headers.get("content-type"), "text/plain");
        std::string body;
        for (bool more = true; more;) more = co_await response.body->read(body);
        co_return body;
    };
    EXPECT_EQ(run(exchange(served.url("/echo/a%20b?q"))), "a b?q=body");
}

TEST(HttpServer, Connection_IsRetainedForFurtherRequests) {
    Served served;
    served.start();
    Wire wire(served);
    for (int i = 0; i < 3; ++i) {
        wire.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        EXPECT_EQ(status_line(wire.read_until("\r\n\r\n")), "HTTP/1.1 200 OK");
        EXPECT_EQ(wire.read_until("hello"), "hello");
    }
    wire.send("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_NE(wire.read_all().find("hello"), std::string::npos);
}

TEST(HttpServer, PipelinedRequests_AreAnsweredInOrder) {
    Served served;
    served.start();
    Wire wire(served);
    wire.send(
        "POST /echo/1 HTTP/1.1\r\nContent-Length: 1\r\n\r\naPOST /echo/2 HTTP/1.1\r\n"
        "Content-Length: 1\r\nConnection: close\r\n\r\nb");
    const std::string all = wire.read_all();
    const std::size_t first = all.find("1?=a");
    ASSERT_NE(first, std::string::npos) << all;
    EXPECT_NE(all.find("2?=b", first), std::string::npos) << all;
}

TEST(HttpServer, RequestInSingleBytes_IsAccepted) {
    Served served;
    served.start();
    Wire wire(served);
    const std::string request =
        "POST /echo/slow HTTP/1.1\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    for (const char byte : request) wire.send(std::string(1, byte));
    EXPECT_NE(wire.read_all().find("slow?=abc"), std::string::npos);
}

TEST(HttpServer, ChunkedBody_IsReadAndContinueSent) {
    Served served;
    served.start();
    Wire wire(served);
    wire.send(
        "POST /echo/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
        "Connection: close\r\n\r\n");
    EXPECT_EQ(wire.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    wire.send("2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    EXPECT_NE(wire.read_all().find("x?=abc"), std::string::npos);
}

TEST(HttpServer, OversizedOrInvalidRequest_IsRefused) {
    HttpServerOptions options;
    options.max_header_bytes = 1000;
    HttpRouteOptions limits;
    limits.max_body_bytes = 10;
    Served served(options, limits);
    served.start();
    const auto answer = [&](const std::string& request) {
        Wire wire(served);
        wire.send(request);
        return status_line(wire.read_all());
    };
    EXPECT_EQ(answer("GET /hello HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n"),
              "HTTP/1.1 431 Request Header Fields Too Large");
    EXPECT_EQ(answer("POST /echo/x HTTP/1.1\r\nContent-Length: 11\r\n\r\nhello world"),
              "HTTP/1.1 413 Payload Too Large");
    EXPECT_EQ(answer("POST /echo/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello "
                     "world\r\n0\r\n\r\n"),
              "HTTP/1.1 413 Payload Too Large");
    EXPECT_EQ(answer("\x16\x03\x01 TLS?\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    EXPECT_EQ(answer("GET /hello HTTP/1.1\r\nContent-Length: x\r\n\r\n"),
              "HTTP/1.1 400 Bad Request");
}

TEST(HttpServer, UnfinishedHeader_ClosesTheConnection) {
    HttpServerOptions options;
    options.header_timeout = 20ms;
    Served served(options);
    served.start();
    Wire wire(served);
    wire.send("GET /hel");
    EXPECT_EQ(wire.read_all(), "");
}

TEST(HttpServer, MissingBody_ClosesTheConnection) {
    HttpRouteOptions limits;
    limits.body_timeout = 20ms;
    Served served(HttpServerOptions(), limits);
    served.start();
    Wire wire(served);
    wire.send("POST /echo/x HTTP/1.1\r\nContent-Length: 3\r\n\r\na");
    EXPECT_EQ(wire.read_all(), "");
}

TEST(HttpServer, IdleConnection_IsClosed) {
    HttpServerOptions options;
    options.idle_timeout = 20ms;
    Served served(options);
    served.start();
    Wire wire(served);
    wire.send("GET /hello HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(wire.read_all().ends_with("hello"));
}

TEST(HttpServer, SilentConnection_IsClosed) {
    HttpServerOptions options;
    options.header_timeout = 20ms;
    options.idle_timeout = std::chrono::hours(1);
    Served served(options);
    served.start();
    Wire wire(served);
    EXPECT_EQ(wire.read_all(), "");
}

TEST(HttpServer, UnknownPathOrMethod_IsAJsonError) {
    Served served;
    served.start();
    Wire wire(served);
    wire.send("GET /nothing HTTP/1.1\r\n\r\nDELETE /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    const std::string all = wire.read_all();
    EXPECT_NE(all.find("HTTP/1.1 404 Not Found"), std::string::npos) << all;
    EXPECT_NE(all.find(R"({"error":{"message":"there is nothing at this path"}})"),
              std::string::npos)
        << all;
    EXPECT_NE(all.find("HTTP/1.1 405 Method Not Allowed"), std::string::npos) << all;
    EXPECT_NE(all.find("allow: GET"), std::string::npos) << all;
}

TEST(HttpServer, Head_HasLengthOfGetAndNoBody) {
    Served served;
    served.start();
    Wire wire(served);
    wire.send("HEAD /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    const std::string all = wire.read_all();
    EXPECT_NE(all.find("Content-Length: 5"), std::string::npos) << all;
    EXPECT_TRUE(all.ends_with("\r\n\r\n")) << all;
}

TEST(HttpServer, ThrowingHandler_IsAnsweredWithoutEndingTheServer) {
    Served served;
    served.routes().add("GET", "/bad", [](HttpServerRequest) -> Task<HttpServerResponse> {
        throw Error(ErrorCode::storage, "the secret reason");
        co_return HttpServerResponse();
    });
    served.start();
    Wire wire(served);
    wire.send("GET /bad HTTP/1.1\r\n\r\n");
    const std::string header = wire.read_until("\r\n\r\n");
    EXPECT_EQ(status_line(header), "HTTP/1.1 500 Internal Server Error");
    const std::string body = wire.read_until("}\n");
    EXPECT_EQ(body.find("secret"), std::string::npos) << body;
    wire.send("GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    EXPECT_NE(wire.read_all().find("hello"), std::string::npos);
}

TEST(HttpServer, Events_AreSentAsTheyAreWritten) {
    AsyncEvent next;
    Served served;
    served.routes().add("GET", "/events", [&next](HttpServerRequest) -> Task<HttpServerResponse> {
        auto stream = [&next](ResponseStream& out) -> Task<> {
            co_await out.write(server_sent_event("", "one\ntwo"));
            co_await next.wait();
            co_await out.write(server_sent_event("end", "three"));
        };
        co_return HttpServerResponse::events(std::move(stream));
    });
    served.start();
    Wire wire(served);
    wire.send("GET /events HTTP/1.1\r\n\r\n");
    const std::string header = wire.read_until("\r\n\r\n");
    EXPECT_NE(header.find("content-type: text/event-stream"), std::string::npos) << header;
    EXPECT_EQ(wire.read_until("\n\n\r\n"), "15\r\ndata: one\ndata: two\n\n\r\n");
    served.on_thread([&next] { next.set(); });
    EXPECT_EQ(wire.read_until("0\r\n\r\n"), "18\r\nevent: end\ndata: three\n\n\r\n0\r\n\r\n");
    wire.send("GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    EXPECT_NE(wire.read_all().find("hello"), std::string::npos) << "the connection is kept";
}

TEST(HttpServer, Http10Client_ReadsAStreamToItsEnd) {
    Served served;
    served.routes().add("GET", "/events", [](HttpServerRequest) -> Task<HttpServerResponse> {
        auto stream = [](ResponseStream& out) -> Task<> { co_await out.write("parts"); };
        co_return HttpServerResponse::events(std::move(stream));
    });
    served.start();
    Wire wire(served);
    wire.send("GET /events HTTP/1.0\r\n\r\n");
    EXPECT_TRUE(wire.read_all().ends_with("\r\n\r\nparts"));
}

TEST(HttpServer, DisconnectedClient_IsReportedToTheHandler) {
    std::promise<void> gone;
    Served served;
    served.routes().add(
        "GET", "/wait", [&gone](HttpServerRequest request) -> Task<HttpServerResponse> {
            AsyncEvent event;
            const std::stop_callback stop(request.closed, [&event] { event.set(); });
            co_await event.wait();
            gone.set_value();
            co_return HttpServerResponse();
        });
    served.start();
    Wire wire(served);
    wire.send("GET /wait HTTP/1.1\r\n\r\n");
    wire.close();
    gone.get_future().get();
}

TEST(HttpServer, ResetConnection_IsReportedToTheHandler) {
    std::promise<void> begun;
    std::promise<void> gone;
    Served served;
    served.routes().add("GET", "/wait", [&](HttpServerRequest request) -> Task<HttpServerResponse> {
        AsyncEvent event;
        const std::stop_callback stop(request.closed, [&event] { event.set(); });
        begun.set_value();
        co_await event.wait();
        gone.set_value();
        co_return HttpServerResponse();
    });
    served.start();
    Wire wire(served);
    wire.send("GET /wait HTTP/1.1\r\n\r\n");
    begun.get_future().get();
    wire.reset();
    gone.get_future().get();
}

TEST(HttpServer, WriteToDisconnectedClient_Throws) {
    std::promise<ErrorCode> thrown;
    Served served;
    served.routes().add("GET", "/flood", [&thrown](HttpServerRequest) -> Task<HttpServerResponse> {
        auto stream = [&thrown](ResponseStream& out) -> Task<> {
            try {
                for (;;) co_await out.write(std::string(100'000, 'x'));
            } catch (const Error& error) {
                thrown.set_value(error.code());
            }
        };
        co_return HttpServerResponse::events(std::move(stream));
    });
    served.start();
    Wire wire(served);
    wire.send("GET /flood HTTP/1.1\r\n\r\n");
    (void)wire.read_until("xxx");
    wire.close();
    EXPECT_EQ(thrown.get_future().get(), ErrorCode::disconnected);
}

TEST(HttpServer, ClientThatDoesNotRead_IsAbandoned) {
    HttpServerOptions options;
    options.write_timeout = 50ms;
    std::promise<ErrorCode> thrown;
    Served served(options);
    served.routes().add("GET", "/flood", [&thrown](HttpServerRequest) -> Task<HttpServerResponse> {
        auto stream = [&thrown](ResponseStream& out) -> Task<> {
            try {
                for (;;) co_await out.write(std::string(1'000'000, 'x'));
            } catch (const Error& error) {
                thrown.set_value(error.code());
            }
        };
        co_return HttpServerResponse::events(std::move(stream));
    });
    served.start();
    Wire wire(served);
    wire.send("GET /flood HTTP/1.1\r\n\r\n");
    EXPECT_EQ(thrown.get_future().get(), ErrorCode::disconnected);
}

TEST(HttpServer, Stop_WaitsForTheRequestInProgress) {
    AsyncEvent finish;
    std::promise<void> begun;
    Served served;
    served.routes().add("GET", "/work", [&](HttpServerRequest) -> Task<HttpServerResponse> {
        begun.set_value();
        co_await finish.wait();
        co_return HttpServerResponse(200, "done", "text/plain");
    });
    served.start();
    Wire idle(served);
    idle.send("GET /hello HTTP/1.1\r\n\r\n");
    (void)idle.read_until("hello");
    Wire wire(served);
    wire.send("GET /work HTTP/1.1\r\n\r\n");
    begun.get_future().get();
    std::future<void> stopped =
        std::async(std::launch::async, [&] { served.stop(std::chrono::hours(1)); });
    EXPECT_EQ(idle.read_all(), "") << "an idle connection is closed at once";
    served.on_thread([&finish] { finish.set(); });
    const std::string all = wire.read_all();
    EXPECT_NE(all.find("Connection: close"), std::string::npos) << all;
    EXPECT_TRUE(all.ends_with("done")) << all;
    stopped.get();
}

TEST(HttpServer, Stop_EndsRequestsThatDoNotEnd) {
    std::promise<void> begun;
    Served served;
    served.routes().add("GET", "/hang", [&begun](HttpServerRequest) -> Task<HttpServerResponse> {
        begun.set_value();
        AsyncEvent never;
        co_await never.wait();
        co_return HttpServerResponse();
    });
    served.start();
    Wire wire(served);
    wire.send("GET /hang HTTP/1.1\r\n\r\n");
    begun.get_future().get();
    served.stop(10ms);
    EXPECT_EQ(wire.read_all(), "");
    EXPECT_EQ(served.server().connections(), 0u);
}

TEST(HttpServer, D90_ReplacedRoutes_LoseNoRequest) {
    Served served;
    served.start();
    std::unique_ptr<HttpRoutes> routes;
    served.call([&] {
        routes = std::make_unique<HttpRoutes>(served.server(), "part");
        routes->add("GET", "/part", text_handler("part"));
        routes->serve();
    });
    std::atomic<bool> over = false;
    std::future<int> lost = std::async(std::launch::async, [&, port = served.port()] {
        int failures = 0;
        Wire open(port);
        while (!over) {
            Wire wire(port);
            wire.send("GET /part HTTP/1.1\r\nConnection: close\r\n\r\n");
            if (!wire.read_all().ends_with("part")) ++failures;
            open.send("GET /part HTTP/1.1\r\n\r\n");
            if (open.read_until("\r\n\r\npart").empty()) ++failures;
        }
        return failures;
    });
    for (int i = 0; i < 30; ++i) {
        std::unique_ptr<HttpRoutes> next;
        served.call([&] {
            next = std::make_unique<HttpRoutes>(served.server(), "part");
            next->add("GET", "/part", text_handler("part"));
        });
        served.run_task(routes->stop());
        served.call([&] {
            next->serve();
            routes = std::move(next);
        });
    }
    over = true;
    EXPECT_EQ(lost.get(), 0);
    served.run_task(routes->stop());
    served.call([&] { routes.reset(); });
}

TEST(HttpServer, ExcessConnection_ReplacesTheOldestIdleOne) {
    HttpServerOptions options;
    options.max_connections = 2;
    Served served(options);
    served.start();
    Wire silent(served);
    Wire first(served);
    first.send("GET /hello HTTP/1.1\r\n\r\n");
    (void)first.read_until("hello");
    Wire second(served);
    EXPECT_EQ(silent.read_all(), "");
    second.send("GET /hello HTTP/1.1\r\n\r\n");
    EXPECT_NE(second.read_until("hello"), "");
    first.send("GET /hello HTTP/1.1\r\n\r\n");
    EXPECT_NE(first.read_until("hello"), "");
}

TEST(HttpServer, ExcessConnection_IsClosedWhenAllAreBusy) {
    AsyncEvent finish;
    std::promise<void> begun;
    HttpServerOptions options;
    options.max_connections = 1;
    Served served(options);
    served.routes().add("GET", "/work", [&](HttpServerRequest) -> Task<HttpServerResponse> {
        begun.set_value();
        co_await finish.wait();
        co_return HttpServerResponse(200, "done", "text/plain");
    });
    served.start();
    Wire busy(served);
    busy.send("GET /work HTTP/1.1\r\nConnection: close\r\n\r\n");
    begun.get_future().get();
    Wire second(served);
    EXPECT_EQ(second.read_all(), "");
    served.on_thread([&finish] { finish.set(); });
    EXPECT_TRUE(busy.read_all().ends_with("done"));
}

TEST(HttpServer, FailedListen_SaysWhy) {
    Served first;
    first.start();
    asio::io_context context;
    HttpServerOptions options;
    options.port = first.port();
    HttpServer taken(context.get_executor(), options);
    EXPECT_THROW(taken.open(), Error);
    options.host = "localhost";
    HttpServer name(context.get_executor(), options);
    EXPECT_THROW(name.open(), Error);
    EXPECT_THROW((void)read_certificate("/nonexistent.pem", "/nonexistent.pem"), Error);
}

TEST(HttpServerRequest, BearerToken_IsFound) {
    HttpServerRequest request;
    EXPECT_EQ(request.bearer_token(), "");
    request.headers.set("Authorization", "Bearer  abc");
    EXPECT_EQ(request.bearer_token(), "abc");
    request.headers.set("Authorization", "BEARER x");
    EXPECT_EQ(request.bearer_token(), "x");
    request.headers.set("Authorization", "Basic x");
    EXPECT_EQ(request.bearer_token(), "");
}

TEST(EqualSecrets, Comparison_UsesAllBytes) {
    EXPECT_TRUE(equal_secrets("abc", "abc"));
    EXPECT_FALSE(equal_secrets("abc", "abd"));
    EXPECT_FALSE(equal_secrets("abc", "ab"));
    EXPECT_FALSE(equal_secrets("ab", "abab"));
    EXPECT_FALSE(equal_secrets("", "a"));
    EXPECT_FALSE(equal_secrets("a", ""));
}

}  // namespace
}  // namespace cubepi
