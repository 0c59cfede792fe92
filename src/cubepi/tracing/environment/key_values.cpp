#include <cubepi/tracing/environment/key_values.hpp>

#include <cubepi/core/support/trimmed.hpp>

namespace cubepi::detail {

namespace {

int hex_value(char digit) noexcept {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            decoded.push_back(text[i]);
            continue;
        }
        if (i + 2 >= text.size()) return std::nullopt;
        const int high = hex_value(text[i + 1]);
        const int low = hex_value(text[i + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        decoded.push_back(static_cast<char>(high * 16 + low));
        i += 2;
    }
    return decoded;
}

std::vector<KeyValue> key_values(std::string_view text) {
    std::vector<KeyValue> entries;
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        const std::string_view entry = trimmed(text.substr(0, comma));
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
        if (entry.empty()) continue;
        const std::size_t equals = entry.find('=');
        KeyValue one;
        one.key = trimmed(entry.substr(0, equals));
        if (equals != std::string_view::npos) one.value = trimmed(entry.substr(equals + 1));
        entries.push_back(one);
    }
    return entries;
}

}  // namespace cubepi::detail
