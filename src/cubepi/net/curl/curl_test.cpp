#include <array>
#include <map>

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <curl/curl.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/net/curl/curl_engine.hpp>
#include <cubepi/net/curl/request_route.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi::detail {
namespace {

EnvLookup env_of(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
        const auto found = values.find(name);
        if (found == values.end()) return std::nullopt;
        return found->second;
    };
}

ProxyChoice choose(const std::string& url, std::map<std::string, std::string> env) {
    return choose_proxy(parse_url(url), env_of(std::move(env)));
}

TEST(RequestUrl, Parse_ReadsWhatARequestNeeds) {
    const RequestUrl url = parse_url("HTTPS://API.Example.com/v1/chat?x=1#part");
    EXPECT_EQ(url.scheme, "https");
    EXPECT_EQ(url.host, "api.example.com");
    EXPECT_EQ(url.port, 443);
    EXPECT_EQ(url.url, "https://api.example.com/v1/chat?x=1");
    EXPECT_EQ(url.server(), "api.example.com:443");
    EXPECT_FALSE(url.is_address);
}

TEST(Proxy, ThisMachine_IsReachedWithoutAProxy) {
    const std::map<std::string, std::string> env = {{"all_proxy", "proxy:1"},
                                                    {"http_proxy", "proxy:1"}};
    for (const char* host : {"localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9",
                             "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"})
        EXPECT_EQ(choose("http://" + std::string(host) + ":8080/v1", env).url, "") << host;
    for (const char* host : {"localhost.example", "notlocalhost", "128.0.0.1", "127.0.0.1.example",
                             "[::2]", "[::ffff:128.0.0.1]", "10.0.0.1"})
        EXPECT_NE(choose("http://" + std::string(host) + ":8080/v1", env).url, "") << host;
}

TEST(RequestUrl, Addresses_AreRecognized) {
    EXPECT_TRUE(parse_url("http://127.0.0.1:8080/").is_address);
    const RequestUrl v6 = parse_url("http://[::1]:8080/");
    EXPECT_TRUE(v6.is_address);
    EXPECT_EQ(v6.host, "::1");
    EXPECT_EQ(v6.server(), "[::1]:8080");
    // Other notations of an address must not be treated as names.
    EXPECT_EQ(parse_url("http://0x7f.1/").host, "127.0.0.1");
}

TEST(RequestUrl, NonHttpUrl_IsRefusedWithoutRepeatingIt) {
    for (const char* bad :
         {"", "api.example.com", "ftp://secret/x", "file:///etc/secret", "http://",
          "http://a b/secret", "http://host:99999/secret", "http://host:0/secret"}) {
        try {
            parse_url(bad);
            ADD_FAILURE() << bad;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << bad;
            EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
        }
    }
}

TEST(RequestUrl, Location_IsResolvedAgainstTheBase) {
    const RequestUrl base = parse_url("https://a.example/x/y?q");
    EXPECT_EQ(resolve_url(base, "z").url, "https://a.example/x/z");
    EXPECT_EQ(resolve_url(base, "//b.example/").url, "https://b.example/");
    EXPECT_THROW(resolve_url(base, "file:///etc/passwd"), Error);
    EXPECT_TRUE(same_origin(base, resolve_url(base, "/z")));
    EXPECT_FALSE(same_origin(base, resolve_url(base, "http://a.example/")));
}

TEST(Proxy, Environment_ChoosesTheProxyLikeLibcurl) {
    EXPECT_EQ(choose("http://host/", {{"http_proxy", "http://proxy:3128"}}).server(), "proxy:3128");
    EXPECT_EQ(choose("https://host/", {{"http_proxy", "http://proxy:3128"}}).url, "");
    EXPECT_EQ(choose("https://host/", {{"HTTPS_PROXY", "proxy"}}).server(), "proxy:1080");
    EXPECT_EQ(choose("http://host/", {{"HTTP_PROXY", "http://proxy:1"}}).url, "");
    EXPECT_EQ(choose("http://host/", {{"ALL_PROXY", "socks5h://[::1]"}}).server(), "[::1]:1080");
    EXPECT_EQ(choose("https://host/", {{"all_proxy", "x:1"}, {"https_proxy", "y:2"}}).server(),
              "y:2");
    EXPECT_EQ(choose("https://host/", {}).url, "");
    EXPECT_TRUE(choose("http://host/", {{"all_proxy", "socks5h://p"}}).resolves_target);
    EXPECT_FALSE(choose("http://host/", {{"all_proxy", "socks5://p"}}).resolves_target);
}

