#pragma once

#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace cubepi {

/// When a failed request is retried (D15). Retries are only for requests that failed before any part of the answer was
/// shown; the caller must ensure that.
struct RetryPolicy {
    int max_retries = 2;                         ///< 0: never
    std::chrono::milliseconds base_delay{500};   ///< before the first retry; doubles with each
    std::chrono::milliseconds max_delay{8'000};  ///< upper bound of the doubled delay
    std::chrono::milliseconds max_server_delay{
        60'000};  ///< no retry if the server requests a longer delay
    /// A rate limit is retried until this time has passed since the first attempt, also beyond max_retries, unless the
    /// server states the delay in a header. 0: max_retries decides. For model calls.
    std::chrono::milliseconds rate_limit_time{60'000};
    /// The same for other temporary failures, also if the server states the delay: a 5xx, a connection that fails or is lost,
    /// but not a refused connection to this machine, where no server runs then. 0: max_retries decides.
    std::chrono::milliseconds outage_time{0};
};

/// The retry headers of a response.
struct RetryHints {
    std::optional<std::chrono::milliseconds> delay = {};  ///< `retry-after-ms`, else `retry-after`
    std::optional<bool> should_retry = {};                ///< `x-should-retry`
    /// Until the first limit without remaining requests or tokens is reset (`x-ratelimit-reset-requests`,
    /// `anthropic-ratelimit-tokens-reset`). Some servers send these headers with every response.
    std::optional<std::chrono::milliseconds> reset = {};
};

/// Reads `retry-after-ms`, `retry-after` (seconds, with or without a unit, or an HTTP date: RFC 9110, 10.2.3), `x-should-retry`
/// and the resets of rate limits (a duration, seconds, or a time in RFC 3339 or in seconds since 1970). A date is relative to the response's own `date` header, if present, so that a wrong local clock does not matter, else to
/// `now`. A date in the past is a delay of zero; invalid values are treated as absent.
RetryHints read_retry_hints(const HttpHeaders& headers, std::chrono::system_clock::time_point now);

struct RetryDecision {
    bool retry = false;
    std::chrono::milliseconds delay{0};
    std::string reason;  ///< for display, e.g. "HTTP 429" or "the server asks to wait 300 s, ..."
};

/// Returns true if a response with this status may be retried: 408, 409, 425, 429 and 5xx.
bool is_retryable_status(int status) noexcept;

/// Returns true if a request that threw `error` may be retried: connect failures, resets and connect timeouts.
bool is_retryable_error(const Error& error) noexcept;

/// Decides after a response with an error status. `retries_done` counts the earlier retries; `random` is in [0, 1).
RetryDecision decide_retry(const RetryPolicy& policy, int retries_done, int status,
                           const RetryHints& hints, double random);

/// Decides after a request that threw.
RetryDecision decide_retry(const RetryPolicy& policy, int retries_done, const Error& error,
                           double random);

/// Returns the delay before a retry if the server requested none: base_delay doubled `retries_done` times, at most
/// max_delay, reduced by up to a quarter according to `random`, so that clients that failed together do not retry
/// together.
std::chrono::milliseconds backoff_delay(const RetryPolicy& policy, int retries_done, double random);

/// Reads the duration at the beginning of a text, in seconds, and removes it from the text: "6.5s", "250 ms", "1m30s", "26 seconds",
/// "3 more seconds", "2 秒", "20".
std::optional<double> read_duration(std::string_view& text);

/// Parses the three forms of an HTTP date (RFC 9110, 5.6.7).
std::optional<std::chrono::system_clock::time_point> parse_http_date(const std::string& text);

}  // namespace cubepi
