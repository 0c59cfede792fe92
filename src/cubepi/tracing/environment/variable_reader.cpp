#include <cubepi/tracing/environment/variable_reader.hpp>

#include <charconv>
#include <cstdint>
#include <limits>

#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();

std::optional<std::int64_t> integer(std::string_view text, std::int64_t least) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < least || value > largest)
        return std::nullopt;
    return value;
}

}  // namespace

std::optional<std::string> VariableReader::text(std::string_view name) const {
    const std::optional<std::string> value = lookup_(name);
    if (!value) return std::nullopt;
    const std::string_view content = trimmed(*value);
    if (content.empty()) return std::nullopt;
    return std::string(content);
}

void VariableReader::warn(std::string_view name, std::string text) {
    Notice notice;
    notice.code = "otel_variable";
    notice.text = std::string(name) + ": " + std::move(text);
    notice.details["variable"] = name;
    for (const Notice& earlier : notices_) {
        if (earlier.text == notice.text) return;
    }
    notices_.push_back(std::move(notice));
}

std::string VariableReader::quoted(std::string_view value) {
    constexpr std::size_t limit = 60;
    const bool cut = value.size() > limit;
    if (cut) {
        value = value.substr(0, limit);
        value = value.substr(0, complete_utf8_prefix(value));
    }
    std::string shown = "'";
    for (const char c : replace_broken_utf8(value)) {
        const auto byte = static_cast<unsigned char>(c);
        shown.push_back(byte < 0x20 || byte == 0x7f ? '?' : c);
    }
    return shown + (cut ? "...'" : "'");
}

std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return lower;
}

VariableType<bool> boolean_variable() {
    VariableType<bool> type = word_variable<bool>({{"true", true}, {"false", false}}, false);
    type.expected = "true or false";
    return type;
}

VariableType<std::size_t> size_variable(std::size_t default_value) {
    VariableType<std::size_t> type;
    type.default_value = default_value;
    type.expected = "a positive integer";
    type.parse = [](std::string_view text) -> std::optional<std::size_t> {
        const std::optional<std::int64_t> value = integer(text, 1);
        if (!value) return std::nullopt;
        return static_cast<std::size_t>(*value);
    };
    type.show = [](const std::size_t& value) { return std::to_string(value); };
    return type;
}

VariableType<std::chrono::milliseconds> duration_variable(std::chrono::milliseconds default_value,
                                                          std::int64_t least) {
    VariableType<std::chrono::milliseconds> type;
    type.default_value = default_value;
    type.expected =
        least > 0 ? "a positive integer (milliseconds)" : "an integer from 0 (milliseconds)";
    type.parse = [least](std::string_view text) -> std::optional<std::chrono::milliseconds> {
        const std::optional<std::int64_t> value = integer(text, least);
        if (!value) return std::nullopt;
        return std::chrono::milliseconds(*value);
    };
    type.show = [](const std::chrono::milliseconds& value) {
        return value.count() == largest ? std::string("no limit")
                                        : std::to_string(value.count()) + " ms";
    };
    return type;
}

VariableType<std::chrono::milliseconds> timeout_variable(std::chrono::milliseconds default_value) {
    VariableType<std::chrono::milliseconds> type = duration_variable(default_value);
    const auto parse = type.parse;
    type.parse = [parse](std::string_view text) -> std::optional<std::chrono::milliseconds> {
        std::optional<std::chrono::milliseconds> value = parse(text);
        if (value && value->count() == 0) value = std::chrono::milliseconds(largest);
        return value;
    };
    return type;
}

}  // namespace cubepi::detail
