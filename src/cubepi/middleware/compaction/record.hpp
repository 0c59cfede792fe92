#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/middleware/compaction.hpp>

namespace cubepi::detail {

/// The record of the compactions of a thread in `extra`: CubePi's keys, and those of this library in one object.
struct CompactionRecord {
    std::optional<CompactionState> state = {};
    std::size_t until = 0;  ///< number of messages for which the summary stands
    std::int64_t failures = 0;
    std::int64_t low_savings = 0;
    std::int64_t fallback_runs = 0;
    // Of this library. Absent in a record of CubePi.
    std::size_t made_at = 0;          ///< length of the history when it was compacted
    std::int64_t tokens = 0;          ///< estimate of the request at that time; zero: unknown
    std::size_t shortened_until = 0;  ///< results of messages before this index are shortened
    std::int64_t window = 0;          ///< learned from a server; zero: none
    std::string window_model = {};    ///< to which `window` applies
    std::int64_t raised = 0;  ///< the user has undone a compaction: none below this many tokens
    Json prompt = {};         ///< PrefixGuard::digest() of tools and system prompt; null: unknown
    std::size_t alike_from = 0;  ///< index of the first answer to a call with that prompt
    /// Earlier hooks have left the history of the last request as it is stored.
    bool is_as_stored = false;

    /// Ignores what is malformed, or does not fit the history.
    static CompactionRecord load(const JsonObject& extra, const MessageList& history);
    /// Returns true if `extra` still has this record; costs the same for any length of the history.
    bool is_in(const JsonObject& extra) const;
    void save(JsonObject& extra) const;
    /// Sets the references to the first `count` messages.
    void refer_to(const MessageList& history, std::size_t count, bool to_all);
};

/// Returns CubePi's reference to a message: a digest of its stored form without this library's keys.
std::string message_ref(const Message& message);

}  // namespace cubepi::detail
