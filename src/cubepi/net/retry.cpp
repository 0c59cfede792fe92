#include <cubepi/net/retry.hpp>

#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/network_error.hpp>

#include <curl/curl.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string_view>

namespace cubepi {
namespace {

using std::chrono::milliseconds;

/// Converts a number of `unit`s to a delay. Excessive numbers are clamped, so that they cannot overflow.
std::optional<milliseconds> parse_wait(std::string_view text, double unit_ms) {
    text = detail::trimmed(text, " \t");
    const std::optional<double> number = detail::parsed_number<double>(text);
    if (!number || !std::isfinite(*number) || *number < 0) return std::nullopt;
    constexpr double year_ms = 365.0 * 24 * 3600 * 1000;
    return milliseconds(static_cast<std::int64_t>(std::ceil(std::min(*number * unit_ms, year_ms))));
}

RetryDecision no_retry(std::string reason) {
    RetryDecision decision;
    decision.reason = std::move(reason);
    return decision;
}

std::string used_up(int retries_done) {
    return retries_done == 0 ? ", retries are off"
                             : ", after " + std::to_string(retries_done) +
                                   (retries_done == 1 ? " retry" : " retries");
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> parse_http_date(const std::string& text) {
    const std::time_t time = curl_getdate(text.c_str(), nullptr);
    if (time == -1) return std::nullopt;
    // The clock counts nanoseconds: its range ends in 2262.
    using Clock = std::chrono::system_clock;
    constexpr auto last = std::chrono::floor<std::chrono::seconds>(Clock::duration::max());
    return Clock::time_point(std::clamp(std::chrono::seconds(time), std::chrono::seconds(0), last));
}

RetryHints read_retry_hints(const HttpHeaders& headers, std::chrono::system_clock::time_point now) {
    RetryHints hints;
    if (const std::string* value = headers.find("x-should-retry")) {
        const std::string_view word = detail::trimmed(*value, " \t");
        if (word == "true") hints.should_retry = true;
        if (word == "false") hints.should_retry = false;
    }
    if (const std::string* value = headers.find("retry-after-ms"))
        hints.delay = parse_wait(*value, 1);
    if (hints.delay) return hints;
    const std::string* value = headers.find("retry-after");
    if (value == nullptr) return hints;
    hints.delay = parse_wait(*value, 1000);
    if (hints.delay) return hints;
    const auto date = parse_http_date(*value);
    if (!date) return hints;
    if (const std::string* sent = headers.find("date")) now = parse_http_date(*sent).value_or(now);
    hints.delay = std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*date - now));
    return hints;
}

bool is_retryable_status(int status) noexcept {
    return status == 408 || status == 409 || status == 425 || status == 429 ||
           (status >= 500 && status <= 599);
}

bool is_retryable_error(const Error& error) noexcept {
    if (const auto* timeout = dynamic_cast<const TimeoutError*>(&error))
        return timeout->timeout() == "connect";
    if (const auto* network = dynamic_cast<const NetworkError*>(&error))
        return network->transient();
    return false;
}

milliseconds backoff_delay(const RetryPolicy& policy, int retries_done, double random) {
    milliseconds delay = policy.base_delay;
    for (int i = 0; i < retries_done && delay < policy.max_delay; ++i) delay *= 2;
    delay = std::min(delay, policy.max_delay);
    return milliseconds(
        static_cast<std::int64_t>(static_cast<double>(delay.count()) * (1.0 - 0.25 * random)));
}

RetryDecision decide_retry(const RetryPolicy& policy, int retries_done, int status,
                           const RetryHints& hints, double random) {
    const std::string what = "HTTP " + std::to_string(status);
    if (status < 400) return no_retry(what + " is not an error");
    if (hints.should_retry == false) return no_retry(what + ", and the server says not to retry");
    if (!hints.should_retry && !is_retryable_status(status)) return no_retry(what + " is final");
    if (retries_done >= policy.max_retries) return no_retry(what + used_up(retries_done));
    if (hints.delay && *hints.delay > policy.max_server_delay) {
        return no_retry(
            what + ", and the server asks to wait " +
            seconds_text(std::chrono::ceil<std::chrono::seconds>(*hints.delay)) +
            ", more than the " +
            seconds_text(std::chrono::ceil<std::chrono::seconds>(policy.max_server_delay)) +
            " allowed");
    }
    RetryDecision decision;
    decision.retry = true;
    decision.delay = hints.delay ? *hints.delay : backoff_delay(policy, retries_done, random);
    decision.reason = what;
    return decision;
}

RetryDecision decide_retry(const RetryPolicy& policy, int retries_done, const Error& error,
                           double random) {
    if (!is_retryable_error(error)) return no_retry(error.what());
    if (retries_done >= policy.max_retries) return no_retry(error.what() + used_up(retries_done));
    RetryDecision decision;
    decision.retry = true;
    decision.delay = backoff_delay(policy, retries_done, random);
    // Without the remedy after the first sentence: no action is required yet.
    const std::string what = error.what();
    decision.reason = what.substr(0, what.find(". "));
    if (decision.reason.ends_with('.')) decision.reason.pop_back();
    return decision;
}

}  // namespace cubepi
