#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../highlight/highlighter.hpp"
#include "terminal_stream.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// `code` with its pieces in color. `base`: the style of the line, which its plain pieces have and the others continue.
TerminalText code_text(const TerminalText& code, const std::vector<CodeSpan>& spans,
                       const Style& style, TerminalView base = {});

/// The hunks of a unified diff of one file.
struct DiffSource {
    std::string_view diff = {};
    std::string_view path = {};  ///< of the file; by its name its code is colored. Empty: unknown
    std::size_t hidden = 0;      ///< changed lines that `diff` itself does not have
};

struct DiffView {
    TerminalText text = {};
    bool cut = false;  ///< the text does not have the whole diff
};

/// Formats a diff: indented, with line numbers and colors. At most `max_lines` lines (0: all), then a line that counts the others.
DiffView diff_view(const DiffSource& source, const Style& style, std::size_t max_lines);

/// The changes of files that the user has accepted after their diffs were on the screen, so that the results of the calls need not
/// show them again (D170).
class ShownChanges {
public:
    void add(std::string_view path, std::string_view diff) {
        changes_.emplace_back(path, diff);
        if (changes_.size() > max_changes) changes_.pop_front();
    }
    /// Returns whether the change of a result was shown, and forgets it. The diff of a result may be the beginning of the one that was
    /// shown.
    bool take(std::string_view path, std::string_view diff) {
        const auto found = std::find_if(changes_.begin(), changes_.end(), [&](const auto& one) {
            return !diff.empty() && one.second.starts_with(diff) && one.first == path;
        });
        if (found == changes_.end()) return false;
        changes_.erase(found);
        return true;
    }
    /// Forgets the changes of calls that have not reported a result.
    void clear() { changes_.clear(); }

private:
    static constexpr std::size_t max_changes = 50;
    std::deque<std::pair<std::string, std::string>> changes_;
};

}  // namespace cubepi::app
