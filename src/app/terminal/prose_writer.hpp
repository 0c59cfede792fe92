#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "terminal_text.hpp"

namespace cubepi::app {

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
