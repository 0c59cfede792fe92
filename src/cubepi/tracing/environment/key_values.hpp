#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/support/percent_decoded.hpp>

// Lists such as "key1=value1,key2=value2" in environment variables: the format of W3C Baggage without properties
// (https://www.w3.org/TR/baggage/#header-content).

namespace cubepi::detail {

/// An entry of a list as it is written, without the blanks at the ends of key and value.
struct KeyValue {
    std::string_view key;
    std::optional<std::string_view> value;  ///< empty: the entry has no "="
};

/// Returns the entries; empty ones, as after a comma at the end, are omitted. Refers to `text`.
std::vector<KeyValue> key_values(std::string_view text);

}  // namespace cubepi::detail
