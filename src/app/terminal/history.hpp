#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::app {

/// The history of inputs, stored in a file in libedit's format (mode 0600). Browsing preserves the unfinished text.
class History {
public:
    /// Empty path: stored only in memory.
    explicit History(std::filesystem::path file);

    /// Adds an entry, also to the file, unless it equals the previous one; entries of other processes stay.
    void add(const std::string& entry);
    /// Returns the entry before the one shown; `current` is the text of the line. Null if there is none.
    const std::string* older(const std::string& current);
    const std::string* newer();
    /// Finds the newest entry with `part` that is older than the one shown, and makes it the one shown. Null if there
    /// is none.
    const std::string* find_older(std::string_view part);
    /// Makes the next older() begin with the newest entry.
    void rewind() { at_ = entries_.size(); }
    std::size_t size() const noexcept { return entries_.size(); }

private:
    void load();
    void append(const std::string& entry) const;
    void shorten() const;

    std::filesystem::path file_;
    std::vector<std::string> entries_;
    std::size_t at_ = 0;
    std::string draft_;
};

}  // namespace cubepi::app
