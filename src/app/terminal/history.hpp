#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::app {

/// What was entered before, kept in a file of libedit's form (mode 0600). Going back keeps the text that was being written.
class History {
public:
    /// Empty path: kept in memory alone.
    explicit History(std::filesystem::path file);

    /// Adds an entry that differs from the one before, also to the file; what others have added there stays.
    void add(const std::string& entry);
    /// The entry before the one shown; `current` is what stands in the line. Null when there is none.
    const std::string* older(const std::string& current);
    const std::string* newer();
    /// The newest entry with `part` in it, older than the one shown; it is then the one shown. Null when there is none.
    const std::string* find_older(std::string_view part);
    /// The next older() begins with the newest entry again.
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
