#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keys.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// Long texts that were pasted into a field, which shows a mark in place of each: "[pasted 12 lines]".
class PasteFolds {
public:
    /// Returns the mark of a long text, which is stored, or a short text as it is.
    std::string fold(const std::string& pasted);
    /// Returns the text with the stored texts in place of their marks. Pasted texts are not searched for marks.
    std::string unfold(const std::string& text) const;
    void clear() { texts_.clear(); }

private:
    std::map<std::string, std::string> texts_;  // by their marks
};

/// A text under editing, of one or several lines, with a cursor between its characters.
class EditBuffer {
public:
    const std::string& text() const noexcept { return text_; }
    std::size_t cursor() const noexcept { return cursor_; }  ///< a byte offset
    bool empty() const noexcept { return text_.empty(); }

    /// Sets the text, with the cursor at the end. Clears the undo history.
    void set(std::string text);
    /// Sets the text, with the cursor at a byte offset between two characters. Can be undone.
    void replace(std::string text, std::size_t cursor);
    void insert(std::string_view text);
    /// Sets the cursor, a byte offset between two characters.
    void move_to(std::size_t cursor);
    /// Begins a unit: until end_unit(), or set(), all changes are undone as one.
    void begin_unit();
    void end_unit();
    /// Takes back an undo. Returns false if there is none that no later change has followed.
    bool redo();
    /// Applies an editing key. Returns false for keys that edit nothing (enter, tab, escape, ...), and for up and
    /// down at the first and last line.
    bool apply(const Key& key);

private:
    struct Saved {
        std::string text = {};
        std::size_t cursor = 0;
    };

    std::size_t before(std::size_t at) const;
    std::size_t after(std::size_t at) const;
    std::size_t word_before(std::size_t at) const;
    std::size_t word_after(std::size_t at) const;
    std::size_t line_start(std::size_t at) const;
    std::size_t line_end(std::size_t at) const;
    void cut(std::size_t from, std::size_t to, bool keep);
    bool move_line(bool up);
    void save();
    void push(Saved saved);
    void undo();
    bool edit(const Key& key);

    std::string text_;
    std::string cut_;
    std::size_t cursor_ = 0;
    std::deque<Saved> before_;  // states for undo, newest last
    std::vector<Saved> after_;  // states for redo
    std::optional<Saved> unit_;
    std::size_t unit_saves_ = 0;  // of before_, since the beginning of the unit
    std::size_t before_bytes_ = 0;
    bool typing_ = false;  // a run of typed characters is undone as one
};

/// A prompt followed by a text, as rows of a terminal.
struct FieldRows {
    std::vector<TerminalText> rows = {};
    std::size_t cursor_row = 0;
    std::size_t cursor_column = 0;
};

/// Lays out a field. `prompt` may have styles. The text of the buffer is always spelled out. Long texts are wrapped;
/// at most `max_rows` rows around the cursor are shown.
FieldRows field_rows(const TerminalText& prompt, const EditBuffer& buffer, std::size_t columns,
                     std::size_t max_rows);

}  // namespace cubepi::app