TEST(Proxy, UnusableProxy_IsAnErrorWithoutThePassword) {
    try {
        choose("https://host/", {{"https_proxy", "http://user:hunter2@:x/"}});
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::proxy);
        EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos);
    }
}

TEST(Proxy, NoProxy_ExemptsNamesAddressesAndNetworks) {
    const auto name = [](std::string_view list, const char* host) {
        return no_proxy_matches(list, host, false);
    };
    EXPECT_TRUE(name("*", "a.example"));
    EXPECT_TRUE(name("example", "a.example"));
    EXPECT_TRUE(name("x, .a.example", "a.example"));
    EXPECT_TRUE(name("A.Example", "b.a.example"));
    EXPECT_TRUE(name("x y a.example", "a.example"));
    EXPECT_FALSE(name("b.example", "bb.example"));
    EXPECT_FALSE(name("", "a.example"));
    EXPECT_FALSE(name(" , ,", "a.example"));
    const auto address = [](std::string_view list, const char* host) {
        return no_proxy_matches(list, host, true);
    };
    EXPECT_TRUE(address("10.0.0.0/8,127.0.0.1", "10.20.30.40"));
    EXPECT_TRUE(address("127.0.0.1", "127.0.0.1"));
    EXPECT_TRUE(address("192.168.16.0/20", "192.168.31.1"));
    EXPECT_FALSE(address("192.168.16.0/20", "192.168.32.1"));
    EXPECT_TRUE(address("[::1]", "::1"));
    EXPECT_TRUE(address("fd00::/8", "fd12::1"));
    const auto at = [](std::string_view list, const char* url) {
        const RequestUrl parsed = parse_url(url);
        return no_proxy_matches(list, parsed.host, parsed.is_address, parsed.port);
    };
    EXPECT_TRUE(at("a.example:8080", "http://a.example:8080/"));
    EXPECT_FALSE(at("a.example:8080", "http://a.example/"));
    EXPECT_TRUE(at("a.example:443", "https://b.a.example/"));
    EXPECT_TRUE(at("127.0.0.1:80,[::1]:81", "http://[::1]:81/"));
    EXPECT_FALSE(at("127.0.0.1:80,[::1]:81", "http://[::1]:82/"));
    EXPECT_TRUE(at("::1", "http://[::1]:82/"));
    EXPECT_TRUE(at("*.example", "http://a.example/"));
    EXPECT_FALSE(at("a.example:x", "http://a.example/"));
    EXPECT_FALSE(address("10.0.0.0/99,10.0.0.0/x", "10.0.0.1"));
    EXPECT_EQ(
        choose("http://127.0.0.1/", {{"http_proxy", "http://p:1"}, {"no_proxy", "127.0.0.0/8"}})
            .url,
        "");
}

using namespace std::chrono_literals;
using Addresses = std::vector<std::string>;

struct NameCacheTest : ::testing::Test {
    std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    int lookups = 0;
    Addresses answer = {"1.1.1.1", "2.2.2.2"};
    NameCache cache{clock, [this](const std::string&) {
                        ++lookups;
                        if (answer.empty()) throw Error(ErrorCode::dns, "no such name");
                        return answer;
                    }};
};

TEST_F(NameCacheTest, RecentAnswer_IsRemembered) {
    EXPECT_TRUE(cache.find("a").addresses.empty());
    EXPECT_EQ(cache.resolve("a"), answer);
    clock->advance(9s);
    EXPECT_EQ(cache.find("a").addresses, answer);
    EXPECT_FALSE(cache.find("a").refresh);
    EXPECT_EQ(cache.resolve("a"), answer);
    EXPECT_EQ(lookups, 1);
}

TEST_F(NameCacheTest, OldAnswer_IsReturnedAndRefreshedOnce) {
    cache.resolve("a");
    clock->advance(11s);
    EXPECT_TRUE(cache.find("a").refresh);
    EXPECT_FALSE(cache.find("a").refresh);
    EXPECT_EQ(cache.find("a").addresses, answer);
    answer = {"3.3.3.3"};
    cache.resolve("a");
    EXPECT_EQ(cache.find("a").addresses, Addresses{"3.3.3.3"});
}

TEST_F(NameCacheTest, VeryOldAnswer_IsForgotten) {
    cache.resolve("a");
    clock->advance(301s);
    EXPECT_TRUE(cache.find("a").addresses.empty());
}

