#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

/// The data of a server-sent event without leading and trailing white space.
inline std::string_view trimmed(std::string_view data) {
    while (!data.empty() && (data.back() == ' ' || data.back() == '\r' || data.back() == '\n'))
        data.remove_suffix(1);
    while (!data.empty() && (data.front() == ' ' || data.front() == '\n')) data.remove_prefix(1);
    return data;
}

/// Parses the data, and after a failure again with invalid UTF-8 replaced. Throws Error(protocol) if it is not a JSON
/// object.
template <class Parser>
void parse_event(Parser& parser, std::string_view data) {
    if (parser.parse(data)) return;
    const std::string sanitized = replace_broken_utf8(data);
    if (parser.parse(sanitized)) return;
    const std::string_view begin = std::string_view(sanitized).substr(0, 100);
    throw Error(ErrorCode::protocol, "the endpoint sent something that is not JSON: " +
                                         std::string(begin.substr(0, complete_utf8_prefix(begin))));
}

}  // namespace cubepi::detail
