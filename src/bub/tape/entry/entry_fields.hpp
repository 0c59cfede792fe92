#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <bub/tape/tape_store.hpp>

namespace bub::detail {

/// The key of an entry's meta that holds this library's data: {"position", "count", "messages"} (B21). The entry adds
/// `count` messages; `position` is the number of messages on the tape after it.
inline constexpr std::string_view meta_key = "cubepi";
/// The event that records the outcome of a run: {run_id, status}.
inline constexpr std::string_view run_event = "cubepi.run";
/// The event that records the tokens of a step of a run.
inline constexpr std::string_view step_event = "run";
/// The event that holds a thread's complete extra from this point on.
inline constexpr std::string_view extra_event = "cubepi.extra";
/// The event that holds the keys of extra that changed since the newest `extra_event`, null for those that were removed. Its meta
/// has {"written"}, the size of all such events since then.
inline constexpr std::string_view extra_changes_event = "cubepi.extra.changes";
/// The event that names the source tape of a fork: {from, after_run}.
inline constexpr std::string_view fork_event = "cubepi.fork";
/// The event that holds the result of one call of several, before the batch is complete.
inline constexpr std::string_view result_event = "cubepi.tool_result";
/// The event that holds the anchor of a hand-off that one of several calls has made: {name, state}. The anchor follows their results,
/// because a context that begins between the two would have results without calls.
inline constexpr std::string_view held_anchor_event = "cubepi.held_anchor";
/// The commit marker of a turn: {turn, status}.
inline constexpr std::string_view turn_event = "turn";
/// The event that preserves the entries of a turn that is not part of the conversation because another process had
/// continued it: {turn, status, reason, entries}.
inline constexpr std::string_view refused_event = "turn.refused";

/// The first anchor of every tape.
inline constexpr std::string_view bootstrap_anchor = "session/start";

struct RunUsage {
    std::int64_t total = 0;
    std::optional<std::int64_t> prompt = {};
    std::optional<std::int64_t> cached = {};

    std::optional<double> hit_rate() const;
};

/// The fields of an entry for summaries and indexes.
struct EntryFields {
    bool anchor = false;
    bool event = false;
    std::string name = {};                      ///< of an anchor or event
    std::int64_t messages = 0;                  ///< number that it adds
    std::optional<std::int64_t> position = {};  ///< number of messages after it, if recorded
    std::vector<std::string> message_ids = {};
    std::string run_id = {};  ///< of a cubepi.run event
    std::optional<RunUsage> usage = {};

    std::int64_t position_after(std::int64_t before) const {
        return position ? *position : before + messages;
    }
    bool matches(TapeKey key, const std::string& value) const;
};

/// Converts a line's object to an entry; see read_tape_line.
std::optional<TapeEntry> entry_of_json(JsonObject object);

EntryFields fields_of(const TapeEntry& entry);

struct LineFields {
    std::int64_t id = 0;
    EntryFields fields = {};
};

/// Returns the fields of read_tape_line(line). Returns nothing if the line is not an entry.
std::optional<LineFields> line_fields(std::string_view line);

/// Sets the entry's id after `last`, which becomes it. `keep`: the entry has one; throws cubepi::StaleAppendError if it is not greater.
void assign_id(TapeEntry& entry, std::int64_t& last, bool keep);
/// Sets the position of an entry with messages. Returns the position after it.
std::int64_t set_position(TapeEntry& entry, std::int64_t before);

/// Returns the messages stored in the entry's meta; null if there are none.
const JsonArray* stored_messages(const TapeEntry& entry);

/// Adds an entry to a summary.
void add_to(TapeInfo& info, const EntryFields& fields);

/// Returns true if the name has exactly one "__", i.e. is not a sidecar's.
bool is_main_tape(std::string_view name);
/// Returns the sidecars of a tape, among `tapes`.
std::vector<std::string> sidecars_of(const std::string& tape, std::vector<std::string> tapes);
/// Throws Error(invalid_argument) if the name is not a file name.
void check_tape_name(std::string_view name);
/// Throws CheckpointerError(invalid_argument) if an entry is nested so deeply that its line could not be read back.
void check_depth(const std::string& tape, const std::vector<TapeEntry>& entries);
void check_depth(const std::string& tape, const JsonObject& state);
[[noreturn]] void throw_stale(const std::string& tape, std::int64_t expected, std::int64_t found);

}  // namespace bub::detail
