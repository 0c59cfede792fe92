#include "fetching.hpp"
#include "raw_server.hpp"

#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/testing/memory_log.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

namespace cubepi::wire {
namespace {

/// Answers every request of a connection with `answer`.
RawServer::Handler always(std::string answer) {
    return [answer = std::move(answer)](Connection& connection) {
        while (!connection.read_request().empty()) connection.send(answer);
    };
}

TEST(HttpClient, Request_HasExactlyTheGivenHeaders) {
    std::string seen;
    RawServer server([&](Connection& connection) {
        seen = connection.read_request();
        connection.send(ok("hi"));
    });
    HttpClient client(with_env());
    HttpRequest request("POST", server.url("/v1/chat?x=1"));
    request.headers.add("Authorization", "Bearer k");
    request.headers.add("X-Empty", "");
    request.headers.add("content-type", "application/json");
    request.body = "{\"a\":1}";
    const Answer answer = run(fetch(client, std::move(request)));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.version, "1.1");
    EXPECT_EQ(answer.body, "hi");
    EXPECT_EQ(answer.headers.get("content-LENGTH"), "2");
    EXPECT_EQ(answer.url, server.url("/v1/chat?x=1"));
    EXPECT_EQ(seen,
              "POST /v1/chat?x=1 HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port()) +
                  "\r\nAccept: */*\r\nAuthorization: Bearer k\r\nX-Empty:\r\ncontent-type: "
                  "application/json\r\n"
                  "User-Agent: cubepi\r\nContent-Length: 7\r\n\r\n{\"a\":1}");
}

TEST(HttpClient, AllMethods_AreSent) {
    std::vector<std::string> seen;
    RawServer server([&](Connection& connection) {
        while (true) {
            const std::string request = connection.read_request();
            if (request.empty()) return;
            seen.push_back(request.substr(0, request.find("\r\n")));
            if (request.find("Content-Length: 0") != std::string::npos)
                seen.back() += " with empty body";
            if (request.ends_with("body")) seen.back() += " with body";
            const bool head = request.starts_with("HEAD");
            connection.send(head ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" : ok("x"));
        }
    });
    HttpClient client(with_env());
    for (const char* method : {"GET", "HEAD", "DELETE", "POST", "PUT"}) {
        HttpRequest request(method, server.url());
        run(fetch(client, std::move(request)));
    }
    for (const char* method : {"PUT", "PATCH", "DELETE"}) {
        HttpRequest request(method, server.url());
        request.body = "body";
        run(fetch(client, std::move(request)));
    }
    EXPECT_EQ(seen, (std::vector<std::string>{
                        "GET / HTTP/1.1", "HEAD / HTTP/1.1", "DELETE / HTTP/1.1",
                        "POST / HTTP/1.1 with empty body", "PUT / HTTP/1.1 with empty body",
                        "PUT / HTTP/1.1 with body", "PATCH / HTTP/1.1 with body",
                        "DELETE / HTTP/1.1 with body"}));
    EXPECT_EQ(server.accepted(), 1);
}

TEST(HttpClient, Connections_AreReusedAndSharedBetweenClients) {
    RawServer server(always(ok("x")));
    for (int i = 0; i < 3; ++i) {
        HttpClient client(with_env());
        HttpRequest request("GET", server.url());
        EXPECT_EQ(run(fetch(client, std::move(request))).body, "x");
    }
    EXPECT_EQ(server.accepted(), 1);
}

TEST(HttpClient, PooledConnectionClosedByServer_IsReplaced) {
    RawServer server([](Connection& connection) {
        connection.read_request();
        connection.send(ok("x"));
    });
    HttpClient client(with_env());
    for (int i = 1; i <= 3; ++i) {
        HttpRequest request("POST", server.url());
        request.body = "b";
        EXPECT_EQ(run(fetch(client, std::move(request))).body, "x");
        server.wait_for_ended(i);
    }
}

/// Answers the first request of its first connection, and closes it after it has read the next one. Counts all requests.
RawServer::Handler closes_after_one_answer(std::atomic<int>& requests) {
    return
        [&requests, is_first = std::make_shared<std::atomic<bool>>(true)](Connection& connection) {
            const bool closes = is_first->exchange(false);
            for (int answered = 0; !connection.read_request().empty(); ++answered) {
                ++requests;
                if (closes && answered == 1) return;
                connection.send(ok("x"));
            }
        };
}

TEST(HttpClient, D91_ReusedConnectionCloses_PostIsNotRepeated) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{100'000}}) {
        std::atomic<int> requests = 0;
        RawServer server(closes_after_one_answer(requests));
        HttpClient client(with_env());
        const auto post = [&] {
            HttpRequest request("POST", server.url());
            request.body = std::string(size, 'b');
            return request;
        };
        EXPECT_EQ(run(fetch(client, post())).body, "x");
        const Failure failure = try_fetch(client, post());
        EXPECT_EQ(failure.code, ErrorCode::disconnected) << failure.text;
        EXPECT_EQ(requests, 2) << size;
        // The next ones share a new connection.
        for (int i = 0; i < 3; ++i) EXPECT_EQ(run(fetch(client, post())).body, "x");
        EXPECT_EQ(requests, 5);
        EXPECT_LE(server.accepted(), 3);
    }
}

TEST(HttpClient, ReusedConnectionCloses_GetIsRepeated) {
    std::atomic<int> requests = 0;
    RawServer server(closes_after_one_answer(requests));
    HttpClient client(with_env());
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(run(fetch(client, HttpRequest("GET", server.url()))).body, "x");
    }
    EXPECT_EQ(requests, 3);
}