TEST_F(NameCacheTest, FailedConnection_PutsAnotherAddressFirst) {
    cache.resolve("a");
    cache.failed("a");
    EXPECT_TRUE(cache.find("a").addresses.empty());
    EXPECT_EQ(cache.resolve("a"), (Addresses{"2.2.2.2", "1.1.1.1"}));
    EXPECT_EQ(lookups, 2);
}

TEST_F(NameCacheTest, FailedRefresh_IsTriedAgain) {
    cache.resolve("a");
    clock->advance(11s);
    EXPECT_TRUE(cache.find("a").refresh);
    answer.clear();
    EXPECT_THROW(cache.resolve("a"), Error);
    EXPECT_TRUE(cache.find("a").refresh);
}

/// A connected pair of sockets.
struct Ends {
    Ends() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()), 0); }
    ~Ends() {
        for (const int fd : fds) ::close(fd);
    }
    void say() const { EXPECT_EQ(::write(fds[1], "x", 1), 1); }
    int ours() const { return fds[0]; }

    std::array<int, 2> fds{};
};

struct SocketSetTest : ::testing::Test {
    std::size_t ready() { return set.ready(found); }

    boost::asio::io_context context{1};
    SocketSet set{context.get_executor()};
    std::array<SocketSet::Ready, 16> found{};
    Ends ends;
};

TEST_F(SocketSetTest, ReadySocket_IsReportedWhileReady) {
    set.watch(ends.ours(), CURL_POLL_IN);
    EXPECT_EQ(ready(), 0u);
    ends.say();
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(ready(), 1u);
        EXPECT_EQ(found[0].fd, ends.ours());
        EXPECT_EQ(found[0].events, CURL_CSELECT_IN);
    }
    set.watch(ends.ours(), CURL_POLL_INOUT);
    ASSERT_EQ(ready(), 1u);
    EXPECT_EQ(found[0].events, CURL_CSELECT_IN | CURL_CSELECT_OUT);
}

TEST_F(SocketSetTest, DisconnectedPeer_IsReadable) {
    set.watch(ends.ours(), CURL_POLL_IN);
    ::shutdown(ends.fds[1], SHUT_RDWR);
    ASSERT_EQ(ready(), 1u);
    EXPECT_EQ(found[0].events, CURL_CSELECT_IN);
}

TEST_F(SocketSetTest, ReusedSocketNumber_IsNotTheReadySocket) {
    set.watch(ends.ours(), CURL_POLL_IN);
    ends.say();
    ASSERT_EQ(ready(), 1u);
    EXPECT_TRUE(set.holds(found[0]));
    set.forget(ends.ours());
    EXPECT_FALSE(set.holds(found[0]));
    set.watch(ends.ours(), CURL_POLL_IN);
    EXPECT_FALSE(set.holds(found[0]));
}

TEST_F(SocketSetTest, SocketsBeyondTheBuffer_ComeNextTime) {
    std::array<Ends, 3> all;
    for (const Ends& one : all) {
        set.watch(one.ours(), CURL_POLL_IN);
        one.say();
    }
    std::array<SocketSet::Ready, 2> few{};
    std::array<int, 16> seen{};
    for (int round = 0; round < 2; ++round) {
        const std::size_t count = set.ready(few);
        EXPECT_EQ(count, 2u);
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t n = 0; n < all.size(); ++n) seen[n] += few[i].fd == all[n].ours();
        }
    }
    for (std::size_t n = 0; n < all.size(); ++n) EXPECT_GT(seen[n], 0);
}

TEST_F(SocketSetTest, Wait_WakesContextAndReleasesItWhenEmpty) {
    int woken = 0;
    set.watch(ends.ours(), CURL_POLL_IN);
    set.async_wait([&](boost::system::error_code) { ++woken; });
    ends.say();
    context.run();
    EXPECT_EQ(woken, 1);
    set.forget(ends.ours());
    Ends silent;
    set.watch(silent.ours(), CURL_POLL_IN);
    set.async_wait([&](boost::system::error_code) { ++woken; });
    set.forget(silent.ours());
    context.restart();
    context.run();  // ends
    EXPECT_EQ(woken, 2);
}

TEST_F(SocketSetTest, UnwatchableSocket_IsAnError) {
    EXPECT_THROW(set.watch(-1, CURL_POLL_IN), boost::system::system_error);
    EXPECT_TRUE(set.empty());
}

}  // namespace
}  // namespace cubepi::detail
