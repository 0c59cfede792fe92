#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

// MessagePack as Python's msgpack.packb(value, use_bin_type=True) writes it and unpackb(data) reads it with its defaults:
// the form of `cubepi_messages.payload` on database servers.

/// Appends the value. Keys keep their order, integers of up to 64 bits are exact, other numbers are doubles. Invalid UTF-8
/// becomes U+FFFD, because Python rejects a payload that contains it.
void append_msgpack(std::string& out, const Json& value);
void append_msgpack(std::string& out, const JsonObject& value);

/// Reads one value, which must be the whole of `data`. Binary data is read as text; invalid UTF-8 becomes U+FFFD. Throws
/// Error(parse) that names the offset, for types that JSON does not have too: keys that are not text, extension types.
Json parse_msgpack(std::string_view data);

/// Reads the value at the start of `data`, which is nested in `depth` others, and removes it from `data`. Throws as
/// parse_msgpack() does; the offset is that in `data`.
Json take_msgpack(std::string_view& data, std::size_t depth);

}  // namespace cubepi::detail
