#include "child_process.hpp"
#include "fetching.hpp"
#include "raw_server.hpp"

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/network_error.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "source_tree.hpp"

namespace cubepi::wire {
namespace {

namespace fs = std::filesystem;

/// A certificate authority and its certificate for localhost and 127.0.0.1, in a directory of their own.
struct Certificates {
    fs::path directory;

    Certificates() {
        std::string pattern = (fs::temp_directory_path() / "cubepi-tls-XXXXXX").string();
        if (!mkdtemp(pattern.data()))
            throw std::system_error(errno, std::generic_category(), pattern);
        directory = pattern;
        const auto openssl = [&](const std::string& script) {
            run_program(
                {"sh", "-c", "cd '" + directory.string() + "' && exec 2>openssl.log && " + script});
        };
        openssl(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key "
            "-out ca.pem "
            "-days 2 -subj '/CN=test authority'");
        openssl(
            "printf 'subjectAltName=DNS:localhost,DNS:server.example,IP:127.0.0.1\\n' > ext && "
            "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key "
            "-out server.csr "
            "-subj /CN=server.example && "
            "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
            "-extfile ext "
            "-out server.pem");
    }
    ~Certificates() { fs::remove_all(directory); }
    std::string path(const char* file) const { return (directory / file).string(); }
};

/// The HTTP/2 server, one for all tests of this file.
class H2Server {
public:
    static H2Server& instance() {
        static H2Server server;
        return server;
    }

    std::string url(const std::string& path) const { return "https://127.0.0.1:" + port_ + path; }
    const std::string& port() const { return port_; }
    const Certificates& certificates() const { return certificates_; }

    HttpClientOptions trusting(std::map<std::string, std::string> env = {}) const {
        HttpClientOptions options = with_env(std::move(env));
        options.ca_file = certificates_.path("ca.pem");
        return options;
    }

    /// Blocks until the server prints a line with all of `parts`; returns that line and those before it.
    std::vector<std::string> wait_for(std::initializer_list<const char*> parts) {
        std::vector<std::string> lines;
        while (true) {
            lines.push_back(process_.read_line());
            if (lines.back().empty()) throw std::runtime_error("the server has ended");
            bool all = true;
            for (const char* part : parts)
                all = all && lines.back().find(part) != std::string::npos;
            if (all) return lines;
        }
    }
    void finish(const std::string& path) { process_.write_line("GO " + path); }

private:
    static std::string node() {
        const char* name = std::getenv("NODE");
        return name != nullptr && *name != '\0' && std::string(name) != "fetch" ? name : "node";
    }

    H2Server()
        : process_({node(), cubepi::testing::source_path("tests/wire/net/h2_server.mjs"),
                    certificates_.path("server.key"), certificates_.path("server.pem")}) {
        const std::string line = process_.read_line();
        port_ = line.substr(line.find(':') + 1);
        port_.pop_back();
    }

