#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

/// The data of a server-sent event without the blanks around it.
inline std::string_view trimmed(std::string_view data) {
    while (!data.empty() && (data.back() == ' ' || data.back() == '\r' || data.back() == '\n'))
        data.remove_suffix(1);
    while (!data.empty() && (data.front() == ' ' || data.front() == '\n')) data.remove_prefix(1);
    return data;
}

/// Parses, and parses once more with bytes that are no UTF-8 replaced. Throws Error(protocol) when it is no JSON object.
template <class Parser>
void parse_event(Parser& parser, std::string_view data) {
    if (parser.parse(data)) return;
    const std::string mended = replace_broken_utf8(data);
    if (parser.parse(mended)) return;
    const std::string_view begin = std::string_view(mended).substr(0, 100);
    throw Error(ErrorCode::protocol, "the endpoint sent something that is not JSON: " +
                                         std::string(begin.substr(0, complete_utf8_prefix(begin))));
}

}  // namespace cubepi::detail
