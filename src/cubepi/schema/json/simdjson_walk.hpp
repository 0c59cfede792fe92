#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include <simdjson.h>

// Reads JSON with simdjson's on-demand parser: one pass over the members in any order.

namespace cubepi::detail {

/// The text to parse, followed by the padding that simdjson requires. Reusable.
class PaddedText {
public:
    /// Returns a copy of `text`, valid until the next call.
    simdjson::padded_string_view hold(std::string_view text) {
        const std::size_t needed = text.size() + simdjson::SIMDJSON_PADDING;
        if (needed > capacity_) {
            capacity_ = 2 * needed;
            bytes_ = std::make_unique<char[]>(capacity_);
        }
        text.copy(bytes_.get(), text.size());
        // The parser reads the byte after the last token: if brackets are missing, it must not find one of an earlier
        // text.
        bytes_[text.size()] = '\0';
        return simdjson::padded_string_view(bytes_.get(), text.size(), capacity_);
    }

private:
    std::unique_ptr<char[]> bytes_;
    std::size_t capacity_ = 0;
};

namespace od = simdjson::ondemand;

/// Compares `name` with the raw text of the key: `name` must not need escapes.
inline bool is(const od::raw_json_string& key, std::string_view name) {
    return std::char_traits<char>::compare(key.raw(), name.data(), name.size()) == 0 &&
           key.raw()[name.size()] == '"';
}

inline bool is_json_object(od::value& value) {
    od::json_type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == od::json_type::object;
}

inline bool is_json_array(od::value& value) {
    od::json_type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == od::json_type::array;
}

inline bool is_json_string(od::value& value) {
    od::json_type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == od::json_type::string;
}

/// Returns the JSON text of a value.
inline std::string_view raw_of(od::value& value) {
    std::string_view raw;
    if (is_json_object(value)) {
        if (value.get_object().value_unsafe().raw_json().get(raw) != simdjson::SUCCESS) return {};
    } else if (is_json_array(value)) {
        if (value.get_array().value_unsafe().raw_json().get(raw) != simdjson::SUCCESS) return {};
    } else {
        raw = value.raw_json_token();
    }
    return raw;
}

inline std::int64_t integer_of(od::value& value, std::int64_t otherwise) {
    // An index nearly always has one digit.
    const std::string_view token = value.raw_json_token();
    if (token.size() == 1 && token[0] >= '0' && token[0] <= '9') return token[0] - '0';
    std::int64_t number = 0;
    if (value.get_int64().get(number) == simdjson::SUCCESS) return number;
    double real = 0;
    if (value.get_double().get(real) == simdjson::SUCCESS && real >= 0 && real < 9e15)
        return static_cast<std::int64_t>(real);
    return otherwise;
}

/// Calls `f(key, value)` for each member. Invalid input ends the walk with a protocol error.
template <class F>
void each(od::object& object, F&& f) {
    for (auto member : object) {
        od::field field;
        if (std::move(member).get(field) != simdjson::SUCCESS)
            throw simdjson::simdjson_error(simdjson::TAPE_ERROR);
        f(field.key(), field.value());
    }
}

template <class F>
void each(od::array& array, F&& f) {
    for (auto item : array) {
        od::value value;
        if (std::move(item).get(value) != simdjson::SUCCESS)
            throw simdjson::simdjson_error(simdjson::TAPE_ERROR);
        f(value);
    }
}

}  // namespace cubepi::detail