    Certificates certificates_;
    ChildProcess process_;
    std::string port_;
};

struct TlsTest : ::testing::Test {
    H2Server& server = H2Server::instance();
    HttpClient client{server.trusting()};
};
using Http2 = TlsTest;

TEST_F(TlsTest, UnknownAuthority_IsRefused) {
    HttpClient stranger(with_env());
    const Failure failure = try_fetch(stranger, HttpRequest("GET", server.url("/secret")));
    EXPECT_EQ(failure.code, ErrorCode::tls);
    EXPECT_NE(failure.text.find("SSL_CERT_FILE"), std::string::npos) << failure.text;
    EXPECT_NE(failure.text.find("certificate"), std::string::npos) << failure.text;
    EXPECT_EQ(failure.text.find("/secret"), std::string::npos) << failure.text;
}

TEST_F(TlsTest, AuthorityInEnvironment_IsTrusted) {
    HttpClient told(with_env({{"SSL_CERT_FILE", server.certificates().path("ca.pem")}}));
    EXPECT_EQ(run(fetch(told, HttpRequest("GET", server.url("/x")))).status, 200);
}

TEST_F(TlsTest, CertificateForOtherName_IsRefused) {
    HttpClientOptions options = server.trusting();
    options.resolver = [](const std::string&) { return std::vector<std::string>{"127.0.0.1"}; };
    HttpClient other(std::move(options));
    EXPECT_EQ(
        run(fetch(other, HttpRequest("GET", "https://server.example:" + server.port() + "/x")))
            .status,
        200);
    const Failure failure =
        try_fetch(other, HttpRequest("GET", "https://evil.example:" + server.port() + "/x"));
    EXPECT_EQ(failure.code, ErrorCode::tls);
    EXPECT_NE(failure.text.find("evil.example"), std::string::npos) << failure.text;
}

TEST_F(Http2, SupportingServer_UsesIt) {
    HttpRequest request("POST", server.url("/echo"));
    request.body = "12345";
    const Answer answer = run(fetch(client, std::move(request)));
    EXPECT_EQ(answer.version, "2");
    EXPECT_EQ(answer.body, "POST /echo 5");
}

TEST_F(Http2, BigRequestBody_IsSent) {
    HttpRequest request("POST", server.url("/echo"));
    request.body.assign(2'000'000, 'b');
    EXPECT_EQ(run(fetch(client, std::move(request))).body, "POST /echo 2000000");
}

TEST_F(Http2, ManyRequests_ShareOneConnection) {
    run(fetch(client, HttpRequest("GET", server.url("/mark"))));
    server.wait_for({"close", "/mark"});
    // A thread's loop keeps its connections; a new thread has none yet.
    std::vector<Answer> answers;
    std::thread([&] {
        std::vector<Task<Answer>> tasks;
        for (int i = 0; i < 50; ++i)
            tasks.push_back(fetch(client, HttpRequest("GET", server.url("/" + std::to_string(i)))));
        answers = run(when_all(std::move(tasks)));
    }).join();
    for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(answers[i].body, "GET /" + std::to_string(i) + " 0");
    }
    run(fetch(client, HttpRequest("GET", server.url("/end-mark"))));
    int sessions = 0;
    for (const std::string& line : server.wait_for({"close", "/end-mark"}))
        sessions += line.find("session") != std::string::npos;
    EXPECT_EQ(sessions, 1);
}

Task<> hold(HttpTransport& client, std::string url, std::string& body, AsyncEvent& begun) {
    HttpRequest request("GET", std::move(url));
    HttpResponse response = co_await client.send(std::move(request));
    while (co_await response.body->read(body)) begun.set();
}

Task<> abort_one_of_three(H2Server& server, HttpTransport& client,
                          std::vector<std::string>& bodies) {
    const Executor executor = co_await this_executor;
    AsyncEvent begun[3];
    TaskScope siblings(executor);
    TaskScope victim(executor);
    siblings.spawn(hold(client, server.url("/hold/a"), bodies[0], begun[0]));
    victim.spawn(hold(client, server.url("/hold/victim"), bodies[1], begun[1]));
    siblings.spawn(hold(client, server.url("/hold/b"), bodies[2], begun[2]));
    for (AsyncEvent& event : begun) co_await event.wait();
    victim.cancel();
    co_await victim.join();
    server.wait_for({"close", "/hold/victim"});
    server.finish("/hold/a");
    server.finish("/hold/b");
    co_await siblings.join();
    // The connection can still be used.
    const Answer after = co_await fetch(client, HttpRequest("GET", server.url("/after")));
    EXPECT_EQ(after.body, "GET /after 0");
}

TEST_F(Http2, D7_AbortedStream_LeavesItsSiblingsAlive) {
    std::vector<std::string> bodies(3);
    run(abort_one_of_three(server, client, bodies));
    EXPECT_EQ(bodies[0], "data: begun\n\ndata: done\n\n");
    EXPECT_EQ(bodies[1], "data: begun\n\n");
    EXPECT_EQ(bodies[2], "data: begun\n\ndata: done\n\n");
    for (const std::string& line : server.wait_for({"close", "/after"})) {
        EXPECT_EQ(line.find("session"), std::string::npos) << line;
    }
}

TEST_F(Http2, D7_AbortBeforeHeaders_ResetsTheStream) {
    std::stop_source stop;
    std::thread watcher([&] {
        server.wait_for({"begun", "/silent"});
        stop.request_stop();
        server.wait_for({"close", "/silent"});
    });
    EXPECT_TRUE(try_fetch(client, HttpRequest("GET", server.url("/silent")), stop).cancelled);
    // The abort itself sends the reset: nothing runs on this thread's loop afterwards.
    watcher.join();
}

TEST_F(Http2, ResetStream_ReturnsThePartialBody) {
    for (const char* path : {"/reset", "/cut"}) {
        const Failure failure = try_fetch(client, HttpRequest("GET", server.url(path)));
        EXPECT_EQ(failure.code, ErrorCode::disconnected) << path << ": " << failure.text;
        EXPECT_EQ(failure.partial, "partial");
    }
}

TEST_F(Http2, GoAway_CausesAReconnect) {
    const auto twice = [](HttpTransport& http, std::string url) -> Task<std::string> {
        HttpRequest first("GET", url + "/leave");
        const Answer whole = co_await fetch(http, std::move(first));
        HttpRequest second("GET", url + "/after-leaving");
        const Answer after = co_await fetch(http, std::move(second));
        co_return whole.body + ", " + after.body;
    };
    EXPECT_EQ(run(twice(client, server.url(""))), "partial whole, GET /after-leaving 0");
    bool another = false;
    for (const std::string& line : server.wait_for({"close", "/after-leaving"}))
        another = another || line.find("session") != std::string::npos;
    EXPECT_TRUE(another);
}

TEST_F(Http2, D15_RefusedStream_CanBeRetried) {
    HttpRequest request("GET", server.url("/refuse"));
    try {
        run(fetch(client, std::move(request)));
        ADD_FAILURE();
    } catch (const NetworkError& error) {
        EXPECT_EQ(error.code(), ErrorCode::disconnected) << error.what();
        EXPECT_TRUE(error.transient());
    }
}

TEST_F(Http2, BodyBeyondLimit_ResetsTheStream) {
    HttpRequest request("GET", server.url("/hold/limited"));
    request.max_response_bytes = 3;
    EXPECT_EQ(try_fetch(client, std::move(request)).code, ErrorCode::too_large);
    server.wait_for({"close", "/hold/limited"});
}

/// Reads a big body completely, after a sibling was served.
Task<std::size_t> read_late(H2Server& server, HttpTransport& client) {
    HttpRequest big("GET", server.url("/big"));
    HttpResponse response = co_await client.send(std::move(big));
    for (int i = 0; i < 3; ++i) {
        const Answer sibling = co_await fetch(client, HttpRequest("GET", server.url("/sibling")));
        EXPECT_EQ(sibling.body, "GET /sibling 0");
    }
    std::size_t received = 0;
    std::string bytes;
    while (co_await response.body->read(bytes)) {
        received += bytes.size();
        bytes.clear();
    }
    co_return received;
}

TEST_F(Http2, UnreadStream_DoesNotBlockItsSiblings) {
    EXPECT_EQ(run(read_late(server, client)), 512u * 64 * 1024);
}

// ---- proxies

/// Carries bytes both ways until one side ends.
void tunnel(int a, int b) {
    pollfd sides[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
    char bytes[16 * 1024];
    while (::poll(sides, 2, -1) > 0) {
        for (int i = 0; i < 2; ++i) {
            if (sides[i].revents == 0) continue;
            const ssize_t count = ::recv(sides[i].fd, bytes, sizeof(bytes), 0);
            if (count <= 0 || ::send(sides[1 - i].fd, bytes, static_cast<std::size_t>(count),
                                     MSG_NOSIGNAL) != count)
                return;
        }
    }
}

int connect_to(const std::string& port) {
    addrinfo* found = nullptr;
    if (::getaddrinfo("127.0.0.1", port.c_str(), nullptr, &found) != 0) return -1;
    const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, found->ai_addr, found->ai_addrlen) != 0)
        ADD_FAILURE() << "cannot connect to port " << port;
    ::freeaddrinfo(found);
    return fd;
}

