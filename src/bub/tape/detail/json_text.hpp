#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace bub::detail {

/// JSON in one line as Python's json.dumps(ensure_ascii=False) writes it. Bytes that are no UTF-8 become U+FFFD.
void append_json_text(std::string& out, const cubepi::Json& value);
void append_json_text(std::string& out, const cubepi::JsonObject& value);
void append_json_string(std::string& out, std::string_view text);

}  // namespace bub::detail
