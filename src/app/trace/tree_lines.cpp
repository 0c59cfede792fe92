#include "tree_lines.hpp"

#include <string>

namespace cubepi::app {

TreeLines::TreeLines(const TraceScreen& screen, std::size_t most_levels)
    : ascii_(screen.ascii), most_levels_(most_levels) {}

void TreeLines::begin(std::size_t depth, bool last) {
    depth_ = depth;
    continues_.resize(depth + 1);
    continues_[depth] = !last;
}

std::size_t TreeLines::first_level() const noexcept {
    return depth_ > most_levels_ ? depth_ - most_levels_ + 1 : 1;
}

TerminalText TreeLines::before_name() const {
    TerminalText text;
    if (depth_ == 0) return text;
    // The number of the levels that are not drawn.
    if (first_level() > 1)
        text += "+" + TerminalText::number(first_level() - 1) + TerminalView(" ");
    for (std::size_t level = first_level(); level < depth_; ++level)
        text += continues_[level] ? (ascii_ ? TerminalView("|  ") : TerminalView("│  "))
                                  : TerminalView("   ");
    if (continues_[depth_]) {
        text += ascii_ ? TerminalView("|- ") : TerminalView("├─ ");
    } else {
        text += ascii_ ? TerminalView("`- ") : TerminalView("└─ ");
    }
    return text;
}

TerminalText TreeLines::before_detail(bool children) const {
    TerminalText text;
    if (first_level() > 1)
        text += TerminalText::blanks(std::to_string(first_level() - 1).size() + 2);
    for (std::size_t level = first_level(); level <= depth_; ++level)
        text += continues_[level] ? (ascii_ ? TerminalView("|  ") : TerminalView("│  "))
                                  : TerminalView("   ");
    if (children) {
        text += ascii_ ? TerminalView("|  ") : TerminalView("│  ");
    } else {
        text += "   ";
    }
    return text;
}

}  // namespace cubepi::app