/// A proxy that maps every target to the given port of 127.0.0.1, and records requests.
struct Proxy {
    std::string target_port;
    std::mutex mutex;
    std::vector<std::string> asked;
    RawServer server{[this](Connection& connection) { serve(connection); }};

    explicit Proxy(std::string port) : target_port(std::move(port)) {}

    void serve(Connection& connection) {
        const std::string head = connection.read_head();
        {
            const std::lock_guard lock(mutex);
            asked.push_back(head);
        }
        if (head.starts_with("CONNECT ")) {
            connection.send("HTTP/1.1 200 Connection established\r\n\r\n");
            const int target = connect_to(target_port);
            tunnel(connection.fd(), target);
            ::close(target);
        } else {
            connection.send(ok("from the proxy"));
        }
    }
};

HttpClientOptions never_resolving(HttpClientOptions options) {
    options.resolver = [](const std::string& host) -> std::vector<std::string> {
        ADD_FAILURE() << "resolved " << host;
        return {};
    };
    return options;
}

TEST_F(TlsTest, PlainProxy_ReceivesUrlAndResolvesTheName) {
    Proxy proxy("0");
    HttpClient proxied(never_resolving(with_env({{"http_proxy", proxy.server.url("")}})));
    HttpRequest request("GET", "http://target.example/path");
    EXPECT_EQ(run(fetch(proxied, std::move(request))).body, "from the proxy");
    ASSERT_EQ(proxy.asked.size(), 1u);
    EXPECT_TRUE(proxy.asked[0].starts_with(
        "GET http://target.example/path HTTP/1.1\r\nHost: target.example\r\n"));
}

