#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cubepi::detail {

struct EditOutcome {
    std::string text;
    std::size_t replacements = 0;
    std::size_t first_line = 0;  ///< of the first replacement, counted from 1
};

/// Replaces `old_text` by `new_text` in `text`: exactly one occurrence, or with `all` every occurrence. LF and CRLF match each
/// other, and the replacement gets the line endings of the file. `path` is for the error texts. Throws Error(invalid_argument)
/// with the number of occurrences and the most similar line.
EditOutcome edit_text(std::string_view text, std::string_view old_text, std::string_view new_text,
                      bool all, const std::string& path);

}  // namespace cubepi::detail
