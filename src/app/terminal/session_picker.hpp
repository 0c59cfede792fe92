#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/event_signal.hpp>

#include "../sessions.hpp"
#include "console.hpp"
#include "full_screen.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

/// The list of saved sessions on the whole screen: arrows mark one, typed text filters by titles, first lines and messages, Enter
/// opens, Ctrl-O shows the conversation in a pager, Ctrl-R sets the title, Del deletes after a question, Esc closes. Without I/O:
/// wanted() names the next thing to read or to change, which the caller does and reports. Used on one executor.
class SessionPicker final : public FilteredList {
public:
    struct Options {
        double now = 0;    ///< Unix seconds
        bool all = false;  ///< sessions of other directories are shown from the beginning
        std::string current =
            {};  ///< the tape of the session that is open, which is not deleted; empty: none
    };
    SessionPicker(std::vector<ListedSession> sessions, Style style, Options options);

    bool press(const Key& key) override;
    std::vector<TerminalText> screen(std::size_t columns, std::size_t rows,
                                     TerminalView note) override;
    void closed() override;

    /// The next thing to read, or the change that the user has decided.
    struct Wanted {
        enum class Kind : std::uint8_t { nothing, details, messages, conversation, title, removal };
        Kind kind = Kind::nothing;
        std::size_t index = 0;
        ListedSession session = {};
        std::string title = {};                      ///< the new one; empty: removes it
        std::shared_ptr<MessageSearch> search = {};  ///< messages: stopped when the filter changes
    };
    Wanted wanted();
    void set_details(std::size_t index, ListedSession loaded);
    /// Reports the end of a search that was not stopped.
    void set_match(std::size_t index, const MessageSearch& search,
                   std::optional<std::string> snippet);

    /// Reports that the title is stored; `problem`: why not.
    void set_title(std::size_t index, std::string title, const std::string& problem);
    /// Reports that the session is deleted; `problem`: why not.
    void set_removed(std::size_t index, const std::string& problem);

    /// Reports the text of a conversation, untrusted. It is shown unless the user has pressed another key meanwhile.
    void set_conversation(std::size_t index, std::string text);

    bool is_closed() const noexcept { return closed_; }
    /// The session that the user has opened.
    const std::optional<ListedSession>& chosen() const noexcept { return chosen_; }
    /// Waits until a key has changed what is wanted, or the picker is closed.
    Task<> change() { return changed_.wait(); }

private:
    struct Row {
        ListedSession session = {};
        std::string searched = {};  ///< its messages do not have this text
        std::string snippet = {};   ///< the words around a match
        std::string matched = {};   ///< the filter of the snippet
        std::string words = {};     ///< title, first line and name in lower case
        bool heading_matches = false;
        bool shows = false;
        bool is_removed = false;
    };
    /// The question in the row below the heading.
    enum class Question : std::uint8_t { none, title, removal };

    bool is_candidate(const Row& row) const;
    /// Applies the filter to a row whose details or match have changed.
    void apply_filter(Row& row) const;
    std::vector<std::size_t> shown() const;
    void change_filter(std::string filter) override;
    void mark_a_shown_row();
    void move(std::ptrdiff_t by) override;
    bool pick() override;
    void ask(Question question);
    void press_in_question(const Key& key);
    void decide(Wanted::Kind kind, std::string title);
    TerminalText input_row(std::size_t columns) const;
    void add_row(std::vector<TerminalText>& rows, const Row& row, bool marked, std::size_t columns,
                 std::size_t height) const;
    TerminalText footer(std::size_t columns, TerminalView note) const;

    std::vector<Row> rows_;
    Style style_;
    Options options_;
    std::size_t marked_ = 0;  // an index of rows_
    std::size_t top_ = 0;     // an index of shown()
    std::shared_ptr<MessageSearch> search_;
    std::size_t read_ = 0;                // the filter was applied to the rows before this one
    std::optional<std::size_t> asked_;    // the row whose conversation is to be shown
    std::unique_ptr<Pager> preview_;      // in place of the list; null: none
    Question question_ = Question::none;  // about the row subject_
    std::size_t subject_ = 0;
    std::string title_;               // under editing
    std::unique_ptr<Wanted> change_;  // decided, and not begun; null: none
    std::string notice_;              // in the footer, until the next key
    bool closed_ = false;
    std::optional<ListedSession> chosen_;
    AsyncEvent changed_;
};

/// Lets the user choose a saved session on the whole screen of the console. Nothing: the user chose none, or the console has
/// ended. `all`: those of other directories are shown from the beginning. `current`: the tape of the session that is open; empty: none.
/// Details are read for the rows on the screen, messages only while a filter is set, one session after another; each key stops what it
/// makes obsolete, but not a change that the user has decided: a new title, or a deletion.
Task<std::optional<ListedSession>> pick_session(std::shared_ptr<Console> console,
                                                SavedSessions saved, bool all,
                                                std::string current = {});

}  // namespace cubepi::app
