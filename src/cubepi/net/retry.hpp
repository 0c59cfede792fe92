#pragma once

#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace cubepi {

/// When a failed request is sent again (D15). Retrying is for what failed before anything of the answer was
/// shown; that is the caller's to know.
struct RetryPolicy {
    int max_retries = 2;                         ///< 0: never
    std::chrono::milliseconds base_delay{500};   ///< before the first retry; doubles with each
    std::chrono::milliseconds max_delay{8'000};  ///< where the doubling ends
    std::chrono::milliseconds max_server_delay{
        60'000};  ///< a server that asks for more is not retried
};

/// What an answer says about retrying.
struct RetryHints {
    std::optional<std::chrono::milliseconds> delay;  ///< `retry-after-ms`, else `retry-after`
    std::optional<bool> should_retry;                ///< `x-should-retry`
};

/// Reads `retry-after-ms`, `retry-after` (seconds, or an HTTP date: RFC 9110, 10.2.3) and `x-should-retry`.
/// A date counts from the answer's own `date` header where it has one, so that a wrong local clock does not
/// matter, else from `now`. A date in the past is a delay of zero; what cannot be read is absent.
RetryHints read_retry_hints(const HttpHeaders& headers, std::chrono::system_clock::time_point now);

struct RetryDecision {
    bool retry = false;
    std::chrono::milliseconds delay{0};
    std::string reason;  ///< for people, e.g. "HTTP 429" or "the server asks to wait 300 s, ..."
};

/// Whether an answer with this status is worth another try: 408, 409, 425, 429 and 5xx.
bool is_retryable_status(int status) noexcept;

/// Whether a request that threw this may be sent again: connect failures, resets and the connect clock.
bool is_retryable_error(const Error& error) noexcept;

/// After an answer with an error status. `retries_done` counts the retries before; `random` is in [0, 1).
RetryDecision decide_retry(const RetryPolicy& policy, int retries_done, int status,
                           const RetryHints& hints, double random);

/// After a request that threw.
RetryDecision decide_retry(const RetryPolicy& policy, int retries_done, const Error& error,
                           double random);

/// The wait before a retry that no server asked for: base_delay doubled `retries_done` times, at most
/// max_delay, of which `random` takes away up to a quarter, so that clients that failed together do not
/// come back together.
std::chrono::milliseconds backoff_delay(const RetryPolicy& policy, int retries_done, double random);

/// Parses the three forms of an HTTP date (RFC 9110, 5.6.7).
std::optional<std::chrono::system_clock::time_point> parse_http_date(const std::string& text);

}  // namespace cubepi
