#include "fetching.hpp"
#include "raw_server.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace cubepi::wire {
namespace {

using namespace std::string_view_literals;

/// A server that answers the first request of each connection with these bytes, and closes.
RawServer::Handler once(std::string answer) {
    return [answer = std::move(answer)](Connection& connection) {
        connection.read_request();
        connection.send(answer);
    };
}

Answer get(const RawServer& server) {
    HttpClient client(with_env());
    return run(fetch(client, HttpRequest("GET", server.url())));
}

const std::string gzipped(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x4b\x49\x2c\x49\xb4\x52\xc8\xcf\x4b\xe5\xe2\x4a"
    "\x01\x33\x4b\xca\xf3\xb9\xb8\x00\xa2\x0d\x4a\x3f\x16\x00\x00\x00"sv);
const std::string deflated(
    "\x78\x9c\x4b\x49\x2c\x49\xb4\x52\xc8\xcf\x4b\xe5\xe2\x4a\x01\x33\x4b\xca\xf3\xb9\xb8\x00"
    "\x52\x0f\x06\xad"sv);
constexpr std::string_view unpacked = "data: one\n\ndata: two\n\n";

TEST(OddServer, UnrequestedCompression_IsDecoded) {
    std::string seen;
    RawServer server([&](Connection& connection) {
        seen = connection.read_request();
        connection.send(ok(gzipped, "Content-Encoding: gzip\r\n"));
    });
    EXPECT_EQ(get(server).body, unpacked);
    EXPECT_EQ(seen.find("Accept-Encoding"), std::string::npos);
    RawServer other(once(ok(deflated, "Content-Encoding: deflate\r\n")));
    EXPECT_EQ(get(other).body, unpacked);
}

TEST(OddServer, CompressedStreamInPieces_IsDecoded) {
    RawServer server([&](Connection& connection) {
        connection.read_request();
        connection.send(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n");
        for (const char byte : gzipped) connection.send(chunk(std::string(1, byte)));
        connection.send(chunk({}));
    });
    EXPECT_EQ(get(server).body, unpacked);
}

TEST(OddServer, UnknownCompression_IsAProtocolError) {
    RawServer server(once(ok("abc", "Content-Encoding: rot13\r\n")));
    HttpClient client(with_env());
    const Failure failure = try_fetch(client, HttpRequest("GET", server.url()));
    EXPECT_EQ(failure.code, ErrorCode::protocol);
}

TEST(OddServer, DecompressedSize_IsLimited) {
    RawServer server(once(ok(gzipped, "Content-Encoding: gzip\r\n")));
    HttpClient client(with_env());
    HttpRequest request("GET", server.url());
    request.max_response_bytes = unpacked.size() - 1;
    EXPECT_EQ(try_fetch(client, std::move(request)).code, ErrorCode::too_large);
}

TEST(OddServer, Http10Body_EndsWithTheConnection) {
    RawServer server(once("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n"));
    const Answer answer = get(server);
    EXPECT_EQ(answer.version, "1.0");
    EXPECT_EQ(answer.body, "data: x\n\n");
}

TEST(OddServer, InformationalResponses_AreSkipped) {
    RawServer server(
        once("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n"
             "Retry-After: 9\r\n\r\n" +
             ok("hi")));
    const Answer answer = get(server);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.find("retry-after"), nullptr);
    EXPECT_EQ(answer.body, "hi");
}

TEST(OddServer, Trailers_AreNotHeaders) {
    RawServer server(once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("hi") +
                          "0\r\nRetry-After: 9\r\n\r\n"));
    const Answer answer = get(server);
    EXPECT_EQ(answer.headers.find("retry-after"), nullptr);
    EXPECT_EQ(answer.body, "hi");
}

TEST(OddServer, StatusWithoutBody_HasAnEmptyBody) {
    for (const char* status : {"204 No Content", "304 Not Modified"}) {
        RawServer server(once(std::string("HTTP/1.1 ") + status + "\r\nContent-Length: 7\r\n\r\n"));
        EXPECT_EQ(get(server).body, "") << status;
    }
}

