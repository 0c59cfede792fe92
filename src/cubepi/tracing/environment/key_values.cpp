#include <cubepi/tracing/environment/key_values.hpp>

#include <cubepi/core/support/trimmed.hpp>

namespace cubepi::detail {

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
