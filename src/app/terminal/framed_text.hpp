#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "style.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// The beginnings of the rows of a framed line.
struct Frame {
    TerminalView first = "  │ ";
    TerminalView next = "  ┊ ";  ///< rows after the first one of a line that does not fit
};

/// Appends the rows of `line` for a terminal of `columns` columns, each after the frame, so that no content of the
/// line can appear at the left edge. Its styles continue on its next rows.
void add_framed(std::vector<TerminalText>& rows, const TerminalText& line, std::size_t columns,
                Frame frame = {});

/// The lines of untrusted text, spelled out and framed.
void add_framed_lines(std::vector<TerminalText>& rows, std::string_view text, std::size_t columns,
                      Frame frame = {}, TerminalView style = {}, TerminalView off = {});

/// The same as one text, each row with a line feed.
TerminalText framed(std::string_view text, std::size_t columns, Frame frame = {});

}  // namespace cubepi::app
