#include <cubepi/core/support/object_reader.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>

namespace cubepi::detail {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::string_view python_spaces = " \t\n\v\f\r";

/// Parses a number in Python's notation: " +1_000.5 ".
double number_in(std::string_view written, std::string_view key) {
    std::string_view text = trimmed(written, python_spaces);
    if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
    std::string digits;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool between = text[i] == '_' && i > 0 && i + 1 < text.size() &&
                             is_digit(text[i - 1]) && is_digit(text[i + 1]);
        if (!between) digits += text[i];
    }
    double number = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number);
    if (digits.empty() || error != std::errc() || stop != end) refuse_key(key, "a number");
    return number;
}

std::int64_t nearest_integer(double value) {
    // The greatest integer plus one is a double; the greatest integer itself is not.
    const double above = std::ldexp(1.0, std::numeric_limits<std::int64_t>::digits);
    if (value >= above) return std::numeric_limits<std::int64_t>::max();
    if (value <= -above) return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(value);
}

}  // namespace

void refuse_key(std::string_view key, std::string_view expected) {
    throw Error(ErrorCode::validation,
                "message key '" + std::string(key) + "': expected " + std::string(expected));
}

double stored_number(const Json& value, std::string_view key) {
    if (value.is_string()) return number_in(value.get_string(), key);
    if (value.is_bool()) return value.get_bool() ? 1 : 0;
    if (!value.is_number()) refuse_key(key, "a number");
    return value.to_number<double>();
}

std::int64_t stored_integer(const Json& value, std::string_view key) {
    if (value.is_int64()) return value.get_int64();
    const double number = stored_number(value, key);
    if (!(std::trunc(number) == number)) refuse_key(key, "a number without fraction");
    return nearest_integer(number);
}

bool stored_flag(const Json& value, std::string_view key) {
    if (value.is_bool()) return value.get_bool();
    if (value.is_string()) {
        std::string word(value.get_string());
        std::transform(word.begin(), word.end(), word.begin(), [](char c) {
            return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        });
        for (const std::string_view yes : {"1", "true", "t", "yes", "y", "on"}) {
            if (word == yes) return true;
        }
        for (const std::string_view no : {"0", "false", "f", "no", "n", "off"}) {
            if (word == no) return false;
        }
    } else if (value.is_number()) {
        const double number = value.to_number<double>();
        if (number == 0 || number == 1) return number == 1;
    }
    refuse_key(key, "true or false");
}

ObjectReader::ObjectReader(const Json& json, std::string_view what) {
    if (!json.is_object()) refuse_key(what, "an object");
    object_ = &json.get_object();
}

const Json* ObjectReader::take(std::string_view key) {
    known_[count_++] = key;
    const Json* value = object_->if_contains(key);
    return value && !value->is_null() ? value : nullptr;
}

const Json* ObjectReader::take_not_null(std::string_view key) {
    known_[count_++] = key;
    const Json* value = object_->if_contains(key);
    if (value && value->is_null()) refuse_key(key, "a value, found null");
    return value;
}

std::string ObjectReader::text(std::string_view key, bool required) {
    const Json* value = required ? take_not_null(key) : take(key);
    if (!value) {
        if (required) refuse_key(key, "a string, found nothing");
        return {};
    }
    if (!value->is_string()) refuse_key(key, "a string");
    return std::string(value->get_string());
}

std::string ObjectReader::text_not_null(std::string_view key) {
    const Json* value = take_not_null(key);
    if (!value) return {};
    if (!value->is_string()) refuse_key(key, "a string");
    return std::string(value->get_string());
}

std::optional<double> ObjectReader::number(std::string_view key) {
    const Json* value = take(key);
    if (!value) return std::nullopt;
    const double number = stored_number(*value, key);
    // A number would also be read as absent.
    if (std::isnan(number)) return std::nullopt;
    return number;
}

std::optional<std::int64_t> ObjectReader::integer(std::string_view key) {
    const Json* value = take(key);
    if (!value) return std::nullopt;
    return stored_integer(*value, key);
}

LazyObject ObjectReader::object(std::string_view key) {
    const Json* value = take_not_null(key);
    if (!value) return {};
    if (!value->is_object()) refuse_key(key, "an object");
    return value->get_object();
}

LazyObject ObjectReader::rest() const {
    LazyObject extra;
    for (const auto& [key, value] : *object_) {
        if (!is_known(key)) extra[key] = value;
    }
    return extra;
}

bool ObjectReader::is_known(std::string_view key) const {
    const auto end = known_.begin() + static_cast<std::ptrdiff_t>(count_);
    return std::find(known_.begin(), end, key) != end;
}

}  // namespace cubepi::detail
