#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/task.hpp>

namespace bub {

using cubepi::Task;

/// The use of a user, a chat or all of them on a day.
struct UsageAmounts {
    std::int64_t messages = 0;
    std::int64_t tokens = 0;
    std::int64_t micros = 0;  ///< millionths of a USD

    /// Stays at the largest number instead of overflowing.
    UsageAmounts& operator+=(const UsageAmounts& other) noexcept;
    bool operator==(const UsageAmounts&) const = default;
};

enum class UsageKind : std::uint8_t { messages, tokens, money };

/// The most that may be used on a day. Absent: no limit.
struct UsageLimit {
    std::optional<std::int64_t> messages = {};
    std::optional<std::int64_t> tokens = {};
    std::optional<std::int64_t> micros = {};

    bool any() const noexcept { return messages || tokens || micros; }
    bool operator==(const UsageLimit&) const = default;
};

/// The limits of a day, in the time zone `zone`.
struct UsageLimitOptions {
    UsageLimit per_user = {};  ///< of a channel; a sender without an id counts as the chat
    UsageLimit per_chat = {};
    UsageLimit total = {};
    bool exempts_operators = false;  ///< their messages count, and are never refused
    std::string zone = {};           ///< empty: that of the system, UTC if it is not known

    bool any() const noexcept { return per_user.any() || per_chat.any() || total.any(); }
    bool has_money() const noexcept { return per_user.micros || per_chat.micros || total.micros; }
};

/// A counter and its limit. Names of counters are those of counter_name().
struct LimitedCounter {
    std::string name = {};
    UsageLimit limit = {};
};

/// A turn that is about to begin.
struct UsageAdmission {
    std::string day = {};                       ///< "2026-12-01"
    std::vector<LimitedCounter> counters = {};  ///< not empty, each once
    std::vector<std::string> records = {};      ///< of its messages, each once; may be empty
    std::int64_t unrecorded = 0;                ///< messages without a record
    bool counts_records = true;  ///< false: they only show that the turn has begun before

    /// Returns the number of messages to count if so many records are new.
    std::int64_t messages(std::size_t new_records) const noexcept {
        return unrecorded + (counts_records ? static_cast<std::int64_t>(new_records) : 0);
    }
};

/// The limit that a turn has reached.
struct ReachedLimit {
    std::size_t counter = 0;  ///< its position in UsageAdmission::counters
    UsageKind kind = UsageKind::messages;
};

using UsageByCounter = std::map<std::string, UsageAmounts>;

/// Counters of messages, tokens and money by day. Each call is atomic, also among gateways that share the store. Days that are over for
/// longer than `usage_days` are removed. Thread-safe.
class UsageStore {
public:
    virtual ~UsageStore() = default;

    /// Returns the time by which days are determined, in Unix seconds.
    virtual Task<std::int64_t> now() = 0;
    /// Counts the messages of a turn, unless a limit is reached, which it returns. A record that was admitted before is not counted again,
    /// and a turn of nothing but such records is always admitted: it has begun before.
    virtual Task<std::optional<ReachedLimit>> admit(UsageAdmission turn) = 0;
    /// Adds to counters.
    virtual Task<> add(std::string day, UsageByCounter amounts) = 0;
    /// Returns at most `most` counters of a day: `total_counter`, then those with the highest costs, then tokens, then messages. Others than
    /// `total_counter` have `search` in their names; upper and lower case of ASCII are the same.
    virtual Task<std::vector<std::pair<std::string, UsageAmounts>>> list(
        std::string day, std::size_t most, std::string search = {}) = 0;
};

inline constexpr int usage_days = 7;
/// The counter of all users and chats.
inline constexpr std::string_view total_counter = "total";

inline double usd_of(std::int64_t micros) noexcept { return static_cast<double>(micros) / 1e6; }

/// Returns the name of the counter of a user or a chat: "user:telegram:42". It has a limited size and is valid UTF-8 without control
/// characters, whatever `id` is; different ids have different names.
std::string counter_name(std::string_view scope, std::string_view channel, std::string_view id);

namespace detail {

/// Returns the limit that a turn with so many new records reaches. `used`: of the counters, in order.
std::optional<ReachedLimit> reached_limit(const UsageAdmission& turn,
                                          const std::vector<UsageAmounts>& used,
                                          std::size_t new_records);
/// Returns the first day that is stored when `day` is the current one.
std::string first_stored_day(const std::string& day);

}  // namespace detail

}  // namespace bub
