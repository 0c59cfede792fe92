#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "keys.hpp"

namespace cubepi::app {

/// A text under editing, of one or several lines, with a cursor between its characters.
class EditBuffer {
public:
    const std::string& text() const noexcept { return text_; }
    std::size_t cursor() const noexcept { return cursor_; }  ///< a byte offset
    bool empty() const noexcept { return text_.empty(); }

    /// With the cursor at the end.
    void set(std::string text);
    /// With the cursor at a byte offset between two characters.
    void set(std::string text, std::size_t cursor);
    void insert(std::string_view text);
    /// Does what an editing key does. False for keys that edit nothing (enter, tab, escape, ...), and for up and down at
    /// the first and last line.
    bool apply(const Key& key);

private:
    std::size_t before(std::size_t at) const;
    std::size_t after(std::size_t at) const;
    std::size_t word_before(std::size_t at) const;
    std::size_t word_after(std::size_t at) const;
    std::size_t line_start(std::size_t at) const;
    std::size_t line_end(std::size_t at) const;
    void cut(std::size_t from, std::size_t to, bool keep);
    bool move_line(bool up);

    std::string text_;
    std::string kept_;
    std::size_t cursor_ = 0;
};

}  // namespace cubepi::app
