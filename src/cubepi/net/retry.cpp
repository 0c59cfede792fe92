#include <cubepi/net/retry.hpp>

#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/network_error.hpp>

#include <curl/curl.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

namespace cubepi {
namespace {

using std::chrono::milliseconds;

/// Converts a number of `unit`s to a delay. Excessive numbers are clamped, so that they cannot overflow.
std::optional<milliseconds> to_delay(double number, double unit_ms) {
    if (!std::isfinite(number) || number < 0) return std::nullopt;
    constexpr double year_ms = 365.0 * 24 * 3600 * 1000;
    return milliseconds(static_cast<std::int64_t>(std::ceil(std::min(number * unit_ms, year_ms))));
}

/// Reads a number of `unit`s, or a duration with its own units.
std::optional<milliseconds> parse_wait(std::string_view text, double unit_ms) {
    text = detail::trimmed(text, " \t");
    if (const auto number = detail::parsed_number<double>(text)) return to_delay(*number, unit_ms);
    const std::optional<double> seconds = read_duration(text);
    if (!seconds || !text.empty()) return std::nullopt;
    return to_delay(*seconds, 1000);
}

/// Parses a time as in RFC 3339: "2026-11-30T11:32:00.5Z", "2026-11-30T12:32:00+01:00".
std::optional<std::chrono::system_clock::time_point> parse_internet_time(std::string text) {
    constexpr std::size_t zone = 19;
    if (text.size() <= zone || text[4] != '-' || text[10] != 'T') return std::nullopt;
    const std::size_t offset = text.find_first_of("+-", zone);
    std::string plain =
        text.substr(0, 4) + text.substr(5, 2) + text.substr(8, 2) + " " + text.substr(11, 8);
    plain += offset == std::string::npos ? " GMT" : " " + text.substr(offset, 3);
    if (offset != std::string::npos)
        plain += text.size() >= offset + 6 ? text.substr(offset + 4, 2) : "00";
    return parse_http_date(plain);
}

/// Reads the time until a limit is reset: a duration, or a time.
std::optional<milliseconds> parse_reset(const std::string& text,
                                        std::chrono::system_clock::time_point now) {
    constexpr double earliest_time = 1e8;
    std::optional<std::chrono::system_clock::time_point> time = parse_internet_time(text);
    const std::optional<double> since_1970 = detail::parsed_number<double>(text);
    if (!time && since_1970 && std::isfinite(*since_1970) && *since_1970 >= earliest_time) {
        // Of seconds or milliseconds.
        double number = *since_1970;
        if (number >= 1e11) number /= 1000;
        time = std::chrono::system_clock::time_point(
            std::chrono::seconds(static_cast<std::int64_t>(std::min(number, 9e9))));
    }
    if (!time) return parse_wait(text, 1000);
    return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*time - now));
}

/// Returns the time until the first limit is reset that has nothing remaining.
std::optional<milliseconds> first_reset(const HttpHeaders& headers,
                                        std::chrono::system_clock::time_point now) {
    constexpr std::string_view forms[] = {"x-ratelimit-*-requests",
                                          "x-ratelimit-*-tokens",
                                          "x-ratelimit-*",
                                          "ratelimit-*",
                                          "anthropic-ratelimit-requests-*",
                                          "anthropic-ratelimit-tokens-*",
                                          "anthropic-ratelimit-input-tokens-*",
                                          "anthropic-ratelimit-output-tokens-*"};
    std::optional<milliseconds> first;
    for (const std::string_view form : forms) {
        const std::size_t star = form.find('*');
        const auto header = [&](std::string_view word) {
            return headers.find(std::string(form.substr(0, star)) + std::string(word) +
                                std::string(form.substr(star + 1)));
        };
        const std::string* value = header("reset");
        const std::string* remaining = header("remaining");
        if (!value || (remaining && *remaining != "0")) continue;
        const std::optional<milliseconds> reset = parse_reset(*value, now);
        if (reset && (!first || *reset < *first)) first = reset;
    }
    return first;
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
    if (const std::string* sent = headers.find("date")) now = parse_http_date(*sent).value_or(now);
    hints.reset = first_reset(headers, now);
    if (const std::string* value = headers.find("retry-after-ms"))
        hints.delay = parse_wait(*value, 1);
    if (hints.delay) return hints;
    const std::string* value = headers.find("retry-after");
    if (value == nullptr) return hints;
    hints.delay = parse_wait(*value, 1000);
    if (hints.delay) return hints;
    if (const auto date = parse_http_date(*value))
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
