#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "style.hpp"

namespace cubepi::app {

/// True when `line` is the second one of a table: dashes and colons that say how columns are aligned.
bool is_table_rule(std::string_view line);

/// A table for a terminal of `columns` columns, from its lines as they were written (the rule second). Cells that do not fit
/// are wrapped; where columns would become too narrow each row stands as a list. Ends with a line feed.
std::string table_text(const std::vector<std::string>& lines, const Style& style,
                       std::size_t columns);

}  // namespace cubepi::app
