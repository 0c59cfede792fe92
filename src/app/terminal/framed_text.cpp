#include "framed_text.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "text_width.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t narrowest = 12;

/// Replaces tabs by spaces: the width of a tab depends on the column, which the frame moves.
std::string without_tabs(const std::string& line) {
    std::string text;
    for (const char c : line) text += c == '\t' ? std::string(4, ' ') : std::string(1, c);
    return text;
}

}  // namespace

void add_framed(std::vector<TerminalText>& rows, const TerminalText& line, std::size_t columns,
                Frame frame) {
    std::string rest = without_tabs(line.str());
    TerminalView prefix = frame.first;
    for (;;) {
        const std::size_t taken = display_width(prefix.str()) + 1;
        const std::size_t width = columns > taken + narrowest ? columns - taken : narrowest;
        const std::size_t end = row_start(rest, width, 1);
        const std::string row = rest.substr(0, end);
        const std::string styles = style_at_end(row);
        rows.push_back(prefix + TerminalText::assembled(styles.empty() ? row : row + "\x1b[0m"));
        if (end >= rest.size()) return;
        rest = styles + rest.substr(end);
        prefix = frame.next;
    }
}

void add_framed_lines(std::vector<TerminalText>& rows, std::string_view text, std::size_t columns,
                      Frame frame, TerminalView style, TerminalView off) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        add_framed(rows, style + spelled_out(text.substr(at, end - at)) + off, columns, frame);
        at = end + 1;
    }
}

TerminalText framed(std::string_view text, std::size_t columns, Frame frame) {
    std::vector<TerminalText> rows;
    add_framed_lines(rows, text, columns, frame);
    TerminalText all;
    for (const TerminalText& row : rows) all += row + "\n";
    return all;
}

}  // namespace cubepi::app
