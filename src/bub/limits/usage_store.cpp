#include <bub/limits/usage_store.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <limits>

#include <cubepi/core/support/digest.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub {

namespace {

void add_to(std::int64_t& sum, std::int64_t value) noexcept {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    sum = value > most - sum ? most : sum + std::max<std::int64_t>(value, 0);
}

/// Returns a text of at most 64 bytes that can be shown and stored; different texts stay different.
std::string bounded(std::string_view text) {
    constexpr std::size_t longest = 64;
    constexpr std::size_t digits = 16;
    std::string shown = cubepi::replace_broken_utf8(text.substr(0, longest));
    for (char& c : shown)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '#') c = '?';
    if (shown == text) return shown;
    return shown + "#" + cubepi::detail::sha256_hex(text).substr(0, digits);
}

}  // namespace

UsageAmounts& UsageAmounts::operator+=(const UsageAmounts& other) noexcept {
    add_to(messages, other.messages);
    add_to(tokens, other.tokens);
    add_to(micros, other.micros);
    return *this;
}

std::string counter_name(std::string_view scope, std::string_view channel, std::string_view id) {
    std::string name(scope);
    name += ':';
    name += bounded(channel);
    name += ':';
    name += bounded(id);
    return name;
}

namespace detail {

std::optional<ReachedLimit> reached_limit(const UsageAdmission& turn,
                                          const std::vector<UsageAmounts>& used,
                                          std::size_t new_records) {
    const std::int64_t new_messages = turn.messages(new_records);
    const bool was_admitted = !turn.records.empty() && turn.unrecorded == 0 && new_records == 0;
    if (was_admitted) return std::nullopt;
    for (std::size_t at = 0; at < turn.counters.size(); ++at) {
        const UsageLimit& limit = turn.counters[at].limit;
        UsageAmounts next = used.at(at);
        next += UsageAmounts{new_messages, 0, 0};
        if (limit.messages && new_messages > 0 && next.messages > *limit.messages)
            return ReachedLimit{at, UsageKind::messages};
        if (limit.tokens && next.tokens >= *limit.tokens)
            return ReachedLimit{at, UsageKind::tokens};
        if (limit.micros && next.micros >= *limit.micros) return ReachedLimit{at, UsageKind::money};
    }
    return std::nullopt;
}

std::string first_stored_day(const std::string& day) {
    int year = 0;
    unsigned month = 0;
    unsigned of_month = 0;
    if (std::sscanf(day.c_str(), "%d-%u-%u", &year, &month, &of_month) != 3) return {};
    const std::chrono::year_month_day given{std::chrono::year(year), std::chrono::month(month),
                                            std::chrono::day(of_month)};
    if (!given.ok()) return {};
    const std::chrono::year_month_day first =
        std::chrono::sys_days(given) - std::chrono::days(usage_days);
    char text[16] = {};
    std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(first.year()),
                  static_cast<unsigned>(first.month()), static_cast<unsigned>(first.day()));
    return text;
}

}  // namespace detail

}  // namespace bub
