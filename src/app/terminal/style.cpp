#include "style.hpp"

#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "text_width.hpp"

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

namespace {

/// The length of a character that turns the direction of text around (U+202A to U+202E, U+2066 to U+2069) and so can show a
/// command as another one; 0: there is none.
std::size_t direction_mark(std::string_view text) {
    if (text.size() < 3 || text[0] != '\xE2') return 0;
    const auto last = static_cast<unsigned char>(text[2]);
    const bool embedding = text[1] == '\x80' && last >= 0xAA && last <= 0xAE;
    const bool isolate = text[1] == '\x81' && last >= 0xA6 && last <= 0xA9;
    return embedding || isolate ? 3 : 0;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string clean;
    clean.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool c1 =
            byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
        if (c1) {
            ++i;
        } else if (byte == '\r') {
            // A progress bar writes over its line; here each state is one.
            if (i + 1 < text.size() && text[i + 1] != '\n') clean += '\n';
        } else if (const std::size_t length = direction_mark(text.substr(i)); length > 0) {
            clean += "\uFFFD";
            i += length - 1;
        } else if (byte >= 0x20 ? byte != 0x7F : (byte == '\n' || byte == '\t')) {
            clean += text[i];
        }
    }
    return clean;
}

std::string one_line(std::string_view text, std::size_t width) {
    return shortened(printable(text.substr(0, text.find_first_of("\r\n"))), width);
}

}  // namespace cubepi::app
