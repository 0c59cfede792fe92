#pragma once

#include <cstddef>
#include <string>

namespace cubepi::app {

/// The last row of a line of prose that is still being written.
struct OpenLine {
    std::string text = {};    ///< begins with the styles in force and the indent
    std::string indent = {};  ///< of the line's next rows; empty until the first break
    bool broken = false;      ///< the line has rows before this one
};

/// Moves the full rows of `line` to `rows`, each with its styles ended and a line feed.
void take_full_rows(OpenLine& line, std::size_t columns, std::string& rows);

}  // namespace cubepi::app
