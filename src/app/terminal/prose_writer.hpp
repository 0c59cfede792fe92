#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "live_area.hpp"
#include "open_line.hpp"

namespace cubepi::app {

/// Breaks text between words while it arrives, for a terminal on which nothing written is changed later. Holds back the word
/// that is being written, since it may belong on the next row. Code is left for the terminal to break.
class ProseWriter {
public:
    /// What can be shown of `text` and of what was held back, for a terminal of `columns` columns.
    TerminalText add(TerminalView text, Flow flow, std::size_t columns);
    /// The word that was held back.
    TerminalText finish();

private:
    void fit(std::size_t columns);
    std::string take_rest();
    std::string take_ready(Flow flow, std::size_t columns);

    OpenLine line_;
    std::size_t written_ = 0;  // bytes of line_.text
};

}  // namespace cubepi::app
