#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/net/server/http_server_test_support.hpp>
#include <cubepi/net/server/server_core.hpp>

namespace cubepi {
namespace {

using namespace http_server_tests;

/// Returns the pattern of the route, "405 METHODS", or "404".
std::string matched(const std::string& method, const std::string& path,
                    const std::string& base_path = {}) {
    const auto set = std::make_shared<detail::RouteSet>();
    set->is_serving = true;
    set->add("GET", "/", text_handler(""), 1);
    set->add("GET", "/v1/questions", text_handler(""), 1);
    set->add("GET", "/v1/questions/{id}", text_handler(""), 1);
    set->add("POST", "/v1/questions/{id}", text_handler(""), 1);
    set->add("POST", "/v1/questions/all", text_handler(""), 1);
    HttpServerRequest request;
    request.method = method;
    request.path = path;
    const detail::RouteMatch match = detail::find_route({set}, request, base_path);
    if (match.refusal && match.refusal->status == 404) return "404";
    if (match.refusal) return "405 " + std::string(match.refusal->headers.get("allow"));
    std::string text = match.route->pattern;
    for (const auto& [name, value] : request.parameters) text += " " + name + "=" + value;
    return text;
}

TEST(FindRoute, Path_FindsItsRoute) {
    EXPECT_EQ(matched("GET", "/"), "/");
    EXPECT_EQ(matched("GET", "/v1/questions"), "/v1/questions");
    EXPECT_EQ(matched("GET", "/v1/questions/a"), "/v1/questions/{id} id=a");
    EXPECT_EQ(matched("GET", "/v1/questions/a/b"), "404");
    EXPECT_EQ(matched("GET", "/v1/questions/"), "404") << "a placeholder is not empty";
    EXPECT_EQ(matched("GET", "//v1/questions"), "404");
    EXPECT_EQ(matched("GET", "v1"), "404");
    EXPECT_EQ(matched("GET", "http://h/v1/questions"), "404");
    EXPECT_EQ(matched("GET", ""), "404");
}

TEST(FindRoute, Segments_AreDecodedOnceAfterSplitting) {
    EXPECT_EQ(matched("GET", "/v1/questions/a%2Fb%20c"), "/v1/questions/{id} id=a/b c");
    EXPECT_EQ(matched("GET", "/v1%2Fquestions"), "404");
    EXPECT_EQ(matched("GET", "/v1/%71uestions/%2541"), "/v1/questions/{id} id=%41");
    EXPECT_EQ(matched("GET", "/v1/questions/a%2"), "404");
    EXPECT_EQ(matched("GET", "/v1/questions/%zz"), "404");
}

TEST(FindRoute, DotSegments_MatchNothing) {
    for (const char* segment : {".", "..", "%2e%2E", ".%2e", "%2e"})
        EXPECT_EQ(matched("GET", std::string("/v1/questions/") + segment), "404") << segment;
    EXPECT_EQ(matched("GET", "/v1/x/../questions"), "404");
    EXPECT_EQ(matched("GET", "/v1/questions/..."), "/v1/questions/{id} id=...");
    EXPECT_EQ(matched("GET", "/v1/questions/..%2f.."), "/v1/questions/{id} id=../..");
}

TEST(FindRoute, BasePath_IsRequiredAndRemoved) {
    EXPECT_EQ(matched("GET", "/a/b/v1/questions", "/a/b"), "/v1/questions");
    EXPECT_EQ(matched("GET", "/a/%62/v1/questions", "/a/b"), "/v1/questions");
    EXPECT_EQ(matched("GET", "/a/b/", "/a/b"), "/");
    for (const char* path : {"/v1/questions", "/a/bv1/questions", "/a%2Fb/v1/questions", "/a",
                             "/a/b", "/A/b/v1/questions", "/a/b/a/b/v1/questions"})
        EXPECT_EQ(matched("GET", path, "/a/b"), "404") << path;
}

TEST(FindRoute, FirstMatchingRoute_IsUsed) {
    EXPECT_EQ(matched("POST", "/v1/questions/all"), "/v1/questions/{id} id=all");
}

TEST(FindRoute, UnsupportedMethod_NamesTheOthers) {
    EXPECT_EQ(matched("DELETE", "/v1/questions/a"), "405 GET, POST");
    EXPECT_EQ(matched("POST", "/v1/questions"), "405 GET");
    EXPECT_EQ(matched("HEAD", "/v1/questions"), "/v1/questions") << "as GET";
}

TEST(HttpRoutes, InvalidOrTakenPattern_IsRefused) {
    Served served;
    HttpRoutes same(served.server(), "test");
    same.add("GET", "/hello", text_handler(""));
    HttpRoutes other(served.server(), "other");
    EXPECT_THROW(other.add("GET", "/hello", text_handler("")), Error);
    other.add("POST", "/hello", text_handler(""));
    EXPECT_THROW(other.add("GET", "v1", text_handler("")), Error);
    EXPECT_THROW(other.add("GET", "/v1", nullptr), Error);
}

/// A server with routes that need a token next to open ones.
class RoutesTest : public ::testing::Test {
protected:
    void start(HttpAccess access = HttpAccess(), std::size_t connections = 64) {
        HttpServerOptions options;
        options.access = std::move(access);
        options.max_connections = connections;
        options.header_timeout = std::chrono::hours(1);
        served = std::make_unique<Served>(std::move(options));
        HttpRouteOptions limits;
        limits.authentication = bearer_authentication("secret");
        limits.max_body_bytes = 10;
        limits.max_requests = 2;
        routes = std::make_unique<HttpRoutes>(served->server(), "part", std::move(limits));
        const auto handler = [this](HttpServerRequest request) -> Task<HttpServerResponse> {
            ++waiting;
            co_await finish.wait();
            co_return HttpServerResponse(200, "got " + request.body, "text/plain");
        };
        routes->add("POST", "/part", handler);
        routes->add("POST", "/one", handler, 1);
        routes->add("GET", "/origin", [](HttpServerRequest request) -> Task<HttpServerResponse> {
            co_return HttpServerResponse(
                200, request.client + " " + request.scheme + " " + request.host, "text/plain");
        });
        routes->serve();
        served->start();
    }
    ~RoutesTest() override {
        if (!served) return;
        served->call([this] { finish.set(); });
        served->run_task(routes->stop());
        served->call([this] { routes.reset(); });
    }
    /// Returns the response to a request on a connection of its own.
    std::string ask(const std::string& line, const std::string& headers = {}) const {
        Wire wire(*served);
        wire.send(line + " HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
        return wire.read_all();
    }
    std::string status(const std::string& line, const std::string& headers = {}) const {
        return status_line(ask(line, headers)).substr(9, 3);
    }
    static std::string post(const std::string& headers = authorized) {
        return "POST /part HTTP/1.1\r\n" + headers + "Content-Length: 2\r\n\r\n";
    }
    void wait_for_handlers(int count) {
        for (int now = 0; now < count;) served->call([&] { now = waiting; });
    }

    static inline const std::string authorized = "Authorization: Bearer secret\r\n";
    AsyncEvent finish;
    int waiting = 0;
    std::unique_ptr<Served> served;
    std::unique_ptr<HttpRoutes> routes;
};

TEST_F(RoutesTest, EachPart_HasItsAuthentication) {
    start();
    EXPECT_EQ(status("GET /hello"), "200");
    EXPECT_EQ(status("GET /origin"), "401");
    EXPECT_EQ(status("GET /origin", authorized), "200");
    EXPECT_EQ(status("GET /origin", "Authorization: Bearer secre\r\n"), "401");
    EXPECT_NE(ask("GET /origin").find("www-authenticate: Bearer"), std::string::npos);
    EXPECT_THROW((void)bearer_authentication(""), Error);
}

TEST_F(RoutesTest, UnknownPathOrMethod_RevealsNoToken) {
    start();
    const std::string wrong = "Authorization: Bearer wrong\r\n";
    for (const char* line : {"GET /unknown", "DELETE /origin", "GET /part"}) {
        EXPECT_EQ(ask(line, wrong), ask(line, authorized));
        EXPECT_EQ(ask(line), ask(line, authorized));
    }
    EXPECT_NE(ask("DELETE /part").find("allow: POST"), std::string::npos);
}

TEST_F(RoutesTest, BodyOfUnauthorizedClient_IsNotRead) {
    start();
    Wire wire(*served);
    wire.send("POST /part HTTP/1.1\r\nContent-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n");
    EXPECT_EQ(status_line(wire.read_all()), "HTTP/1.1 401 Unauthorized");
}

TEST_F(RoutesTest, EachPart_HasItsLimitOfBodies) {
    start();
    EXPECT_EQ(status("POST /part", authorized + "Content-Length: 11\r\n"), "413");
    Wire chunked(*served);
    chunked.send("POST /part HTTP/1.1\r\n" + authorized +
                 "Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n");
    EXPECT_EQ(status_line(chunked.read_all()), "HTTP/1.1 413 Payload Too Large");
    Wire other(*served);
    other.send(
        "POST /echo/x HTTP/1.1\r\nConnection: close\r\nContent-Length: 11\r\n\r\nhello world");
    EXPECT_TRUE(other.read_all().ends_with("hello world"));
}

TEST_F(RoutesTest, RequestsBeyondTheLimit_AreRefused) {
    start();
    Wire first(*served);
    Wire second(*served);
    first.send(post() + "ab");
    second.send(post() + "cd");
    wait_for_handlers(2);
    const std::string refused = ask("POST /part", authorized);
    EXPECT_EQ(status_line(refused), "HTTP/1.1 503 Service Unavailable");
    EXPECT_NE(refused.find("retry-after: 1"), std::string::npos);
    EXPECT_EQ(status("POST /part"), "401");
    EXPECT_EQ(status("GET /hello"), "200");
    served->call([this] { finish.set(); });
    EXPECT_NE(second.read_until("cd"), "");
    EXPECT_NE(first.read_until("ab"), "");
    EXPECT_EQ(status("GET /origin", authorized), "200");
}

TEST_F(RoutesTest, LimitOfARoute_LeavesTheOthersPlaces) {
    start();
    Wire one(*served);
    one.send("POST /one HTTP/1.1\r\n" + authorized + "Content-Length: 2\r\n\r\nab");
    wait_for_handlers(1);
    EXPECT_EQ(status("POST /one", authorized), "503");
    EXPECT_EQ(status("GET /origin", authorized), "200");
    served->call([this] { finish.set(); });
    EXPECT_NE(one.read_until("ab"), "");
    EXPECT_EQ(status("POST /one", authorized), "200");
}

TEST_F(RoutesTest, PartWithoutBodies_ReceivesNone) {
    start();
    HttpRouteOptions limits;
    limits.max_body_bytes = 0;
    HttpRoutes other(served->server(), "other", std::move(limits));
    served->call([&] {
        other.add("GET", "/other", text_handler("other"));
        other.serve();
    });
    EXPECT_EQ(status("GET /other"), "200");
    EXPECT_EQ(status("GET /other", "Content-Length: 0\r\n"), "200");
    EXPECT_EQ(status("GET /other", "Content-Length: 1\r\n"), "413");
    EXPECT_EQ(status("GET /other", "Transfer-Encoding: chunked\r\n"), "413");
    served->run_task(other.stop());
}

// The server has fewer connections than a flood opens.
TEST_F(RoutesTest, FloodedPart_LeavesTheOthersConnections) {
    start(HttpAccess(), 8);
    const std::vector<std::string> floods = {
        "",                             // silent
        "POST /part HTT",               // an unfinished header
        post(""),                       // unauthorized
        post(),                         // an unfinished body
        post() + "ab",                  // unanswered
        "GET /hello HTTP/1.1\r\n\r\n",  // idle after an answer
    };
    std::vector<std::unique_ptr<Wire>> wires;
    for (const std::string& flood : floods) {
        for (int i = 0; i < 20; ++i) {
            wires.push_back(std::make_unique<Wire>(*served));
            wires.back()->send(flood);
        }
        EXPECT_EQ(status("GET /hello"), "200") << flood;
    }
}

TEST_F(RoutesTest, StoppedRoutes_CancelTheirHandlersOnly) {
    start();
    HttpRoutes other(served->server(), "other");
    std::promise<void> begun;
    AsyncEvent never;
    served->call([&] {
        other.add("GET", "/hang", [&](HttpServerRequest) -> Task<HttpServerResponse> {
            begun.set_value();
            co_await never.wait();
            co_return HttpServerResponse();
        });
        other.serve();
    });
    Wire hanging(*served);
    hanging.send("GET /hang HTTP/1.1\r\n\r\n");
    begun.get_future().get();
    Wire working(*served);
    working.send(post() + "ab");
    wait_for_handlers(1);
    served->run_task(other.stop(10ms));
    EXPECT_EQ(hanging.read_all(), "");
    served->call([this] { finish.set(); });
    EXPECT_NE(working.read_until("got ab"), "");
}

TEST_F(RoutesTest, RequestForUnservedRoute_WaitsForItsFate) {
    start();
    auto next = std::make_unique<HttpRoutes>(served->server(), "next");
    served->call([&] { next->add("GET", "/next", text_handler("served")); });
    EXPECT_EQ(status("POST /next"), "405");
    std::future<std::string> answer =
        std::async(std::launch::async, [this] { return ask("GET /next"); });
    served->call([&] { next->serve(); });
    EXPECT_TRUE(answer.get().ends_with("served"));
    served->run_task(next->stop());
    Wire waits(*served);
    waits.send("GET /next HTTP/1.1\r\n\r\n");
    EXPECT_EQ(status("GET /hello"), "200");
    served->call([&] { next.reset(); });
    EXPECT_EQ(status_line(waits.read_until("\r\n\r\n")), "HTTP/1.1 404 Not Found");
}

TEST_F(RoutesTest, AllowedHosts_RefuseOtherNames) {
    HttpAccess access;
    access.allowed_hosts = {"agents.example.org", "Other.example:8443", "[2001:db8::1]"};
    start(access);
    for (const char* host :
         {"agents.example.org", "AGENTS.example.org:8080", "other.example:8443", "[2001:db8::1]:1",
          "localhost", "localhost:1", "127.0.0.1:80", "[::1]"})
        EXPECT_EQ(status("GET /hello", std::string("Host: ") + host + "\r\n"), "200") << host;
    for (const char* host :
         {"evil.example", "other.example", "other.example:80", "", "localhost.evil.example",
          "agents.example.org.", "agents.example.org:x", "agents.example.org:", "[::1",
          "agents.example.org, evil.example", "127.0.0.1.evil.example"})
        EXPECT_EQ(status("GET /hello", std::string("Host: ") + host + "\r\n"), "421") << host;
    EXPECT_EQ(status("GET /hello"), "421");
    EXPECT_EQ(status("GET /hello", "Host: localhost\r\nHost: agents.example.org\r\n"), "421");
}

TEST_F(RoutesTest, Proxy_IsReadOnlyIfListed) {
    const std::string headers =
        authorized + "Host: proxy\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\n" +
        "X-Forwarded-Host: agents.example.org\r\n";
    start();
    EXPECT_TRUE(ask("GET /origin", headers).ends_with("127.0.0.1 http proxy"));
    served->call([this] {
        HttpAccess access;
        access.trusted_proxies = {"127.0.0.0/8"};
        access.allowed_hosts = {"agents.example.org"};
        served->server().set_access(std::move(access));
    });
    EXPECT_TRUE(ask("GET /origin", headers).ends_with("203.0.113.7 https agents.example.org"));
    // This machine's names are for this machine's clients.
    EXPECT_EQ(status("GET /hello", "Host: localhost\r\n"), "200");
    EXPECT_EQ(status("GET /hello", "Host: localhost\r\nX-Forwarded-For: 203.0.113.7\r\n"), "421");
}

/// Returns the origin that proxies in 10.0.0.0/8, ::1 and 2001:db8::/32 report: "CLIENT SCHEME HOST".
std::string origin(const std::vector<HttpHeader>& fields, const std::string& peer = "10.0.0.1") {
    HttpHeaders headers;
    headers.add("Host", "h");
    for (const HttpHeader& field : fields) headers.add(field.name, field.value);
    const detail::AddressRanges proxies({"10.0.0.0/8", "::1", "2001:db8::/32"});
    const detail::RequestOrigin found =
        detail::request_origin(headers, asio::ip::make_address(peer), "http", proxies);
    return found.client.to_string() + " " + found.scheme + " " + found.host;
}

std::string forwarded_for(const std::string& value) {
    return origin({HttpHeader("X-Forwarded-For", value)});
}

std::string forwarded(const std::string& value) { return origin({HttpHeader("forwarded", value)}); }

TEST(RequestOrigin, XForwardedFor_IsReadFromTheEnd) {
    EXPECT_EQ(forwarded_for("203.0.113.7"), "203.0.113.7 http h");
    EXPECT_EQ(forwarded_for("192.0.2.1, 203.0.113.7, 10.2.3.4"), "203.0.113.7 http h");
    EXPECT_EQ(forwarded_for("10.9.9.9,10.2.3.4"), "10.9.9.9 http h") << "all are proxies";
    EXPECT_EQ(forwarded_for("203.0.113.7:4711, [2001:db8::5]:80"), "203.0.113.7 http h");
    EXPECT_EQ(forwarded_for("2001:db9::1"), "2001:db9::1 http h");
    EXPECT_EQ(forwarded_for("::ffff:203.0.113.7, ::ffff:10.0.0.3"), "203.0.113.7 http h");
    EXPECT_EQ(origin({HttpHeader("X-Forwarded-For", "192.0.2.1"),
                      HttpHeader("x-forwarded-FOR", "203.0.113.7")}),
              "203.0.113.7 http h")
        << "several fields are one list";
    EXPECT_EQ(origin({HttpHeader("X-Forwarded-For", "203.0.113.7")}, "192.0.2.9"),
              "192.0.2.9 http h");
    EXPECT_EQ(origin({HttpHeader("X-Forwarded-For", "203.0.113.7")}, "::ffff:10.0.0.1"),
              "203.0.113.7 http h");
}

TEST(RequestOrigin, Garbage_EndsAtTheProxyThatReportedIt) {
    for (const char* garbage :
         {"", "unknown", "_hidden", "localhost", "203.0.113", "203.0.113.7:x",
          "203.0.113.7:", "[203.0.113.7", "203.0.113.7 evil", "fe80::1%1", "0x7f.1",
          "203.0.113.7:123456", "[]", ":80", "\"203.0.113.7\"", "203.0.113.7,"}) {
        EXPECT_EQ(forwarded_for(garbage), "10.0.0.1 http h") << garbage;
        EXPECT_EQ(forwarded_for("192.0.2.1, " + std::string(garbage) + ", 10.2.3.4"),
                  "10.2.3.4 http h")
            << garbage;
    }
}

TEST(RequestOrigin, Forwarded_IsReadFromTheEnd) {
    EXPECT_EQ(forwarded("for=203.0.113.7;proto=https;host=a.example"),
              "203.0.113.7 https a.example");
    EXPECT_EQ(
        forwarded(
            "for=192.0.2.1;host=evil, For=\"[2001:db9::1]:4711\";Proto=HTTPS , for=10.2.3.4;by=x"),
        "2001:db9::1 https h");
    EXPECT_EQ(forwarded("for=\"a,for=192.0.2.1\", for=203.0.113.7"), "203.0.113.7 http h");
    EXPECT_EQ(forwarded("for=unknown;proto=https"), "10.0.0.1 https h");
    for (const char* garbage :
         {"203.0.113.7", "for", "for=203.0.113.7,", "for=203.0.113.7;for=192.0.2.1",
          "for=\"203.0.113.7", "for=\"203.0.113.7\" x", "for=\"x\\", "for=203.0.113.7;;"})
        EXPECT_EQ(forwarded(garbage), "10.0.0.1 http h") << garbage;
}

TEST(RequestOrigin, SchemeAndHost_BelongToTheClient) {
    EXPECT_EQ(origin({HttpHeader("X-Forwarded-For", "192.0.2.1, 203.0.113.7, 10.0.0.2"),
                      HttpHeader("X-Forwarded-Proto", "ftp, https, http"),
                      HttpHeader("X-Forwarded-Host", "evil, a.example, b.example")}),
              "203.0.113.7 https a.example");
    EXPECT_EQ(origin({HttpHeader("X-Forwarded-For", "203.0.113.7, 10.0.0.2"),
                      HttpHeader("X-Forwarded-Proto", "https")}),
              "203.0.113.7 https h");
    EXPECT_EQ(origin({HttpHeader("X-Forwarded-Proto", "gopher")}), "10.0.0.1 http h");
}

TEST(RequestOrigin, ContradictoryHeaders_NameNoClient) {
    const HttpHeader separate("X-Forwarded-For", "203.0.113.7");
    EXPECT_EQ(origin({separate, HttpHeader("Forwarded", "for=203.0.113.7;proto=https")}),
              "203.0.113.7 https h");
    EXPECT_EQ(origin({separate, HttpHeader("Forwarded", "for=127.0.0.1;proto=https")}),
              "10.0.0.1 http h");
}

TEST(AddressRanges, TextThatIsNone_IsRefused) {
    for (const char* text : {"", "proxy", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8",
                             "::1/129", "10.0.0", "fe80::1%1", "10.0.0.1:80"})
        EXPECT_THROW(check_address_ranges({"127.0.0.1", text}), Error) << text;
    EXPECT_TRUE(detail::AddressRanges({"::ffff:10.0.0.0/104"})
                    .contains(asio::ip::make_address("10.1.1.1")));
    EXPECT_TRUE(detail::AddressRanges({"0.0.0.0/0"}).contains(asio::ip::make_address("10.1.1.1")));
    EXPECT_FALSE(detail::AddressRanges({"::/0"}).contains(asio::ip::make_address("10.1.1.1")));
    EXPECT_FALSE(
        detail::AddressRanges({"10.1.0.0/15"}).contains(asio::ip::make_address("10.2.0.0")));
}

}  // namespace
}  // namespace cubepi
