#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

namespace cubepi::app {

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
