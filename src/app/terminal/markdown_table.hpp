#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "style.hpp"

namespace cubepi::app {

/// True if `line` is the second one of a table: dashes and colons for the alignment of columns.
bool is_table_rule(std::string_view line);

/// Lays out a table for a terminal of `columns` columns, from its source lines (the rule second). Cells that do not
/// fit are wrapped; if columns become too narrow, each row becomes a list. Ends with a line feed.
std::string table_text(const std::vector<std::string>& lines, const Style& style,
                       std::size_t columns);

}  // namespace cubepi::app
