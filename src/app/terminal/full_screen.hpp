#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "keys.hpp"
#include "prompter.hpp"
#include "terminal_stream.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// A view that takes the whole screen of a console, in place of the chat, until it closes: the pager, the list of sessions.
/// Without I/O: the console passes keys and draws the rows. Used on the executor of the console.
class FullScreen {
public:
    FullScreen() = default;
    FullScreen(const FullScreen&) = delete;
    FullScreen& operator=(const FullScreen&) = delete;
    virtual ~FullScreen() = default;

    /// Returns false if the key closes the view.
    virtual bool press(const Key& key) = 0;
    /// Returns the `rows` rows of the screen. `note`: what the user should know about the chat; may be empty.
    virtual std::vector<TerminalText> screen(std::size_t columns, std::size_t rows,
                                             TerminalView note) = 0;
    /// Called once when the view is no longer shown: a key has closed it, or the console has ended.
    virtual void closed() {}
};

/// A list on the whole screen: arrows mark a row, typed text filters the rows, Enter picks, Esc clears the filter or closes. Derived
/// classes have the rows. Without I/O. Used on one executor.
class FilteredList : public FullScreen {
public:
    bool press(const Key& key) override;

protected:
    /// Marks another row, as many rows further on; ends at the first and the last one.
    virtual void move(std::ptrdiff_t rows) = 0;
    virtual void change_filter(std::string filter) = 0;
    /// Picks the marked row. Returns false if that closes the list.
    virtual bool pick() = 0;

    /// Returns a text after an editing key; nothing if the key does not edit it, or if the text would be too long.
    static std::optional<std::string> edited(const std::string& text, const Key& key);

    std::string filter_;
    std::size_t page_ = 1;  // rows on the screen
};

/// A list whose rows are known when it opens, with fuzzy_matches() as its filter.
class ListPicker final : public FilteredList {
public:
    ListPicker(PickList list, Style style);

    std::vector<TerminalText> screen(std::size_t columns, std::size_t rows,
                                     TerminalView note) override;

    /// The index of the row that the user has picked.
    const std::optional<std::size_t>& picked() const noexcept { return picked_; }

private:
    void move(std::ptrdiff_t rows) override;
    void change_filter(std::string filter) override;
    bool pick() override;

    PickList list_;
    Style style_;
    std::vector<std::string> texts_;
    std::vector<std::size_t> shown_;  // indexes of the rows that match
    std::size_t marked_ = 0;          // an index of shown_
    std::size_t top_ = 0;             // the same, of the first row on the screen
    std::optional<std::size_t> picked_;
};

/// A part of a session that is longer than what the chat shows of it.
struct PagerItem {
    TerminalText title = {};
    std::string text = {};  ///< untrusted
    bool is_diff = false;   ///< `text` is a unified diff
    bool is_prose = false;  ///< its lines are broken at spaces
    std::string path = {};  ///< of the file of a diff, untrusted
    std::string file =
        {};  ///< with the whole output of a command, of which `text` has a part; empty: `text` has all
};

/// The newest items of a session, bounded by the size of their texts.
class PagerItems {
public:
    static constexpr std::size_t max_bytes = std::size_t{4} << 20;

    /// Adds an item; the oldest ones are dropped if all are too large. A text above the limit loses its beginning.
    void add(PagerItem item);
    void clear();
    const std::deque<PagerItem>& all() const noexcept { return items_; }
    /// Returns the items with the texts of their files, as far as the limit allows. Blocks for some milliseconds. A file that cannot be
    /// read leaves the text as it is.
    PagerItems whole() const;

private:
    std::deque<PagerItem> items_;
    std::size_t bytes_ = 0;
};

enum class PagerStart : bool { first_item, last_item };

/// Shows items on the whole screen, one below the other: begins with the first or the last one, scrolls, goes from item to item, and
/// searches. Without I/O: the console passes keys and draws the rows.
class Pager final : public FullScreen {
public:
    Pager(const std::deque<PagerItem>& items, Style style,
          PagerStart start = PagerStart::last_item);

    bool press(const Key& key) override;
    /// The last row has the position, `note` and the keys.
    std::vector<TerminalText> screen(std::size_t columns, std::size_t rows,
                                     TerminalView note = {}) override;

private:
    void lay_out(std::size_t columns);
    void scroll_to(std::size_t row);
    void find_next();
    bool press_in_search(const Key& key);
    std::size_t last_top() const;
    std::size_t current_item() const;
    TerminalText footer(std::size_t columns, TerminalView note) const;

    const std::deque<PagerItem> items_;
    Style style_;
    std::vector<TerminalText> rows_;
    std::vector<std::size_t> begins_;  // the first row of each item
    std::size_t columns_ = 0;          // for which rows_ are laid out
    std::size_t page_ = 1;             // rows of text on the screen
    std::size_t top_ = 0;
    std::size_t item_ = 0;  // at the top, also for another width
    // The diffs whose code is colored.
    std::size_t colored_begin_ = 0;
    std::size_t colored_end_ = 0;
    bool searching_ = false;
    bool not_found_ = false;
    std::string pattern_;
};

}  // namespace cubepi::app
