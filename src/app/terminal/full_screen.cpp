#include "full_screen.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/posix_file.hpp>

#include "code_view.hpp"
#include "event_text.hpp"
#include "popup.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_filter = 200;

/// The beginning of a text that was cut begins with a whole line.
void cut_beginning(std::string& text, std::size_t size) {
    if (text.size() <= size) return;
    const std::size_t from = text.find('\n', text.size() - size);
    text.erase(0, from == std::string::npos ? text.size() - size : from + 1);
    text.insert(0, "[the beginning is not shown: the text is too long]\n");
}

// Bytes of diffs whose code is colored: the first screen must not wait for a parser.
constexpr std::size_t max_colored = std::size_t{256} << 10;
// wrapped() takes time in proportion to the square of the length of a line.
constexpr std::size_t max_wrapped = std::size_t{256} << 10;
// add_framed() takes time in proportion to the square of the length of a line.
constexpr std::size_t longest_piece = 2000;

void add_text(std::vector<TerminalText>& rows, std::string_view text, std::size_t columns) {
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        TerminalView first = "  ";
        do {
            std::size_t end = std::min(line.size(), longest_piece);
            // Between characters.
            while (end < line.size() && end > 0 &&
                   (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80)
                --end;
            if (end == 0) end = line.size();
            add_framed(rows, for_terminal(line.substr(0, end)), columns, Frame{first, "  ┊ "});
            line.remove_prefix(end);
            first = "  ┊ ";
        } while (!line.empty());
    }
}

/// Returns the last bytes of a regular file; nothing if it cannot be read.
std::optional<std::string> file_end(const std::string& path, std::size_t bytes) {
    if (path.empty() || !cubepi::detail::kind_if_not_regular(path).empty()) return std::nullopt;
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const std::streamoff size = file.tellg();
    if (size <= 0) return std::nullopt;
    const std::streamoff from = std::max<std::streamoff>(0, size - std::streamoff(bytes));
    std::string text(static_cast<std::size_t>(size - from), '\0');
    file.seekg(from);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file) return std::nullopt;
    return text;
}

}  // namespace

std::optional<std::string> FilteredList::edited(const std::string& text, const Key& key) {
    std::optional<std::string> edited;
    switch (key.code) {
        case KeyCode::backspace:
            edited = text.substr(0, previous_character(text, text.size()));
            break;
        case KeyCode::erase_to_start:
        case KeyCode::erase_word: edited.emplace(); break;
        case KeyCode::text: edited = text + key.text; break;
        case KeyCode::paste: edited = text + key.text.substr(0, key.text.find('\n')); break;
        default: break;
    }
    if (edited && edited->size() > longest_filter) edited.reset();
    return edited;
}

bool FilteredList::press(const Key& key) {
    const auto page = static_cast<std::ptrdiff_t>(page_);
    // Less than the limit, so that a sum does not overflow.
    constexpr std::ptrdiff_t all = std::numeric_limits<std::ptrdiff_t>::max() / 2;
    switch (key.code) {
        case KeyCode::escape:
            if (filter_.empty()) return false;
            change_filter({});
            return true;
        case KeyCode::interrupt:
        case KeyCode::end_of_input: return false;
        case KeyCode::up: move(-1); return true;
        case KeyCode::down: move(1); return true;
        case KeyCode::page_up: move(-page); return true;
        case KeyCode::page_down: move(page); return true;
        case KeyCode::home: move(-all); return true;
        case KeyCode::end: move(all); return true;
        case KeyCode::enter: return pick();
        default: break;
    }
    if (std::optional<std::string> filter = edited(filter_, key)) change_filter(std::move(*filter));
    return true;
}

ListPicker::ListPicker(PickList list, Style style) : list_(std::move(list)), style_(style) {
    for (const PickList::Row& row : list_.rows) texts_.push_back(row.text);
    change_filter({});
    const auto current = std::find_if(list_.rows.begin(), list_.rows.end(),
                                      [](const PickList::Row& row) { return row.is_current; });
    if (current != list_.rows.end())
        marked_ = static_cast<std::size_t>(current - list_.rows.begin());
}

void ListPicker::change_filter(std::string filter) {
    filter_ = std::move(filter);
    shown_ = fuzzy_matches(filter_, texts_, texts_.size(), false);
    marked_ = top_ = 0;
}

void ListPicker::move(std::ptrdiff_t rows) {
    const std::ptrdiff_t last = shown_.empty() ? 0 : std::ssize(shown_) - 1;
    const std::ptrdiff_t next = static_cast<std::ptrdiff_t>(marked_) + rows;
    marked_ = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(next, 0, last));
}

bool ListPicker::pick() {
    if (shown_.empty()) return true;
    picked_ = shown_[marked_];
    return false;
}

