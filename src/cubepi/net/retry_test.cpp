#include <cubepi/net/retry.hpp>

#include <cubepi/net/network_error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <tuple>

namespace cubepi {
namespace {

using namespace std::chrono_literals;

const auto now =
    std::chrono::system_clock::from_time_t(784111777);  // Sun, 06 Nov 1994 08:49:37 GMT

RetryHints hints(const std::string& name, const std::string& value) {
    HttpHeaders headers;
    headers.add(name, value);
    return read_retry_hints(headers, now);
}

TEST(Retry, D15_TransientStatuses_AreRetried) {
    for (int status : {408, 409, 425, 429, 500, 502, 503, 504, 529, 599}) {
        EXPECT_TRUE(is_retryable_status(status));
    }
    for (int status : {200, 301, 400, 401, 403, 404, 413, 422}) {
        EXPECT_FALSE(is_retryable_status(status));
    }
}

TEST(Retry, D15_DefaultPolicy_RetriesTwice) {
    const RetryPolicy policy;
    EXPECT_TRUE(decide_retry(policy, 0, 500, RetryHints(), 0).retry);
    EXPECT_TRUE(decide_retry(policy, 1, 500, RetryHints(), 0).retry);
    const RetryDecision last = decide_retry(policy, 2, 500, RetryHints(), 0);
    EXPECT_FALSE(last.retry);
    EXPECT_EQ(last.reason, "HTTP 500, after 2 retries");
}

TEST(Retry, D15_Backoff_GrowsWithJitter) {
    const RetryPolicy policy;
    EXPECT_EQ(backoff_delay(policy, 0, 0.0), 500ms);
    EXPECT_EQ(backoff_delay(policy, 1, 0.0), 1000ms);
    EXPECT_EQ(backoff_delay(policy, 1, 0.5), 875ms);
    EXPECT_EQ(backoff_delay(policy, 30, 0.0), 8000ms);
    EXPECT_GT(backoff_delay(policy, 0, 0.999), 370ms);
}

TEST(Retry, D15_RetryAfterHeaders_AreRead) {
    EXPECT_EQ(hints("Retry-After", "3").delay, 3000ms);
    EXPECT_EQ(hints("retry-after", " 0.25 ").delay, 250ms);
    EXPECT_EQ(hints("Retry-After-Ms", "1200").delay, 1200ms);
    EXPECT_EQ(hints("retry-after", "2s").delay, 2s);
    EXPECT_EQ(hints("retry-after", "1m30s").delay, 90s);
    EXPECT_EQ(hints("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT").delay, 20s);
    EXPECT_EQ(hints("retry-after", "Sunday, 06-Nov-94 08:49:57 GMT").delay, 20s);
    EXPECT_EQ(hints("retry-after", "Sun Nov  6 08:49:57 1994").delay, 20s);
    EXPECT_EQ(hints("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT").delay, 0ms);
    for (const char* nonsense : {"", "soon", "-1", "nan", "inf", "3 apples", "2s x"}) {
        EXPECT_EQ(hints("retry-after", nonsense).delay, std::nullopt) << nonsense;
    }
    EXPECT_LE(hints("retry-after", "1e300").delay, std::chrono::hours(24 * 366));
    // Beyond the range of a clock in nanoseconds.
    EXPECT_GT(hints("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT").delay,
              std::chrono::hours(24 * 365 * 100));
    EXPECT_EQ(hints("retry-after", "Mon, 01 Jan 1601 00:00:00 GMT").delay, 0ms);
}

TEST(Retry, D15_ResetOfExhaustedLimit_IsRead) {
    const std::tuple<const char*, const char*, std::optional<std::chrono::milliseconds>> cases[] = {
        {"x-ratelimit-reset-requests", "2s", 2s},
        {"x-ratelimit-reset-tokens", "1m30.5s", 90500ms},
        {"x-ratelimit-reset-tokens", "12ms", 12ms},
        {"x-ratelimit-reset", "7", 7s},
        {"ratelimit-reset", "784111787", 10s},
        {"x-ratelimit-reset", "784111787000", 10s},
        {"anthropic-ratelimit-requests-reset", "1994-11-06T08:49:57Z", 20s},
        {"anthropic-ratelimit-input-tokens-reset", "1994-11-06T09:49:57.5+01:00", 20s},
        {"anthropic-ratelimit-tokens-reset", "1994-11-06T08:00:00Z", 0s},
        {"x-ratelimit-reset", "soon", std::nullopt},
        {"x-ratelimit-reset", "1994-11", std::nullopt},
        {"x-ratelimit-limit", "7", std::nullopt},
    };
    for (const auto& [name, value, delay] : cases)
        EXPECT_EQ(hints(name, value).reset, delay) << value;
    HttpHeaders headers;
    headers.add("x-ratelimit-remaining-requests", "99");
    headers.add("x-ratelimit-reset-requests", "1s");
    headers.add("x-ratelimit-remaining-tokens", "0");
    headers.add("x-ratelimit-reset-tokens", "5s");
    EXPECT_EQ(read_retry_hints(headers, now).reset, 5s);
}

TEST(Retry, D15_Milliseconds_TakePrecedenceOverSeconds) {
    HttpHeaders headers;
    headers.add("retry-after", "9");
    headers.add("retry-after-ms", "100");
    EXPECT_EQ(read_retry_hints(headers, now).delay, 100ms);
}

TEST(Retry, D15_Date_CountsFromTheServerClock) {
    HttpHeaders headers;
    headers.add("date", "Sun, 06 Nov 1994 10:00:00 GMT");
    headers.add("retry-after", "Sun, 06 Nov 1994 10:00:05 GMT");
    EXPECT_EQ(read_retry_hints(headers, now).delay, 5s);
}

TEST(Retry, D15_ServerDelay_IsObeyedUpToACap) {
    const RetryPolicy policy;
    EXPECT_EQ(decide_retry(policy, 0, 429, hints("retry-after", "7"), 0.9).delay, 7s);
    const RetryDecision refused = decide_retry(policy, 0, 429, hints("retry-after", "3600"), 0);
    EXPECT_FALSE(refused.retry);
    EXPECT_EQ(refused.reason,
              "HTTP 429, and the server asks to wait 3600 s, more than the 60 s allowed");
}

TEST(Retry, D15_XShouldRetryHeader_Decides) {
    const RetryPolicy policy;
    EXPECT_FALSE(decide_retry(policy, 0, 500, hints("x-should-retry", "false"), 0).retry);
    EXPECT_TRUE(decide_retry(policy, 0, 400, hints("x-should-retry", "true"), 0).retry);
    EXPECT_FALSE(decide_retry(policy, 2, 400, hints("x-should-retry", "true"), 0).retry);
    EXPECT_FALSE(decide_retry(policy, 0, 200, hints("x-should-retry", "true"), 0).retry);
}

TEST(Retry, RetryReason_ContainsNoAdvice) {
    const NetworkError failed(ErrorCode::connect, "host", true,
                              "Cannot connect to host:1: Connection refused. Check the address.");
    EXPECT_EQ(decide_retry(RetryPolicy(), 0, failed, 0).reason,
              "Cannot connect to host:1: Connection refused");
}

TEST(Retry, D15_ConnectFailuresAndResets_AreRetried) {
    const RetryPolicy policy;
    EXPECT_TRUE(
        decide_retry(policy, 0, NetworkError(ErrorCode::connect, "h", true, "refused"), 0).retry);
    EXPECT_TRUE(
        decide_retry(policy, 0, NetworkError(ErrorCode::disconnected, "h", true, "reset"), 0)
            .retry);
    EXPECT_TRUE(decide_retry(policy, 0, TimeoutError("connect", "late"), 0).retry);
    EXPECT_FALSE(decide_retry(policy, 0, TimeoutError("first_byte", "late"), 0).retry);
    EXPECT_FALSE(
        decide_retry(policy, 0, NetworkError(ErrorCode::tls, "h", false, "certificate"), 0).retry);
    EXPECT_FALSE(decide_retry(policy, 0, Error(ErrorCode::invalid_argument, "url"), 0).retry);
    EXPECT_FALSE(
        decide_retry(RetryPolicy{.max_retries = 0}, 0, TimeoutError("connect", "late"), 0).retry);
}

}  // namespace
}  // namespace cubepi
