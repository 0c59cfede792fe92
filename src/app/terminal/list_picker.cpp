#include "list_picker.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "event_text.hpp"
#include "popup.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_filter = 200;

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
        const std::string facts = row.is_current ? "current" : row.facts;
        text += line_for_terminal(visible(row.text), facts.empty() ? width : width * 3 / 4) +
                style_.off();
        if (!facts.empty()) text += style_.dim() + "  " + line_for_terminal(visible(facts), width);
        made.push_back(shortened(text, width + 2) + style_.off());
    }
    made.resize(rows > 1 ? rows - 1 : 1);
    TerminalText footer = note.empty() ? TerminalText() : note + TerminalView(" · ");
    footer += "Enter chooses · Esc ";
    footer += filter_.empty() ? TerminalView("closes") : TerminalView("clears");
    made.push_back(style_.dim() + shortened(footer, width + 2) + style_.off());
    return made;
}

}  // namespace cubepi::app
