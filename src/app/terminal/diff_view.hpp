#pragma once

#include <cstddef>
#include <string_view>

#include "style.hpp"

namespace cubepi::app {

struct DiffView {
    TerminalText text = {};
    bool cut = false;  ///< the text does not have the whole diff
};

/// Formats the hunks of a unified diff: indented, with line numbers and colors. At most `max_lines` lines (0: all),
/// then a line that counts the others; `hidden` is the number of changed lines that `diff` itself does not have.
DiffView diff_view(std::string_view diff, std::size_t hidden, const Style& style,
                   std::size_t max_lines);

}  // namespace cubepi::app
