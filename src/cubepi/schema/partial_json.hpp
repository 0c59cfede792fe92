#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// How the arguments of a tool call were read.
enum class ArgumentsState : std::uint8_t {
    exact,     ///< JSON as it stands (or blank, which is {})
    repaired,  ///< JSON after repair_json()
    closed,    ///< had to be closed, or bytes that are no UTF-8 replaced: something is missing
    invalid,   ///< no object can be read; `value` is {}
};

struct ParsedArguments {
    JsonObject value;
    ArgumentsState state = ArgumentsState::exact;
    std::string problem;  ///< why the text is not JSON; empty for exact and repaired

    /// Whether a tool may run with them (docs/decisions.md, D4): text that had to be closed never does.
    bool runnable() const noexcept { return state <= ArgumentsState::repaired; }
};

/// Reads what arrived of a tool call's arguments, also while they are still streaming. Of a text that
/// stops in the middle everything complete is kept, and a string value as far as it came:
/// `{"a": 1, "b": tru` gives {"a": 1}; `{"a": "hel` gives {"a": "hel"}.
///
/// Only an object counts: null, arrays, numbers, several values, text around the object are invalid.
/// NaN, Infinity and numbers too large for a double are invalid, because JSON has no such numbers; integers
/// beyond 64 bits become doubles (a schema that wants an integer refuses them then). Of duplicate keys the
/// last wins. Takes any bytes and never throws but for lack of memory; nesting is limited to
/// max_json_depth.
ParsedArguments parse_arguments(std::string_view text);

/// Repairs what models get wrong inside JSON strings; text outside of strings is not touched. Raw control
/// characters become escapes; a backslash that starts no valid escape is doubled (also the last character
/// of the text); \u escapes of lone surrogates become \ufffd. Valid JSON comes back unchanged but for the
/// latter.
std::string repair_json(std::string_view text);

}  // namespace cubepi
