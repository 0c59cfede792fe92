#include "style.hpp"

#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace cubepi::app {

Style Style::of(int fd) {
    Style style;
    style.terminal = isatty(fd) == 1;
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    const bool dumb = !term || std::string_view(term) == "dumb";
    style.color = style.terminal && !dumb && !(no_color && *no_color);
    winsize size = {};
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.columns = size.ws_col;
    return style;
}

std::string printable(std::string_view text) {
    std::string clean;
    clean.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool c1 =
            byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
        if (c1) {
            ++i;
        } else if (byte >= 0x20 ? byte != 0x7F : (byte == '\n' || byte == '\t')) {
            clean += text[i];
        }
    }
    return clean;
}

std::string one_line(std::string_view text, std::size_t width) {
    std::string line = printable(text.substr(0, text.find('\n')));
    std::size_t columns = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if ((static_cast<unsigned char>(line[i]) & 0xC0) == 0x80) continue;
        if (++columns > width) {
            line.resize(i);
            return line + "…";
        }
    }
    return line;
}

}  // namespace cubepi::app
