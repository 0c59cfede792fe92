#include <cubepi/testing/memory_transport.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include <gtest/gtest.h>

#include <stop_token>

namespace cubepi::testing {
namespace {

using namespace std::chrono_literals;

Task<std::vector<std::string>> read_pieces(HttpTransport& transport, HttpRequest request) {
    HttpResponse response = co_await transport.send(std::move(request));
    std::vector<std::string> pieces;
    std::string piece;
    while (co_await response.body->read(piece)) pieces.push_back(std::exchange(piece, {}));
    co_return pieces;
}

std::vector<MemoryResponse> one(MemoryResponse response) {
    std::vector<MemoryResponse> answers;
    answers.push_back(std::move(response));
    return answers;
}

template <class F>
std::string timeout_of(F f) {
    try {
        f();
    } catch (const TimeoutError& error) {
        return error.timeout();
    }
    return {};
}

TEST(MemoryTransport, Script_ReturnsItsPieces) {
    MemoryTransport transport(one(MemoryResponse(200, "a").with_event("b").with_piece("c")));
    EXPECT_EQ(run(read_pieces(transport, HttpRequest("GET", "http://x/"))),
              (std::vector<std::string>{"a", "data: b\n\n", "c"}));
    EXPECT_EQ(transport.open_exchanges(), 0u);
}

TEST(MemoryTransport, PieceSize_DividesTheBody) {
    MemoryTransport transport(one(MemoryResponse(200, "abcde").in_pieces_of(2)));
    EXPECT_EQ(run(read_pieces(transport, HttpRequest())),
              (std::vector<std::string>{"ab", "cd", "e"}));
}

TEST(MemoryTransport, Requests_AreRecorded) {
    MemoryTransport transport([](const HttpRequest& request) {
        return MemoryResponse(request.body.empty() ? 400 : 200);
    });
    HttpRequest request = HttpRequest("POST", "http://x/y").with_body("{}", "application/json");
    auto send = [&]() -> Task<int> {
        HttpResponse response = co_await transport.send(std::move(request));
        EXPECT_EQ(transport.open_exchanges(), 1u);
        co_return response.status;
    };
    EXPECT_EQ(run(send()), 200);
    ASSERT_EQ(transport.requests().size(), 1u);
    EXPECT_EQ(transport.requests()[0].url, "http://x/y");
    EXPECT_EQ(transport.requests()[0].headers.get("Content-Type"), "application/json");
}

TEST(MemoryTransport, ExhaustedScript_ThrowsAnError) {
    MemoryTransport transport(std::vector<MemoryResponse>{});
    EXPECT_THROW(run(read_pieces(transport, HttpRequest())), Error);
}

TEST(MemoryTransport, FailureBeforeOrInBody_IsThrown) {
    MemoryTransport before(one(MemoryResponse::failing(Error(ErrorCode::connect, "refused"))));
    EXPECT_THROW(run(read_pieces(before, HttpRequest())), Error);
    MemoryTransport within(
        one(MemoryResponse(200, "a").with_failure(Error(ErrorCode::disconnected, "broken"))));
    EXPECT_THROW(run(read_pieces(within, HttpRequest())), Error);
}

TEST(MemoryTransport, ManualClock_EnforcesTheTimeouts) {
    const auto clock = std::make_shared<ManualClock>();
    MemoryTransport silent(one(MemoryResponse::never()), clock);
    EXPECT_EQ(timeout_of([&] { run_advancing(*clock, read_pieces(silent, HttpRequest())); }),
              "first_byte");

    HttpRequest request;
    request.timeouts.total = 60s;
    MemoryTransport slow(
        one(MemoryResponse(200, "a").with_delay(40s).with_piece("b").with_delay(40s)), clock);
    EXPECT_EQ(timeout_of([&] { run_advancing(*clock, read_pieces(slow, std::move(request))); }),
              "total");

    MemoryTransport patient(one(MemoryResponse(200, "a").with_delay(1h).with_piece("b")), clock);
    EXPECT_EQ(run_advancing(*clock, read_pieces(patient, HttpRequest())),
              (std::vector<std::string>{"a", "b"}));
}

TEST(MemoryTransport, StalledBody_CanBeAborted) {
    std::stop_source stop;
    MemoryTransport transport(
        one(MemoryResponse(200, "a").with_call([&] { stop.request_stop(); }).with_stall()));
    try {
        run(cancel_on(stop.get_token(), read_pieces(transport, HttpRequest())));
        FAIL();
    } catch (...) {
        EXPECT_TRUE(is_cancellation(std::current_exception()));
    }
    EXPECT_EQ(transport.open_exchanges(), 0u);
}

}  // namespace
}  // namespace cubepi::testing