TEST(HttpClient, BigRequestBody_IsSent) {
    std::string seen;
    RawServer server([&](Connection& connection) {
        seen = connection.read_request();
        connection.send(ok("done"));
    });
    std::string body(3'000'000, 'b');
    for (std::size_t i = 0; i < body.size(); i += 7) body[i] = static_cast<char>('a' + i % 26);
    HttpClient client(with_env());
    HttpRequest request("POST", server.url());
    request.body = body;
    EXPECT_EQ(run(fetch(client, std::move(request))).body, "done");
    EXPECT_TRUE(seen.ends_with("\r\n\r\n" + body));
    EXPECT_EQ(seen.find("Expect"), std::string::npos);
}

TEST(HttpClient, BodySentByteByByte_IsRead) {
    const std::string events =
        "data: {\"a\":1}\r\n\r\n: ping\n\ndata: \xE2\x82\xAC\n\ndata: [DONE]\n\n";
    RawServer server([&](Connection& connection) {
        connection.read_request();
        std::string stream =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
            "chunked\r\n\r\n";
        for (char byte : events) stream += chunk(std::string(1, byte));
        stream += chunk("");
        for (char byte : stream) connection.send(std::string(1, byte));
    });
    HttpClient client(with_env());
    HttpRequest request("GET", server.url());
    auto read_events = [&]() -> Task<std::vector<std::string>> {
        HttpResponse response = co_await client.send(std::move(request));
        SseDecoder decoder;
        SseEvent event;
        std::vector<std::string> data;
        while (co_await response.body->read(decoder.buffer())) {
            while (decoder.next(event)) data.emplace_back(event.data);
        }
        co_return data;
    };
    EXPECT_EQ(run(read_events()),
              (std::vector<std::string>{"{\"a\":1}", "\xE2\x82\xAC", "[DONE]"}));
}

TEST(HttpClient, ReceivedData_IsReturnedWithoutWaiting) {
    RawServer server(always(ok("all at once")));
    HttpClient client(with_env());
    HttpRequest request("GET", server.url());
    auto use = [&]() -> Task<std::string> {
        HttpResponse response = co_await client.send(std::move(request));
        std::string body = "so far: ";
        const bool first = co_await response.body->read(body);
        EXPECT_TRUE(first);
        while (response.body->read_ready(body)) {
        }
        for (bool more = true; more;) more = co_await response.body->read(body);
        EXPECT_FALSE(response.body->read_ready(body));
        const bool more = co_await response.body->read(body);
        EXPECT_FALSE(more);
        co_return body;
    };
    EXPECT_EQ(run(use()), "so far: all at once");
}

