#pragma once

#include <cstddef>

namespace cubepi::app {

/// Columns of a character at a terminal: 0 for those that join the previous one (combining marks, joiners,
/// selectors), 2 for wide ones. Uses Unicode's tables instead of the locale, as terminals do.
std::size_t character_width(char32_t character);

}  // namespace cubepi::app
