#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

/// Characters around the data of a server-sent event that are not part of it.
inline constexpr std::string_view event_data_blanks = " \r\n";

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
