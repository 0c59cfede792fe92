#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "live_area.hpp"
#include "open_line.hpp"

namespace cubepi::app {

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