TEST(HttpClient, SlowReader_SlowsTheSender) {
    // 64 MB do not fit into the sockets' buffers, so the sender can finish only if the client buffers them.
    constexpr std::size_t total = 64u << 20;
    std::atomic<std::size_t> sent{0};
    RawServer server([&](Connection& connection) {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(total) + "\r\n\r\n");
        const std::string piece(64 * 1024, 'x');
        while (sent < total && connection.send(piece)) sent += piece.size();
    });
    HttpClient client(with_env());
    HttpRequest request("GET", server.url());
    auto use = [&]() -> Task<std::size_t> {
        HttpResponse response = co_await client.send(std::move(request));
        // The loop may read ahead until the sender blocks.
        std::size_t before = 0;
        do {
            before = sent;
            for (int turn = 0; turn < 2000; ++turn) co_await yield_now();
            std::this_thread::yield();
        } while (sent != before);
        EXPECT_LT(before, total);
        std::size_t received = 0;
        std::string bytes;
        while (co_await response.body->read(bytes)) {
            EXPECT_LT(bytes.size(), 600'000u);
            received += bytes.size();
            bytes.clear();
        }
        co_return received;
    };
    EXPECT_EQ(run(use()), total);
}

TEST(HttpClient, Redirects_AreFollowedOnRequestWithoutKeys) {
    std::string elsewhere_saw;
    RawServer elsewhere([&](Connection& connection) {
        elsewhere_saw = connection.read_request();
        connection.send(ok("there"));
    });
    RawServer server([&](Connection& connection) {
        while (true) {
            const std::string request = connection.read_request();
            if (request.empty()) return;
            const std::string to = request.starts_with("POST /a") ? "/b" : elsewhere.url("/c");
            connection.send("HTTP/1.1 302 Found\r\nContent-Length: 4\r\nLocation: " + to +
                            "\r\n\r\nmove");
        }
    });
    HttpClient client(with_env());
    HttpRequest plain("POST", server.url("/a"));
    EXPECT_EQ(run(fetch(client, std::move(plain))).status, 302);

    HttpRequest request("POST", server.url("/a"));
    request.follow_redirects = true;
    request.body = "body";
    request.headers.add("Content-Type", "text/plain");
    request.headers.add("Authorization", "Bearer k");
    request.headers.add("x-api-key", "k");
    request.headers.add("Accept", "text/html");
    const Answer answer = run(fetch(client, std::move(request)));
    EXPECT_EQ(answer.body, "there");
    EXPECT_EQ(answer.url, elsewhere.url("/c"));
    EXPECT_TRUE(elsewhere_saw.starts_with("GET /c HTTP/1.1\r\n"));
    EXPECT_NE(elsewhere_saw.find("Accept: text/html"), std::string::npos);
    for (const char* gone : {"Authorization", "x-api-key", "Content-Type", "body"}) {
        EXPECT_EQ(elsewhere_saw.find(gone), std::string::npos) << gone;
    }
}

TEST(HttpClient, RedirectLoop_IsStopped) {
    RawServer server(always("HTTP/1.1 307 Again\r\nContent-Length: 0\r\nLocation: /\r\n\r\n"));
    HttpClient client(with_env());
    HttpRequest request("GET", server.url());
    request.follow_redirects = true;
    EXPECT_EQ(try_fetch(client, std::move(request)).code, ErrorCode::protocol);
}

