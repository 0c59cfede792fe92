#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cubepi::app {

/// Columns that a line takes at a terminal: wide characters take two, combining ones and escape sequences none. A tab goes to
/// the next multiple of eight. Goes by the locale's characters (LC_CTYPE).
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

/// The colours and styles that are in force at the end of `text`, as escape sequences; `before`: those at its beginning.
std::string style_at_end(std::string_view text, std::string before = {});

}  // namespace cubepi::app
