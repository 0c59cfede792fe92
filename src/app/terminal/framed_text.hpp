#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "style.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// How the rows of a framed line begin.
struct Frame {
    TerminalView first = "  │ ";
    TerminalView next = "  ┊ ";  ///< rows after the first one of a line that does not fit
};

/// Appends the rows of `line` for a terminal of `columns` columns, each with the frame in front, so that nothing of the line
/// can stand at the left edge, whatever it contains. Its styles go on to its next rows.
void add_framed(std::vector<TerminalText>& rows, const TerminalText& line, std::size_t columns,
                Frame frame = {});

/// The lines of a text of others, spelled out and framed.
void add_framed_lines(std::vector<TerminalText>& rows, std::string_view text, std::size_t columns,
                      Frame frame = {}, TerminalView style = {}, TerminalView off = {});

/// The same as one text, each row with a line feed.
TerminalText framed(std::string_view text, std::size_t columns, Frame frame = {});

}  // namespace cubepi::app