TEST(HttpClient, PinnedAddress_IsUsed) {
    std::string seen;
    RawServer server([&](Connection& connection) {
        seen = connection.read_request();
        connection.send(ok("x"));
        connection.wait_until_closed();
    });
    HttpClientOptions options = with_env();
    options.resolver = [](const std::string&) -> std::vector<std::string> {
        throw std::logic_error("asked");
    };
    HttpClient client(std::move(options));
    const std::string port = std::to_string(server.port());
    for (int i = 0; i < 2; ++i) {
        HttpRequest request("GET", "http://pinned.example:" + port + "/");
        request.resolve_to = {"127.0.0.1"};
        EXPECT_EQ(run(fetch(client, std::move(request))).body, "x");
        EXPECT_NE(seen.find("Host: pinned.example:" + port), std::string::npos);
    }
    EXPECT_EQ(server.accepted(), 2);
}

TEST(HttpClient, NameForSeveralRequests_IsResolvedOnce) {
    RawServer server(always(ok("x")));
    std::atomic<int> lookups{0};
    HttpClientOptions options = with_env();
    options.resolver = [&](const std::string& host) {
        EXPECT_EQ(host, "api.example");
        ++lookups;
        return std::vector<std::string>{"127.0.0.1"};
    };
    HttpClient client(std::move(options));
    for (int i = 0; i < 3; ++i) {
        HttpRequest request("GET", "http://API.example:" + std::to_string(server.port()) + "/");
        EXPECT_EQ(run(fetch(client, std::move(request))).body, "x");
    }
    EXPECT_EQ(lookups, 1);
}

TEST(HttpClient, AddressesOfAName_AreAllTried) {
    RawServer server(always(ok("x")));
    HttpClientOptions options = with_env();
    options.resolver = [](const std::string&) {
        return std::vector<std::string>{"::1", "127.0.0.1"};
    };
    HttpClient client(std::move(options));
    HttpRequest request("GET", "http://both.example:" + std::to_string(server.port()) + "/");
    EXPECT_EQ(run(fetch(client, std::move(request))).body, "x");
}

TEST(HttpClient, ConcurrentRequests_AreServed) {
    RawServer server([](Connection& connection) {
        while (true) {
            const std::string request = connection.read_request();
            if (request.empty()) return;
            connection.send(ok(request.substr(5, request.find(' ', 5) - 5)));
        }
    });
    HttpClient client(with_env());
    std::vector<Task<Answer>> tasks;
    for (int i = 0; i < 40; ++i) {
        HttpRequest request("GET", server.url("/" + std::to_string(i)));
        tasks.push_back(fetch(client, std::move(request)));
    }
    const std::vector<Answer> answers = run(when_all(std::move(tasks)));
    for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(answers[i].body, std::to_string(i));
    }
}

TEST(HttpClient, PlainServerRequests_DoNotWaitForOthers) {
    // The first request is answered when the second has arrived.
    std::promise<void> second_came;
    RawServer server([&](Connection& connection) {
        const std::string request = connection.read_request();
        if (request.starts_with("GET /first")) second_came.get_future().wait();
        if (request.starts_with("GET /second")) second_came.set_value();
        connection.send(ok("x"));
    });
    HttpClient client(with_env());
    std::vector<Task<Answer>> tasks;
    for (const char* path : {"/first", "/second"})
        tasks.push_back(fetch(client, HttpRequest("GET", server.url(path))));
    std::exception_ptr failure;
    try {
        run(when_all(std::move(tasks)));
    } catch (...) {
        failure = std::current_exception();
    }
    EXPECT_FALSE(failure) << failure_of(failure).text;
    if (server.accepted() < 2) second_came.set_value();
}

