#pragma once

#include <stop_token>
#include <string>

namespace cubepi::app {

/// Lets the user edit a text in $VISUAL, $EDITOR or vi, in a temporary file that only this user can read. `terminal`: of this process,
/// which the editor controls until it ends. Returns the text without a line feed at its end. Blocks; when `stopping` is requested, the
/// editor is asked to end. Throws Error: io, invalid_argument (too large, or not UTF-8), unsupported (the editor failed).
std::string edit_in_editor(const std::string& text, int terminal, std::stop_token stopping);

}  // namespace cubepi::app
