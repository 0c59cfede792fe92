#include "style.hpp"

#include <cstdlib>
#include <string_view>

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
    if (ioctl(fd, TIOCGWINSZ, &size) == 0) {
        if (size.ws_col > 0) style.columns = size.ws_col;
        if (size.ws_row > 0) style.rows = size.ws_row;
    }
    return style;
}

}  // namespace cubepi::app