TEST(HttpClient, StrandsOnSeveralThreads_AreServed) {
    RawServer server(always(ok(std::string(100'000, 'x'))));
    HttpClient client(with_env());
    std::atomic<int> done{0};
    {
        boost::asio::thread_pool pool(4);
        auto one = [&]() -> Task<> {
            HttpRequest request("GET", server.url());
            const Answer answer = co_await fetch(client, std::move(request));
            if (answer.body.size() == 100'000) ++done;
        };
        auto all = [&]() -> Task<> {
            TaskScope scope(co_await this_executor);
            for (int i = 0; i < 30; ++i) scope.spawn(boost::asio::make_strand(pool), one());
            co_await scope.join();
        };
        run(all());
        pool.join();
    }
    EXPECT_EQ(done, 30);
}

TEST(HttpClient, IdleEventLoop_Ends) {
    RawServer server(always(ok("x")));
    HttpClient client(with_env());
    for (int round = 0; round < 2; ++round) {
        boost::asio::io_context context(1);
        BackgroundScope scope(context.get_executor());
        auto one = [&]() -> Task<> {
            HttpRequest request("GET", server.url());
            const Answer answer = co_await fetch(client, std::move(request));
            EXPECT_EQ(answer.body, "x");
        };
        scope.spawn(one());
        context.run();
        // The connection is reused, and nothing keeps the loop running.
        context.restart();
        scope.spawn(one());
        context.run();
    }
    EXPECT_EQ(server.accepted(), 2);
}

using cubepi::testing::MemoryLog;

/// Sends a request with secrets in path, query, headers and body.
Failure send_secrets(const MemoryLog& log, const std::string& base,
                     std::map<std::string, std::string> env = {}) {
    HttpClientOptions options = with_env(std::move(env));
    options.log = log.logger();
    HttpClient client(std::move(options));
    HttpRequest request("POST", base + "path-secret?key=query-secret");
    request.body = "body-secret";
    request.headers.add("authorization", "Bearer header-secret");
    const Failure failure = try_fetch(client, std::move(request));
    EXPECT_FALSE(log.contains("secret")) << log.text();
    return failure;
}

std::string without_times(std::string text) {
    for (std::size_t at = 0; (at = text.find("duration_ms=", at)) != std::string::npos; ++at)
        text.replace(at, text.find('\n', at) - at, "duration_ms");
    return text;
}

TEST(NetLog, B29_FailedRequest_IsRecordedWithServerAndCode) {
    const MemoryLog log(LogLevel::warning);
    const std::string server = "127.0.0.1:" + std::to_string(closed_port());
    EXPECT_EQ(send_secrets(log, "http://" + server + "/").code, ErrorCode::connect);
    EXPECT_EQ(without_times(log.text()), "<4>http.failed server=" + server +
                                             " method=POST error=connect proxy=\"\" duration_ms\n");
}

TEST(NetLog, Answers_AreRecordedOnlyAtLevelDebug) {
    RawServer server([](Connection& connection) {
        connection.read_request();
        connection.send(ok("answer-secret", "set-cookie: cookie-secret\r\nConnection: close\r\n"));
    });
    const MemoryLog quiet(LogLevel::info);
    EXPECT_TRUE(send_secrets(quiet, server.url()).none);
    EXPECT_EQ(quiet.text(), "");
    const MemoryLog debug;
    EXPECT_TRUE(send_secrets(debug, server.url()).none);
    EXPECT_EQ(without_times(debug.text()),
              "<7>http.answered server=127.0.0.1:" + std::to_string(server.port()) +
                  " method=POST status=200 proxy=\"\" duration_ms\n");
}

TEST(NetLog, Proxy_IsNamedWithoutItsPassword) {
    const MemoryLog log;
    const std::string proxy = "127.0.0.1:" + std::to_string(closed_port());
    (void)send_secrets(log, "http://server.example/",
                       {{"http_proxy", "http://user:proxy-secret@" + proxy}});
    EXPECT_TRUE(log.contains("server=server.example:80")) << log.text();
    EXPECT_TRUE(log.contains("proxy=" + proxy)) << log.text();
    EXPECT_FALSE(log.contains("user")) << log.text();
}

TEST(NetLog, TlsFailure_IsRecorded) {
    RawServer server([](Connection& connection) { connection.send("this is not TLS\r\n\r\n"); });
    const MemoryLog log(LogLevel::warning);
    EXPECT_EQ(send_secrets(log, "https://127.0.0.1:" + std::to_string(server.port()) + "/").code,
              ErrorCode::tls);
    EXPECT_TRUE(log.contains("<4>http.failed")) << log.text();
    EXPECT_TRUE(log.contains("error=tls")) << log.text();
}

}  // namespace
}  // namespace cubepi::wire
