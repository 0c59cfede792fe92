#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "terminal_text.hpp"

namespace cubepi::app {

/// Columns that a line takes at a terminal: wide characters take two, combining ones and escape sequences none. A tab goes to
/// the next multiple of eight.
std::size_t display_width(std::string_view line);

/// Where a terminal of `columns` columns has its cursor after writing a line at its left edge, as rows below the first
/// one and columns; `column == columns` when the last row is just full.
struct Extent {
    std::size_t row = 0;
    std::size_t column = 0;
};
Extent extent_of(std::string_view line, std::size_t columns);

/// The byte offset at which row `row` begins when a terminal wraps `line`; the line's length when it has fewer rows.
std::size_t row_start(std::string_view line, std::size_t columns, std::size_t row);

/// `line` cut to `columns` columns, its escape sequences kept.
std::string cut_to_width(std::string_view line, std::size_t columns);
TerminalText cut_to_width(const TerminalText& line, std::size_t columns);

/// The same with "…" at its end when something was cut.
std::string shortened(std::string_view line, std::size_t columns);
TerminalText shortened(const TerminalText& line, std::size_t columns);

/// Where prose is broken: the row ends at `end`, the next one begins at `next` (the blanks between them are dropped).
struct RowBreak {
    std::size_t end = 0;
    std::size_t next = 0;
};
/// The first break of a line that is to be shown in `columns` columns; none when it fits. Breaks come at blanks and at
/// wide characters; a word that is too long for a row of its own stays whole, for the terminal to wrap.
std::optional<RowBreak> first_break(std::string_view line, std::size_t columns);

/// The end of the last row that `line` could be broken into if its last word grew: what comes before it stays on the row. 0:
/// there is no place to break.
std::size_t last_break(std::string_view line);

/// What the rows after the first begin with: blanks up to the text of a list item, the bar of a quote.
std::string hanging_indent(std::string_view line);

/// `text`, lines broken where prose is, without styles carried on.
std::string wrapped(std::string_view text, std::size_t columns);

std::size_t display_width(const TerminalText& line);

/// The first code point of a text that is not empty; its first byte where it is not UTF-8.
std::string_view first_code_point(std::string_view text);
/// Its value; U+FFFD where it is not UTF-8.
char32_t code_point(std::string_view character);

/// Byte offsets between the characters that a person sees (an accent goes with its letter).
std::size_t next_character(std::string_view text, std::size_t at);
std::size_t previous_character(std::string_view text, std::size_t at);

/// The colours and styles that are in force at the end of `text`, as escape sequences; `before`: those at its beginning.
std::string style_at_end(std::string_view text, std::string before = {});

}  // namespace cubepi::app
