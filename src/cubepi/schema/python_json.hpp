#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi {

// JSON text as Python's json.dumps writes it by default and json.loads accepts it: the form in which stored messages
// are exchanged with CubePi.

/// Writes one line of ASCII: separators ", " and ": ", \uXXXX for everything that is not printable ASCII, numbers as
/// Python's repr writes them (1.0, 1e-05, 1e+16; NaN, Infinity, -Infinity for values that JSON does not support).
/// Invalid UTF-8 becomes U+FFFD. Keys keep their order.
std::string to_python_json(const Json& value);
std::string to_python_json(const JsonObject& value);

/// Appends the text of to_python_json() to `out`.
void append_python_json(std::string& out, const Json& value);
void append_python_json(std::string& out, const JsonObject& value);
void append_python_json(std::string& out, const JsonArray& value);
/// Appends a string with its quotes.
void append_python_string(std::string& out, std::string_view text);
/// Appends a number as Python's repr writes it.
void append_python_number(std::string& out, double number);

/// Parses JSON; if that fails, parses it again with the extensions that Python accepts:
/// - NaN, Infinity, -Infinity and numbers too large for a double become null,
/// - integers beyond 64 bits become the nearest double (in both passes),
/// - \u escapes of lone surrogates, and invalid UTF-8, become U+FFFD.
/// Nesting may be deeper than in other JSON, up to max_read_json_depth. See parse_json for the rest.
/// Throws Error (parse) that names the position if the second pass fails too.
Json parse_lenient(std::string_view text);

}  // namespace cubepi
