#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/notice.hpp>

namespace cubepi::detail {

/// A notice that a request differs from what was requested (D14). `field`: its place in the request.
inline Notice request_changed(std::string text, std::string_view field) {
    Notice notice;
    notice.code = "request_changed";
    notice.text = std::move(text);
    notice.details["field"] = field;
    return notice;
}

inline void append(std::vector<Notice>& to, std::vector<Notice> from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace cubepi::detail
