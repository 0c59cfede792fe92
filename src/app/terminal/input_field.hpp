#pragma once

#include <cstddef>
#include <vector>

#include "edit_buffer.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// A prompt followed by a text, as rows of a terminal.
struct FieldRows {
    std::vector<TerminalText> rows = {};
    std::size_t cursor_row = 0;
    std::size_t cursor_column = 0;
};

/// Lays out a field. `prompt` may have styles. The text of the buffer is always spelled out. Long texts are wrapped;
/// at most `max_rows` rows around the cursor are shown.
FieldRows field_rows(const TerminalText& prompt, const EditBuffer& buffer, std::size_t columns,
                     std::size_t max_rows);

}  // namespace cubepi::app
