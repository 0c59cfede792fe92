#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace bub::detail {

/// Appends JSON in one line, formatted like Python's json.dumps(ensure_ascii=False). Invalid UTF-8 becomes U+FFFD.
void append_json_text(std::string& out, const cubepi::Json& value);
void append_json_text(std::string& out, const cubepi::JsonObject& value);
void append_json_string(std::string& out, std::string_view text);

}  // namespace bub::detail
