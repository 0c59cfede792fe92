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

/// The kinds of entries that have a meaning here. A tape may hold others; they are kept and shown.
namespace entry_kind {
inline constexpr std::string_view message = "message";
inline constexpr std::string_view system = "system";
inline constexpr std::string_view anchor = "anchor";
inline constexpr std::string_view tool_call = "tool_call";
inline constexpr std::string_view tool_result = "tool_result";
inline constexpr std::string_view error = "error";
inline constexpr std::string_view event = "event";
}  // namespace entry_kind

/// One fact on a tape.
struct TapeEntry {
    std::int64_t id = 0;  ///< 1, 2, 3, ... per tape; given by the store, 0 before
    std::string kind = {};
    JsonObject payload = {};
    JsonObject meta = {};
    std::string date = {};  ///< ISO 8601 in UTC; given by the store when it is empty

    friend bool operator==(const TapeEntry&, const TapeEntry&) = default;
};

/// An entry with `kind` and `payload`.
TapeEntry tape_entry(std::string_view kind, JsonObject payload, JsonObject meta = {});
/// A `message` entry {role, content}.
TapeEntry message_entry(std::string_view role, std::string content, JsonObject meta = {});
/// An `anchor` entry {name, state}; without state when there is none.
TapeEntry anchor_entry(std::string name, std::optional<JsonObject> state = {},
                       JsonObject meta = {});
/// An `event` entry {name, data}.
TapeEntry event_entry(std::string_view name, JsonObject data, JsonObject meta = {});
/// Meta of an entry that is kept out of every context.
JsonObject hidden_from_context(JsonObject meta = {});
/// False when the entry's meta has `context` exactly false.
bool is_in_context(const TapeEntry& entry);
/// The name of an anchor or event; empty when the payload has none.
std::string_view entry_name(const TapeEntry& entry);

/// The line of a tape file, with its line feed: {"id", "kind", "payload", "meta", "date"} as Python's json.dumps
/// writes it with raw non-ASCII. Bytes that are no UTF-8 become U+FFFD.
std::string tape_line(const TapeEntry& entry);
/// Reads one line. Nothing for what readers skip: blank lines, broken JSON, an id that is no integer, a kind that is
/// no text, a payload that is no object. An odd `meta` is empty; `timestamp` (Unix seconds) stands in for `date`.
std::optional<TapeEntry> read_tape_line(std::string_view line);

/// "2026-03-01T12:00:00.250000+00:00"
std::string tape_date(std::chrono::system_clock::time_point time);

/// The name of a session's tape: 16 hex digits of the MD5 of the absolute workspace path (links resolved), "__", and 16
/// of that of the session id. Looks at the file system.
std::string tape_name(const std::filesystem::path& workspace, std::string_view session_id);

}  // namespace bub
