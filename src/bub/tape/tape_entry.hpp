#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;
using cubepi::Task;

/// The kinds of entries that CubePi interprets. A tape may hold other kinds, which are preserved and shown.
namespace entry_kind {
inline constexpr std::string_view message = "message";
inline constexpr std::string_view system = "system";
inline constexpr std::string_view anchor = "anchor";
inline constexpr std::string_view tool_call = "tool_call";
inline constexpr std::string_view tool_result = "tool_result";
inline constexpr std::string_view error = "error";
inline constexpr std::string_view event = "event";
}  // namespace entry_kind

/// A record on a tape.
struct TapeEntry {
    std::int64_t id = 0;  ///< 1, 2, 3, ... per tape; assigned by the store, 0 before
    std::string kind = {};
    JsonObject payload = {};
    JsonObject meta = {};
    std::string date = {};  ///< ISO 8601 in UTC; set by the store if empty

    friend bool operator==(const TapeEntry&, const TapeEntry&) = default;
};

/// Returns an entry with `kind` and `payload`.
TapeEntry tape_entry(std::string_view kind, JsonObject payload, JsonObject meta = {});
/// Returns a `message` entry {role, content}.
TapeEntry message_entry(std::string_view role, std::string content, JsonObject meta = {});
/// Returns an `anchor` entry {name, state}; `state` is omitted if absent.
TapeEntry anchor_entry(std::string name, std::optional<JsonObject> state = {},
                       JsonObject meta = {});
/// Returns an `event` entry {name, data}.
TapeEntry event_entry(std::string_view name, JsonObject data, JsonObject meta = {});
/// Returns the meta of an entry that is excluded from every context.
JsonObject hidden_from_context(JsonObject meta = {});
/// Returns the meta of a message that was recorded while calls of the tape wait for answers: an agent reads it after their results.
JsonObject after_open_calls(JsonObject meta = {});
bool follows_open_calls(const TapeEntry& entry);
/// Returns false if the entry's meta has `context` exactly false.
bool is_in_context(const TapeEntry& entry);
/// Returns the name of an anchor or event; empty if the payload has none.
std::string_view entry_name(const TapeEntry& entry);

/// Returns the line of a tape file, with its line feed: {"id", "kind", "payload", "meta", "date"}, formatted like
/// Python's json.dumps with raw non-ASCII. Invalid UTF-8 is replaced by U+FFFD.
std::string tape_line(const TapeEntry& entry);
/// Parses one line. Returns nothing for lines that readers skip: blank lines, invalid JSON, an id that is not an
/// integer, a kind that is not a string, a payload that is not an object. An invalid `meta` becomes empty; `timestamp`
/// (Unix seconds) replaces a missing `date`.
std::optional<TapeEntry> read_tape_line(std::string_view line);

/// Formats a time like "2026-03-01T12:00:00.250000+00:00".
std::string tape_date(std::chrono::system_clock::time_point time);

/// Returns the name of a session's tape: 16 hex digits of the MD5 of the absolute workspace path (symbolic links
/// resolved), "__", and 16 of that of the session id. Accesses the file system.
std::string tape_name(const std::filesystem::path& workspace, std::string_view session_id);

}  // namespace bub
