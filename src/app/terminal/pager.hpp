#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "full_screen.hpp"
#include "keys.hpp"
#include "terminal_stream.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

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
