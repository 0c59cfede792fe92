#pragma once

#include <cstddef>
#include <vector>

#include "trace_text.hpp"

namespace cubepi::app {

/// The lines that connect the rows of a tree, as `git log --graph` draws them. Rows are given in the order of the tree; of
/// deep levels only the last ones are drawn, so that each row takes bounded time and width.
class TreeLines {
public:
    TreeLines(const TraceScreen& screen, std::size_t most_levels);

    /// Begins the row of a span. `last`: no further sibling follows.
    void begin(std::size_t depth, bool last);
    /// "|  `- " before the name of the span.
    TerminalText before_name() const;
    /// The same for lines below the span; `children`: its first child follows.
    TerminalText before_detail(bool children) const;

private:
    std::size_t first_level() const noexcept;

    bool ascii_;
    std::size_t most_levels_;
    std::size_t depth_ = 0;
    std::vector<bool> continues_;  // by level, the row's own included
};

/// Columns of one level.
inline constexpr std::size_t level_columns = 3;

}  // namespace cubepi::app
