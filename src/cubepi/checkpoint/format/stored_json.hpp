#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>

// JSON columns of database servers. They do not hold every value that we store: PostgreSQL's jsonb and MySQL's JSON reorder
// the keys of objects and write numbers in a form of their own, and jsonb has neither U+0000 nor NaN. The shared column, which
// CubePi reads and writes, has the nearest value; where that differs, a table of ours has the exact text next to it, which
// counts as long as the shared column is still its nearest value.

namespace cubepi::detail {

/// Throws CheckpointerError(invalid_argument) for JSON that could not be read again; `what` names it in the message.
void refuse_too_deep(const std::string& thread_id, const char* what, const Json& json);
void refuse_too_deep(const std::string& thread_id, const char* what, const JsonObject& json);

/// The difference that a call of save_extra() makes.
struct ExtraChange {
    std::vector<std::string> removed = {};
    JsonObject changed = {};
    JsonObject merged = {};  ///< the extra with both
    bool empty() const noexcept { return removed.empty() && changed.empty(); }
};

/// Merges `changes` into a thread's extra at the top level; a null removes its key (D19). An unchanged value is not part of
/// the difference, so that a stored value that was read only approximately is not written back.
ExtraChange change_extra(JsonObject stored, const JsonObject& changes);

/// Returns the text for a column: with U+FFFD for U+0000 and invalid UTF-8.
std::string server_text(std::string_view text);

/// Returns the text for a JSON column: ASCII, with U+FFFD for U+0000 and null for numbers that JSON does not have.
std::string server_json_text(const Json& value);
std::string server_json_text(const JsonObject& value);

/// Returns true if a JSON column returns the value as it is, including the order of keys.
bool survives_server_json(const Json& value);

/// Returns true if `column` is what a JSON column holds of `exact`: keys in any order, numbers by value.
bool is_server_json_of(const Json& column, const Json& exact);

/// Returns the value that a column and the exact text of ours represent: the exact one if the column is its nearest value,
/// else that of the column, which CubePi has changed. For objects this is decided for each top-level key.
Json exact_json(Json column, const std::optional<std::string>& exact_text);

/// Returns the stored text of a thread's extra with `changes` merged at the top level. A null removes its key. An unchanged
/// value keeps its text, so that values that cannot be read exactly (NaN, lone surrogates, integers beyond 64 bits) are
/// not altered. Throws Error (parse) if `stored` is not a JSON object.
std::string merge_extra_text(std::string_view stored, const JsonObject& changes);

}  // namespace cubepi::detail