std::vector<TerminalText> ListPicker::screen(std::size_t columns, std::size_t rows,
                                             TerminalView note) {
    const std::size_t width = columns > 4 ? columns - 3 : 1;
    std::vector<TerminalText> made;
    made.push_back(style_.bold() + line_for_terminal(visible(list_.heading), width + 2) +
                   style_.off());
    made.push_back(filter_.empty() ? "> " + style_.dim() + "type to search" + style_.off()
                                   : "> " + line_for_terminal(visible(filter_), width));
    if (rows > 8) made.emplace_back();
    page_ = rows > made.size() + 1 ? rows - made.size() - 1 : 1;
    if (marked_ < top_) top_ = marked_;
    if (marked_ >= top_ + page_) top_ = marked_ + 1 - page_;
    if (shown_.empty()) made.push_back(TerminalText("  Nothing has this text."));
    for (std::size_t i = top_; i < std::min(top_ + page_, shown_.size()); ++i) {
        const PickList::Row& row = list_.rows[shown_[i]];
        TerminalText text =
            i == marked_ ? style_.cyan() + "❯ " + style_.bold() : TerminalText("  ");
        const std::string note = row.is_current ? "current" : row.note;
        text += line_for_terminal(visible(row.text), note.empty() ? width : width * 3 / 4) +
                style_.off();
        if (!note.empty()) text += style_.dim() + "  " + line_for_terminal(visible(note), width);
        made.push_back(shortened(text, width + 2) + style_.off());
    }
    made.resize(rows > 1 ? rows - 1 : 1);
    TerminalText footer = note.empty() ? TerminalText() : note + TerminalView(" · ");
    footer += "Enter chooses · Esc ";
    footer += filter_.empty() ? TerminalView("closes") : TerminalView("clears");
    made.push_back(style_.dim() + shortened(footer, width + 2) + style_.off());
    return made;
}

void PagerItems::add(PagerItem item) {
    cut_beginning(item.text, max_bytes / 2);
    bytes_ += item.text.size();
    items_.push_back(std::move(item));
    while (bytes_ > max_bytes) {
        bytes_ -= items_.front().text.size();
        items_.pop_front();
    }
}

PagerItems PagerItems::whole() const {
    PagerItems whole;
    for (PagerItem item : items_) {
        if (const std::optional<std::string> text = file_end(item.file, max_bytes / 2 + 1))
            item.text = *text;
        whole.add(std::move(item));
    }
    return whole;
}

void PagerItems::clear() {
    items_.clear();
    bytes_ = 0;
}

Pager::Pager(const std::deque<PagerItem>& items, Style style, PagerStart start)
    : items_(items),
      style_(style),
      item_(items.empty() || start == PagerStart::first_item ? 0 : items.size() - 1) {
    std::size_t left = max_colored;
    const auto fits = [&](const PagerItem& item) {
        if (!item.is_diff) return true;
        if (item.text.size() > left) return false;
        left -= item.text.size();
        return true;
    };
    if (start == PagerStart::first_item) {
        while (colored_end_ < items_.size() && fits(items_[colored_end_])) ++colored_end_;
    } else {
        colored_begin_ = colored_end_ = items_.size();
        while (colored_begin_ > 0 && fits(items_[colored_begin_ - 1])) --colored_begin_;
    }
}

void Pager::lay_out(std::size_t columns) {
    if (columns_ == columns) return;
    columns_ = columns;
    rows_.clear();
    begins_.clear();
    for (const PagerItem& item : items_) {
        if (!rows_.empty()) rows_.emplace_back();
        begins_.push_back(rows_.size());
        rows_.push_back(
            shortened(style_.bold() + item.title + style_.off(), columns > 1 ? columns - 1 : 1));
        if (item.is_diff) {
            const bool is_colored =
                begins_.size() > colored_begin_ && begins_.size() <= colored_end_;
            const DiffSource source{item.text, is_colored ? item.path : std::string_view(), 0};
            const TerminalText diff = diff_view(source, style_, 0).text;
            std::string_view text = diff.str();
            while (!text.empty()) {
                const std::size_t end = std::min(text.find('\n'), text.size());
                add_framed(rows_, TerminalText::assembled(std::string(text.substr(0, end))),
                           columns, Frame{{}, "      ┊ "});
                text.remove_prefix(std::min(end + 1, text.size()));
            }
        } else {
            const bool wraps = item.is_prose && item.text.size() <= max_wrapped;
            add_text(rows_, wraps ? wrapped(item.text, columns > 4 ? columns - 3 : 1) : item.text,
                     columns);
        }
    }
    top_ = begins_.empty() ? 0 : begins_[std::min(item_, begins_.size() - 1)];
}

