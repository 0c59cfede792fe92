#pragma once

#include <cstddef>
#include <string_view>

#include "terminal_stream.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// The hunks of a unified diff of one file.
struct DiffSource {
    std::string_view diff = {};
    std::string_view path = {};  ///< of the file; by its name its code is colored. Empty: unknown
    std::size_t hidden = 0;      ///< changed lines that `diff` itself does not have
};

struct DiffView {
    TerminalText text = {};
    bool cut = false;  ///< the text does not have the whole diff
};

/// Formats a diff: indented, with line numbers and colors. At most `max_lines` lines (0: all), then a line that counts the others.
DiffView diff_view(const DiffSource& source, const Style& style, std::size_t max_lines);

}  // namespace cubepi::app
