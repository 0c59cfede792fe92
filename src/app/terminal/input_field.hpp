#pragma once

#include <cstddef>
#include <vector>

#include "edit_buffer.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// A prompt with a text behind it, as rows of a terminal.
struct FieldRows {
    std::vector<TerminalText> rows = {};
    std::size_t cursor_row = 0;
    std::size_t cursor_column = 0;
};

/// `prompt` may have styles. The text of the buffer is shown spelled out, whoever put it there. Long texts are wrapped; of many rows those around the cursor are shown, `max_rows` at most.
FieldRows field_rows(const TerminalText& prompt, const EditBuffer& buffer, std::size_t columns,
                     std::size_t max_rows);

}  // namespace cubepi::app