std::size_t Pager::last_top() const { return rows_.size() > page_ ? rows_.size() - page_ : 0; }

std::size_t Pager::current_item() const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), top_);
    return after == begins_.begin() ? 0 : static_cast<std::size_t>(after - begins_.begin()) - 1;
}

void Pager::scroll_to(std::size_t row) {
    top_ = std::min(row, last_top());
    item_ = current_item();
}

bool Pager::press(const Key& key) {
    not_found_ = false;
    if (searching_) return press_in_search(key);
    const std::size_t half = std::max<std::size_t>(page_ > 1 ? page_ - 1 : 1, 1);
    const auto up = [this](std::size_t rows) { scroll_to(top_ > rows ? top_ - rows : 0); };
    const auto go = [this](std::size_t item) {
        if (item >= begins_.size()) return;
        scroll_to(begins_[item]);
        item_ = item;  // also if the screen cannot begin with it
    };
    switch (key.code) {
        case KeyCode::escape:
        case KeyCode::interrupt:
        case KeyCode::end_of_input:
        case KeyCode::unfold: return false;
        case KeyCode::up: up(1); return true;
        case KeyCode::down:
        case KeyCode::enter: scroll_to(top_ + 1); return true;
        case KeyCode::page_up: up(half); return true;
        case KeyCode::page_down: scroll_to(top_ + half); return true;
        case KeyCode::home: scroll_to(0); return true;
        case KeyCode::end: scroll_to(rows_.size()); return true;
        case KeyCode::left: {
            // The beginning of this item, or the item before.
            const bool inside = item_ < begins_.size() && top_ > begins_[item_];
            go(inside || item_ == 0 ? item_ : item_ - 1);
            return true;
        }
        case KeyCode::right: go(item_ + 1); return true;
        case KeyCode::text: break;
        default: return true;
    }
    if (key.text == "q") return false;
    if (key.text == "k") up(1);
    if (key.text == "j") scroll_to(top_ + 1);
    if (key.text == "b") up(half);
    if (key.text == " " || key.text == "f") scroll_to(top_ + half);
    if (key.text == "g") scroll_to(0);
    if (key.text == "G") scroll_to(rows_.size());
    if (key.text == "n") find_next();
    if (key.text == "/") {
        searching_ = true;
        pattern_.clear();
    }
    return true;
}

bool Pager::press_in_search(const Key& key) {
    switch (key.code) {
        case KeyCode::text:
        case KeyCode::paste: pattern_ += key.text; break;
        case KeyCode::backspace:
            pattern_.resize(previous_character(pattern_, pattern_.size()));
            break;
        case KeyCode::enter:
            searching_ = false;
            find_next();
            break;
        case KeyCode::escape:
        case KeyCode::interrupt:
        case KeyCode::cancel: searching_ = false; break;
        default: break;
    }
    return true;
}

/// Scrolls to the next row with the pattern after the first row of the screen, from the beginning after the end.
void Pager::find_next() {
    const std::string wanted = cubepi::detail::lower_case(pattern_);
    if (wanted.empty()) return;
    for (std::size_t i = 1; i <= rows_.size(); ++i) {
        const std::size_t row = (top_ + i) % rows_.size();
        if (cubepi::detail::lower_case(rows_[row].str()).find(wanted) == std::string::npos)
            continue;
        return scroll_to(row);
    }
    not_found_ = true;
}

TerminalText Pager::footer(std::size_t columns, TerminalView note) const {
    TerminalText text;
    if (searching_) {
        text = "/" + line_for_terminal(pattern_, columns > 2 ? columns - 2 : 1);
    } else {
        const std::size_t end = std::min(top_ + page_, rows_.size());
        text = TerminalText::number(item_ + 1) + " of " + TerminalText::number(items_.size()) +
               " · row " + TerminalText::number(end) + " of " + TerminalText::number(rows_.size());
        if (not_found_) text += " · not found";
        if (!note.empty()) text += TerminalView(" · ") + note;
        text += " · q closes · ←→ results · / search";
    }
    return style_.dim() + shortened(text, columns > 1 ? columns - 1 : 1) + style_.off();
}

std::vector<TerminalText> Pager::screen(std::size_t columns, std::size_t rows, TerminalView note) {
    page_ = rows > 1 ? rows - 1 : 1;
    lay_out(columns);
    top_ = std::min(top_, last_top());
    std::vector<TerminalText> shown;
    for (std::size_t i = top_; i < std::min(top_ + page_, rows_.size()); ++i)
        shown.push_back(rows_[i]);
    shown.resize(page_);
    shown.push_back(footer(columns, note));
    return shown;
}

}  // namespace cubepi::app
