#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

// JSON columns of database servers. They do not hold every value that we store: PostgreSQL's jsonb and MySQL's JSON reorder
// the keys of objects and write numbers in a form of their own, and jsonb has neither U+0000 nor NaN. The shared column, which
// CubePi reads and writes, has the nearest value; where that differs, a table of ours has the exact text next to it, which
// counts as long as the shared column is still its nearest value.

namespace cubepi::detail {

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

}  // namespace cubepi::detail