TEST(OddServer, HeadersWithLineFeedsOnly_AreAccepted) {
    RawServer server(once("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"));
    EXPECT_EQ(get(server).body, "hi");
}

TEST(OddServer, BodyRefusedUnread_ReturnsTheAnswer) {
    RawServer server([&](Connection& connection) {
        connection.read_head();
        connection.send(
            "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
        connection.wait_until_closed();
    });
    HttpClient client(with_env());
    HttpRequest request("POST", server.url());
    request.body.assign(std::size_t{16} << 20, 'x');
    const Answer answer = run(fetch(client, std::move(request)));
    EXPECT_EQ(answer.status, 413);
    EXPECT_EQ(answer.body, "big");
}

TEST(OddServer, ExcessBytes_AreDiscarded) {
    RawServer server([&](Connection& connection) {
        for (int i = 0; !connection.read_request().empty(); ++i) {
            const std::string evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
            connection.send(ok(i == 0 ? "one" : "two") + (i == 0 ? evil : std::string()));
        }
    });
    HttpClient client(with_env());
    const auto both = [](HttpClient& http, std::string url) -> Task<std::string> {
        HttpRequest first("GET", url);
        const Answer one = co_await fetch(http, std::move(first));
        HttpRequest second("GET", url);
        const Answer two = co_await fetch(http, std::move(second));
        co_return one.body + " " + two.body;
    };
    const std::string bodies = run(both(client, server.url()));
    EXPECT_EQ(bodies.find("evil"), std::string::npos) << bodies;
}

TEST(OddServer, D7_AbortedConnection_IsNotReused) {
    RawServer server([&](Connection& connection) {
        const std::string request = connection.read_request();
        if (request.starts_with("GET /stream")) {
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("a"));
            connection.wait_until_closed();
            return;
        }
        connection.send(ok("fresh"));
    });
    HttpClient client(with_env());
    const auto abort_and_ask = [](HttpClient& http, std::string url) -> Task<std::string> {
        HttpRequest first("GET", url + "stream");
        HttpResponse response = co_await http.send(std::move(first));
        std::string piece;
        co_await response.body->read(piece);
        response.body.reset();
        HttpRequest second("GET", url);
        const Answer answer = co_await fetch(http, std::move(second));
        co_return piece + " " + answer.body;
    };
    EXPECT_EQ(run(abort_and_ask(client, server.url())), "a fresh");
    EXPECT_EQ(server.accepted(), 2);
}

TEST(OddServer, RedirectWithAPassword_CarriesNoKey) {
    std::string elsewhere_saw;
    RawServer elsewhere([&](Connection& connection) {
        elsewhere_saw = connection.read_request();
        connection.send(ok("there"));
    });
    RawServer server([&](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 307 Moved\r\nContent-Length: 0\r\nLocation: //127.0.0.1:" +
                        std::to_string(elsewhere.port()) + "/c\r\n\r\n");
    });
    HttpClient client(with_env());
    HttpRequest request("POST",
                        "http://user:hunter2@127.0.0.1:" + std::to_string(server.port()) + "/a");
    request.follow_redirects = true;
    request.body = "body";
    for (const char* name : {"Cookie", "X-Goog-Api-Key", "Proxy-Authorization", "X-Secret"})
        request.headers.add(name, "k-1234567");
    EXPECT_EQ(run(fetch(client, std::move(request))).body, "there");
    EXPECT_EQ(elsewhere_saw.find("k-1234567"), std::string::npos) << elsewhere_saw;
    EXPECT_EQ(elsewhere_saw.find("Authorization"), std::string::npos) << elsewhere_saw;
    EXPECT_TRUE(elsewhere_saw.ends_with("body"));
}

}  // namespace
}  // namespace cubepi::wire
