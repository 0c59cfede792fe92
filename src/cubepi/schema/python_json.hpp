#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi {

// JSON text as Python's json.dumps writes it by default and json.loads takes it: the form in which stored
// messages are exchanged with CubePi.

/// One line of ASCII: ", " and ": " between things, \uXXXX for all that is not printable ASCII, numbers as
/// Python's repr writes them (1.0, 1e-05, 1e+16; NaN, Infinity, -Infinity for what JSON does not have).
/// Bytes that are no UTF-8 become U+FFFD. Keys keep their order.
std::string to_python_json(const Json& value);
std::string to_python_json(const JsonObject& value);

/// The same, appended to `out`.
void append_python_json(std::string& out, const Json& value);
void append_python_json(std::string& out, const JsonObject& value);
void append_python_json(std::string& out, const JsonArray& value);
/// A string with its quotes.
void append_python_string(std::string& out, std::string_view text);
/// A number as Python's repr writes it.
void append_python_number(std::string& out, double number);

/// Parses JSON, and where that fails parses it once more with what Python accepts beyond JSON:
/// - NaN, Infinity, -Infinity and numbers too large for a double become null,
/// - integers beyond 64 bits become the nearest double (in both passes),
/// - \u escapes of lone surrogates, and bytes that are no UTF-8, become U+FFFD.
/// It may be nested deeper than other JSON, up to max_read_json_depth.
/// See parse_json for the rest.
/// Throws Error (parse) that names the place when the text is not JSON even so.
Json parse_lenient(std::string_view text);

}  // namespace cubepi
