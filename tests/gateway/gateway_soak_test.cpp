// A gateway under slow, fast, huge and hostile clients at once: it answers the others, and its memory does not grow. SOAK_SECONDS sets the
// time (tools/soak); the p99 of the unrelated session is printed, not asserted.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

using std::chrono::steady_clock;

/// Growth of the resident memory after the first third that is not a leak: caches, arenas of the allocator.
constexpr std::size_t allowed_growth = std::size_t{48} << 20;

/// The gateway reaches about 210 MiB once each session has had its longest turns. On a slow machine that takes longer than the first third,
/// so that growth up to this size is not a leak either.
constexpr std::size_t warm_memory = std::size_t{288} << 20;

std::chrono::seconds duration() {
    const char* const given = std::getenv("SOAK_SECONDS");
    return std::chrono::seconds(given ? std::atoi(given) : 20);
}

std::size_t resident_bytes(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
    std::size_t pages = 0;
    std::size_t resident = 0;
    file >> pages >> resident;
    return resident * 4096;
}

struct Soak {
    explicit Soak(std::uint16_t at) : port(at), end(steady_clock::now() + duration()) {}
    bool is_over() const { return steady_clock::now() >= end; }

    const std::uint16_t port;
    const steady_clock::time_point end;
    std::size_t answered = 0;
    std::size_t refused = 0;
    std::size_t failed = 0;
    std::vector<double> unrelated_ms;
};

/// Sends one message after the other in a session.
Task<> talk(Soak& soak, std::string session, std::function<std::string(std::size_t)> text) {
    for (std::size_t i = 0; !soak.is_over(); ++i) {
        JsonObject message{{"session", session}, {"text", text(i)}};
        const HttpReply reply = co_await post_message(soak.port, std::move(message));
        if (reply.status == 200) {
            ++soak.answered;
        } else if (reply.status >= 400) {
            ++soak.refused;
        } else {
            ++soak.failed;
        }
    }
}

/// The session whose delays are measured.
Task<> measure(Soak& soak) {
    while (!soak.is_over()) {
        const steady_clock::time_point begin = steady_clock::now();
        JsonObject message{{"session", "unrelated"}, {"text", "quick"}};
        const HttpReply reply = co_await post_message(soak.port, std::move(message));
        EXPECT_EQ(reply.status, 200) << reply.body;
        const std::chrono::duration<double, std::milli> time = steady_clock::now() - begin;
        soak.unrelated_ms.push_back(time.count());
    }
}

/// A client that sends what a server must survive: bytes that are not a request, headers without an end, bodies that stop.
Task<> attack(Soak& soak, std::string bytes) {
    using boost::asio::ip::tcp;
    const Executor executor = co_await this_executor;
    const boost::asio::use_awaitable_t<Executor> awaits;
    SystemClock clock;
    while (!soak.is_over()) {
        boost::system::error_code failed;
        auto token = boost::asio::redirect_error(awaits, failed);
        tcp::socket socket(executor);
        const tcp::endpoint server(boost::asio::ip::address_v4::loopback(), soak.port);
        co_await socket.async_connect(server, token);
        if (!failed) co_await boost::asio::async_write(socket, boost::asio::buffer(bytes), token);
        // Some connections stay open for a moment.
        co_await clock.sleep_for(std::chrono::milliseconds(50));
    }
}

Task<> run_soak(Soak& soak, const GatewayProcess& gateway, std::vector<std::size_t>& memory) {
    TaskScope scope(co_await this_executor);
    const auto number = [](std::size_t i) { return "message " + std::to_string(i); };
    const auto huge = [](std::size_t) { return std::string(900'000, 'x'); };
    const auto too_long = [](std::size_t) { return std::string(1'100'000, 'x'); };
    for (int i = 0; i < 4; ++i) scope.spawn(talk(soak, "fast" + std::to_string(i), number));
    for (int i = 0; i < 2; ++i) scope.spawn(talk(soak, "huge" + std::to_string(i), huge));
    scope.spawn(talk(soak, "long", too_long));
    scope.spawn(measure(soak));
    scope.spawn(attack(soak, "\x16\x03\x01 garbage\r\n\r\n"));
    scope.spawn(attack(soak, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Slow: "));
    scope.spawn(
        attack(soak,
               "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer 0123456789abcdef\r\n"
               "Content-Length: 1000\r\n\r\n{\"text\": "));
    scope.spawn(attack(soak, "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n"));
    SystemClock clock;
    while (!soak.is_over()) {
        memory.push_back(resident_bytes(gateway.pid()));
        co_await clock.sleep_for(std::chrono::milliseconds(500));
    }
    co_await scope.join();
}

TEST(GatewaySoak, HostileClients_KeepMemoryFlat) {
    const GatewayHome home;
    GatewayProcess gateway(home);
    Soak soak(gateway.wait_until_running());
    std::vector<std::size_t> memory;
    run(run_soak(soak, gateway, memory));
    EXPECT_EQ(soak.failed, 0u);
    EXPECT_GT(soak.answered, 0u);
    EXPECT_GT(soak.refused, 0u);
    ASSERT_GT(memory.size(), 3u);
    const std::size_t early = *std::max_element(
        memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(memory.size() / 3 + 1));
    EXPECT_LT(memory.back(), std::max(early + allowed_growth, warm_memory));
    std::sort(soak.unrelated_ms.begin(), soak.unrelated_ms.end());
    ASSERT_FALSE(soak.unrelated_ms.empty());
    std::printf(
        "soak: %zu answered, %zu refused; unrelated session: %zu turns, median %.1f ms, p99 %.1f "
        "ms; memory %zu to %zu MiB\n",
        soak.answered, soak.refused, soak.unrelated_ms.size(),
        soak.unrelated_ms[soak.unrelated_ms.size() / 2],
        soak.unrelated_ms[soak.unrelated_ms.size() * 99 / 100], early >> 20, memory.back() >> 20);
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0) << gateway.output();
}

}  // namespace
}  // namespace cubepi::gateway_tests
