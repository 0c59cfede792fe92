#pragma once

#include <string>

#include <cubepi/core/json.hpp>

namespace cubepi::app {

/// Writes `value` as JSON on one line, in which no byte has a special meaning for a terminal or an editor: characters
/// that is_deceptive() names and DEL are written as \u escapes, and bytes that are not UTF-8 as U+FFFD. Parsing it
/// yields the same value.
std::string safe_json(const Json& value);

/// The same for JSON that is written already, of one line or several.
std::string safe_json_text(std::string text);

/// As safe_json(), on several lines, indented for reading; each line has a part of the JSON, without a line feed at the end.
std::string safe_json_lines(const Json& value);

}  // namespace cubepi::app
