#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "input_field.hpp"
#include "keys.hpp"
#include "popup.hpp"
#include "terminal_stream.hpp"
#include "vi_keys.hpp"

namespace cubepi::app {

/// The history of inputs, stored in a file in the format of editline (mode 0600). Browsing preserves the unfinished text.
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

/// The result of Tab for a line.
struct Completion {
    std::size_t from = 0;                   ///< where the word begins
    std::string word = {};                  ///< its replacement
    std::vector<std::string> choices = {};  ///< shown if there are several
};

/// Completes a command (a first word that begins with '/' or ',') or the name of a file below the current directory.
Completion complete_line(const std::string& line, std::size_t cursor,
                         const std::vector<std::string>& commands);

/// The input at the bottom of the console: an edit buffer with history, search and completion. A long paste is shown as
/// "[pasted 1,204 lines]", which stands for its text.
class Prompt {
public:
    enum class Outcome : std::uint8_t {
        none,
        entered,  ///< take() has the text
        escape,   ///< Esc without an effect on the prompt
        end,      ///< Ctrl-D at the empty prompt
        editor,   ///< Ctrl-G: the user wants to edit the text elsewhere
    };
    Prompt(Style style, History history);

    /// `more_follows`: further keys have already arrived, as in the middle of a pasted block.
    Outcome press(const Key& key, bool more_follows);
    std::string take();
    /// Returns whether the beginning of the text from take() was pasted, not typed.
    bool taken_was_pasted() const noexcept { return entered_pasted_; }
    /// Returns whether a part of it was pasted, or came from the history, whose entries may have been.
    bool taken_has_paste() const noexcept { return entered_has_paste_; }
    /// Drops the typed text; undo restores it. Returns false if there was none.
    bool clear();
    /// Returns an input that was not accepted. Each becomes the text of the empty prompt, one after the other in this order.
    void hand_back(std::string text, bool pasted, bool has_paste);
    void remember(const std::string& line) { history_.add(line); }
    void set_sources(PopupSources sources) { popup_.sources() = std::move(sources); }
    void set_commands(std::vector<Command> commands) {
        popup_.sources().commands = std::move(commands);
    }
    void set_skills(std::vector<Command> skills) { popup_.sources().skills = std::move(skills); }
    void set_files(std::shared_ptr<const std::vector<std::string>> files);
    void set_resources(std::vector<Command> resources);
    /// Returns the path of a picture if a pasted text is one; it is then inserted as `@PATH`, as if it had been typed. Null: no
    /// paste is.
    void set_picture_test(std::function<std::string(const std::string& pasted)> picture) {
        picture_ = std::move(picture);
    }

    /// Edits with the keys of vi, beginning in the mode insert.
    void use_vi_keys();
    /// The mode of vi: INSERT or NORMAL; empty: its keys are not used.
    TerminalView vi_mode() const noexcept;

    const std::string& text() const noexcept { return buffer_.text(); }
    /// Returns the text with its pastes.
    std::string whole_text() const { return folds_.unfold(buffer_.text()); }
    /// Replaces the text, which can be undone.
    void replace_text(const std::string& text);
    FieldRows field(std::size_t columns, std::size_t max_rows) const;
    /// The popup, or the choices of Tab, for the rows below the prompt.
    std::vector<TerminalText> menu(std::size_t columns, std::size_t max_rows) const;

private:
    struct Returned {
        std::string text = {};
        bool pasted = false;
        bool has_paste = false;
    };

    bool continues_line() const;
    void snap_vi_cursor();
    Outcome enter();
    void show_returned();
    void note_paste(const Key& key);
    Outcome edit(const Key& key, bool more_follows);
    bool edit_with_vi(const Key& key);
    void begin_search();
    void show_history(bool older);
    bool search(const Key& key);
    void complete();
    void choose();
    void take_marked();
    void update_popup(KeyCode code);

    Style style_;
    History history_;
    EditBuffer buffer_;
    Popup popup_;
    std::function<std::string(const std::string& pasted)> picture_;
    std::string entered_;
    bool pasted_ = false;  // the beginning of the text in the buffer
    bool has_paste_ = false;
    bool entered_pasted_ = false;
    bool entered_has_paste_ = false;
    PasteFolds folds_;
    std::deque<Returned> returned_;
    std::optional<ViKeys> vi_;

    bool searching_ = false;
    bool found_ = true;
    std::string pattern_;
    std::string before_search_;

    std::vector<std::string> choices_;  // of the last Tab
    std::size_t chosen_ = 0;            // one more than the index of the one in the text; 0: none
    std::size_t word_begin_ = 0;
};

}  // namespace cubepi::app
