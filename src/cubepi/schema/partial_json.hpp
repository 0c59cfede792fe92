#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// The result of parsing the arguments of a tool call.
enum class ArgumentsState : std::uint8_t {
    exact,     ///< valid JSON (or an empty text, which is {})
    repaired,  ///< valid JSON after repair_json()
    closed,    ///< truncated JSON was completed, or invalid UTF-8 replaced: data is missing
    invalid,   ///< not an object; `value` is {}
};

struct ParsedArguments {
    JsonObject value;
    ArgumentsState state = ArgumentsState::exact;
    std::string problem;  ///< the reason if it is not JSON; empty for exact and repaired

    /// Returns true if a tool may run with the arguments (docs/decisions.md, D4): never with completed text.
    bool runnable() const noexcept { return state <= ArgumentsState::repaired; }
};

/// Parses the arguments of a tool call, even while they are still streaming. Of a truncated text everything complete is
/// used, and a string value as far as received: `{"a": 1, "b": tru` yields {"a": 1}; `{"a": "hel` yields {"a": "hel"}.
///
/// Only an object is valid: null, arrays, numbers, several values, text around the object are invalid. NaN, Infinity
/// and numbers too large for a double are invalid, because JSON has no such numbers; integers beyond 64 bits become
/// doubles (which a schema that requires an integer then rejects). Of duplicate keys the last one wins. Accepts any
/// bytes and throws only if memory is exhausted; nesting is limited to max_json_depth.
ParsedArguments parse_arguments(std::string_view text);

/// Repairs common errors of models inside JSON strings; text outside of strings is unchanged. Raw control characters
/// become escapes; a backslash that does not start a valid escape is doubled (also the last character of the text); \u
/// escapes of lone surrogates become \ufffd. Valid JSON is returned unchanged except for the latter.
std::string repair_json(std::string_view text);

}  // namespace cubepi