TEST_F(TlsTest, ProxyName_IsResolvedButNotTheTarget) {
    Proxy proxy("0");
    std::vector<std::string> names;
    HttpClientOptions options =
        with_env({{"http_proxy", "http://proxy.example:" + std::to_string(proxy.server.port())}});
    options.resolver = [&](const std::string& host) {
        names.push_back(host);
        return std::vector<std::string>{"127.0.0.1"};
    };
    HttpClient proxied(std::move(options));
    EXPECT_EQ(run(fetch(proxied, HttpRequest("GET", "http://target.example/"))).body,
              "from the proxy");
    EXPECT_EQ(names, std::vector<std::string>{"proxy.example"});
}

TEST_F(TlsTest, ConnectProxy_TunnelsWithoutSeeingKeys) {
    Proxy proxy(server.port());
    HttpClient proxied(never_resolving(server.trusting({{"https_proxy", proxy.server.url("")}})));
    HttpRequest request("GET", "https://server.example/path");
    request.headers.add("authorization", "Bearer k");
    const Answer answer = run(fetch(proxied, std::move(request)));
    EXPECT_EQ(answer.version, "2");
    EXPECT_EQ(answer.body, "GET /path 0");
    ASSERT_EQ(proxy.asked.size(), 1u);
    EXPECT_TRUE(proxy.asked[0].starts_with("CONNECT server.example:443 HTTP/1.1\r\n"));
    EXPECT_EQ(proxy.asked[0].find("Bearer"), std::string::npos);
}

TEST_F(TlsTest, PinnedAddress_IsRequestedFromTheProxy) {
    Proxy proxy(server.port());
    HttpClient proxied(never_resolving(server.trusting({{"all_proxy", proxy.server.url("")}})));
    HttpRequest request("GET", "https://server.example/path");
    request.resolve_to = {"192.0.2.7"};
    EXPECT_EQ(run(fetch(proxied, std::move(request))).body, "GET /path 0");
    ASSERT_EQ(proxy.asked.size(), 1u);
    EXPECT_TRUE(proxy.asked[0].starts_with("CONNECT 192.0.2.7:443 HTTP/1.1\r\n"));
}

TEST_F(TlsTest, RefusingProxy_IsNamed) {
    for (const char* status :
         {"403 Forbidden", "407 Proxy Authentication Required", "502 Bad Gateway"}) {
        RawServer proxy([&](Connection& connection) {
            connection.read_head();
            connection.send(std::string("HTTP/1.1 ") + status + "\r\nContent-Length: 0\r\n\r\n");
        });
        HttpClient proxied(server.trusting(
            {{"https_proxy", "http://user:hunter2@127.0.0.1:" + std::to_string(proxy.port())}}));
        const Failure failure =
            try_fetch(proxied, HttpRequest("GET", "https://server.example/path"));
        EXPECT_EQ(failure.code, ErrorCode::proxy) << failure.text;
        EXPECT_NE(failure.text.find("127.0.0.1:" + std::to_string(proxy.port())), std::string::npos)
            << failure.text;
        EXPECT_NE(failure.text.find(std::string(status, 3)), std::string::npos) << failure.text;
        EXPECT_EQ(failure.text.find("hunter2"), std::string::npos) << failure.text;
    }
}

TEST_F(TlsTest, UnreachableProxy_IsNamed) {
    const std::string port = std::to_string(closed_port());
    HttpClient proxied(with_env({{"http_proxy", "http://user:hunter2@127.0.0.1:" + port}}));
    const Failure failure = try_fetch(proxied, HttpRequest("GET", "http://target.example/"));
    EXPECT_EQ(failure.code, ErrorCode::proxy);
    EXPECT_EQ(failure.text.find("hunter2"), std::string::npos) << failure.text;
    EXPECT_NE(failure.text.find("proxy 127.0.0.1:" + port), std::string::npos) << failure.text;
}

TEST_F(TlsTest, NoProxy_ConnectsDirectly) {
    HttpClient direct(
        server.trusting({{"https_proxy", "http://127.0.0.1:" + std::to_string(closed_port())},
                         {"no_proxy", "127.0.0.1"}}));
    EXPECT_EQ(run(fetch(direct, HttpRequest("GET", server.url("/x")))).status, 200);
}

}  // namespace
}  // namespace cubepi::wire
