#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "completer.hpp"
#include "edit_buffer.hpp"
#include "history.hpp"
#include "input_field.hpp"
#include "keys.hpp"
#include "style.hpp"

namespace cubepi::app {

/// What a person writes at the bottom of the console: the text under editing with its history, search in it, and
/// completion.
class Prompt {
public:
    enum class Outcome : std::uint8_t {
        none,
        entered,  ///< take() has the text
        escape,   ///< Esc, which ended nothing here
        end,      ///< Ctrl-D at the empty prompt
    };
    Prompt(Style style, History history);

    /// `more_follows`: the key is not the last one that has come, as in the middle of a pasted block.
    Outcome press(const Key& key, bool more_follows);
    std::string take();
    /// Whether the beginning of the text that take() returns was pasted, not typed.
    bool taken_was_pasted() const noexcept { return entered_pasted_; }
    /// Drops what was typed; undo brings it back. False when there was nothing.
    bool clear();
    /// Puts a text in front of what is being typed.
    void hand_back(const std::string& text, bool pasted);
    void remember(const std::string& line) { history_.add(line); }
    void set_commands(std::vector<Command> commands) { commands_ = std::move(commands); }

    const std::string& text() const noexcept { return buffer_.text(); }
    FieldRows field(std::size_t columns, std::size_t max_rows) const;
    /// What Tab would choose among, below the prompt.
    std::vector<TerminalText> menu(std::size_t columns, std::size_t max_rows) const;

private:
    Outcome enter();
    void note_paste(const Key& key);
    Outcome edit(const Key& key, bool more_follows);
    bool search(const Key& key);
    void complete();
    void choose();
    std::vector<Command> matching_commands() const;

    Style style_;
    History history_;
    EditBuffer buffer_;
    std::vector<Command> commands_;
    std::string entered_;
    bool pasted_ = false;  // the beginning of the text in the buffer
    bool entered_pasted_ = false;

    bool searching_ = false;
    bool found_ = true;
    std::string pattern_;
    std::string before_search_;

    std::vector<std::string> choices_;  // of the last Tab
    std::size_t chosen_ = 0;            // one more than the index of the one in the text; 0: none
    std::size_t word_begin_ = 0;
};

}  // namespace cubepi::app
