#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal_text.hpp"

namespace cubepi::app {

// The columns of text at a terminal, and its division into rows.

/// Columns of a line at a terminal: wide characters take two, combining ones and escape sequences none. A tab goes to
/// the next multiple of eight.
std::size_t display_width(std::string_view line);
std::size_t display_width(const TerminalText& line);

/// The position of the cursor after writing a line at the left edge of a terminal of `columns` columns, as rows below
/// the first one and columns; `column == columns` if the last row is exactly full.
struct Extent {
    std::size_t row = 0;
    std::size_t column = 0;
};
Extent extent_of(std::string_view line, std::size_t columns);

/// The byte offset at which row `row` begins if a terminal wraps `line`; the length of the line if it has fewer rows.
std::size_t row_start(std::string_view line, std::size_t columns, std::size_t row);

/// `line` cut to `columns` columns, its escape sequences complete.
std::string cut_to_width(std::string_view line, std::size_t columns);
TerminalText cut_to_width(const TerminalText& line, std::size_t columns);

/// The same with "…" at the end if the line was cut.
std::string shortened(std::string_view line, std::size_t columns);
TerminalText shortened(const TerminalText& line, std::size_t columns);

/// The end of `line` after "…" if it has more columns, for a path. Without escape sequences.
TerminalText shortened_at_front(const TerminalText& line, std::size_t columns);

/// A line break of prose: the row ends at `end`, the next one begins at `next` (the spaces between them are dropped).
struct RowBreak {
    std::size_t end = 0;
    std::size_t next = 0;
};
/// The first break of a line for `columns` columns; none if it fits. Breaks are at spaces and at wide characters; a
/// word that is too long for a row is not split: the terminal wraps it.
std::optional<RowBreak> first_break(std::string_view line, std::size_t columns);

/// The end of the last row that `line` could be broken into if its last word grew: what comes before it stays on the row. 0:
/// no place to break.
std::size_t last_break(std::string_view line);

/// The beginning of the rows after the first: spaces up to the text of a list item, the bar of a quote.
std::string hanging_indent(std::string_view line);

/// `text` wrapped as prose; styles do not continue on the next rows.
std::string wrapped(std::string_view text, std::size_t columns);

/// Byte offsets between visible characters (an accent belongs to its letter).
std::size_t next_character(std::string_view text, std::size_t at);
std::size_t previous_character(std::string_view text, std::size_t at);

/// The active colors and styles at the end of `text`, as escape sequences; `before`: those at its beginning.
std::string style_at_end(std::string_view text, std::string before = {});

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

/// The wrapping of a line that is too long.
enum class Flow : std::uint8_t {
    prose,  ///< between words, and below the text of a list item
    code,   ///< by the terminal, so that a copy of it is one line again
};

/// The last row of a line of prose that is still being written.
struct OpenLine {
    std::string text = {};    ///< begins with the styles in force and the indent
    std::string indent = {};  ///< of the line's next rows; empty until the first break
    bool broken = false;      ///< the line has rows before this one
};

/// Moves the full rows of `line` to `rows`, each with its styles ended and a line feed.
void take_full_rows(OpenLine& line, std::size_t columns, std::string& rows);

/// Breaks text between words while it arrives, for a terminal on which nothing written is changed later. Holds back the word
/// that is being written, since it may belong on the next row. Code is wrapped by the terminal.
class ProseWriter {
public:
    /// Returns the part of `text` and of the pending word that can be shown, for a terminal of `columns` columns.
    TerminalText add(TerminalView text, Flow flow, std::size_t columns);
    /// Returns the pending word.
    TerminalText finish();

private:
    void fit(std::size_t columns);
    std::string take_rest();
    std::string take_ready(Flow flow, std::size_t columns);

    OpenLine line_;
    std::size_t written_ = 0;  // bytes of line_.text
};

}  // namespace cubepi::app
