#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cubepi::detail {

struct DiffLimits {
    std::size_t context = 3;                   ///< unchanged lines around a change
    std::size_t max_lines = 4000;              ///< of text
    std::size_t max_bytes = 512 * 1024;        ///< of text
    std::size_t max_line_bytes = 2000;         ///< of one line; longer lines are truncated
    std::size_t max_work = 50'000'000;         ///< steps of the comparison, some nanoseconds each
    std::size_t max_compared_lines = 200'000;  ///< differing lines of both texts together

    DiffLimits() {}
};

struct LineDiff {
    std::string text;         ///< hunks of a unified diff, without file names
    std::size_t removed = 0;  ///< lines, including those that the text omits
    std::size_t added = 0;
    std::size_t hidden = 0;  ///< changed lines that the text omits
    bool cut_lines = false;  ///< a long line was truncated
};

/// Computes the difference of two texts by lines, in linear space (Myers). Beyond the limits of work and of lines, parts of the
/// texts count as replaced entirely: the result is still a correct diff, but not the shortest one.
///
/// A line includes its '\n'. The text marks a last line without '\n' as diff(1) does.
LineDiff diff_lines(std::string_view before, std::string_view after,
                    const DiffLimits& limits = DiffLimits());

/// Returns the number of lines of a text; a last line without '\n' counts.
std::size_t count_lines(std::string_view text);

}  // namespace cubepi::detail
