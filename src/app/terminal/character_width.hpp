#pragma once

#include <cstddef>

namespace cubepi::app {

/// Columns that a character takes at a terminal: 0 for those that join the one before (combining marks, joiners,
/// selectors), 2 for wide ones. From Unicode's tables, whatever the locale says: terminals have their own.
std::size_t character_width(char32_t character);

}  // namespace cubepi::app
