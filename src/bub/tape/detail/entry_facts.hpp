#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <bub/tape/tape_store.hpp>

namespace bub::detail {

/// The key of an entry's meta that holds what is ours: {"position", "count", "messages"} (B21). `count` messages are new
/// with this entry; `position` is how many the tape holds after it.
inline constexpr std::string_view meta_key = "cubepi";
/// The event that says how a run went: {run_id, status}.
inline constexpr std::string_view run_event = "cubepi.run";
/// The event that holds a thread's whole extra as it is from here on.
inline constexpr std::string_view extra_event = "cubepi.extra";
/// The event that says which tape this one goes on from: {from, after_run}.
inline constexpr std::string_view fork_event = "cubepi.fork";
/// The event that holds the result of one call of several, before the batch is whole.
inline constexpr std::string_view result_event = "cubepi.tool_result";
/// The commit marker of a turn: {turn, status}.
inline constexpr std::string_view turn_event = "turn";
/// The event that keeps what a turn did that is not part of the conversation, because another process had gone on with it:
/// {turn, status, reason, entries, sidecars}.
inline constexpr std::string_view refused_event = "turn.refused";

/// The anchor that every tape begins with.
inline constexpr std::string_view bootstrap_anchor = "session/start";

struct RunUsage {
    std::int64_t total = 0;
    std::optional<std::int64_t> prompt = {};
    std::optional<std::int64_t> cached = {};

    std::optional<double> hit_rate() const;
};

/// What summaries and indexes need to know of an entry.
struct EntryFacts {
    bool anchor = false;
    bool event = false;
    std::string name = {};                      ///< of an anchor or event
    std::int64_t messages = 0;                  ///< how many it adds
    std::optional<std::int64_t> position = {};  ///< how many there are after it, where it says so
    std::vector<std::string> message_ids = {};
    std::string run_id = {};  ///< of a cubepi.run event
    std::optional<RunUsage> usage = {};

    std::int64_t position_after(std::int64_t before) const {
        return position ? *position : before + messages;
    }
};

/// The entry that a line's object is; see read_tape_line.
std::optional<TapeEntry> entry_of_json(JsonObject object);

EntryFacts facts_of(const TapeEntry& entry);

/// Gives the entry its position, when it carries messages. Returns the position after it.
std::int64_t set_position(TapeEntry& entry, std::int64_t before);

/// The messages that the entry's meta keeps; null when there are none.
const JsonArray* kept_messages(const TapeEntry& entry);

/// Adds an entry to a summary.
void add_to(TapeInfo& info, const EntryFacts& facts);

}  // namespace bub::detail
