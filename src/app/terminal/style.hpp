#pragma once

#include <string>
#include <string_view>

namespace cubepi::app {

/// Whether and how a stream shows colours: not when it is no terminal, NO_COLOR is set, or TERM is dumb.
struct Style {
    bool terminal = false;
    bool color = false;
    int columns = 80;

    /// The style of an open file descriptor, now.
    static Style of(int fd);

    std::string_view bold() const noexcept { return color ? "\x1b[1m" : ""; }
    std::string_view dim() const noexcept { return color ? "\x1b[2m" : ""; }
    std::string_view italic() const noexcept { return color ? "\x1b[3m" : ""; }
    std::string_view cyan() const noexcept { return color ? "\x1b[36m" : ""; }
    std::string_view green() const noexcept { return color ? "\x1b[32m" : ""; }
    std::string_view red() const noexcept { return color ? "\x1b[31m" : ""; }
    std::string_view yellow() const noexcept { return color ? "\x1b[33m" : ""; }
    std::string_view off() const noexcept { return color ? "\x1b[0m" : ""; }
};

/// Text of others (a model, a tool, a file) without what a terminal would obey: control characters other than line
/// breaks and tabs are left out, and marks that turn the direction of text around show as U+FFFD.
std::string printable(std::string_view text);

/// The first line of `text`, cut to `width` columns.
std::string one_line(std::string_view text, std::size_t width);

}  // namespace cubepi::app
