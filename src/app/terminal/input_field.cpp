#include "input_field.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "event_text.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t max_undo = 200;
constexpr std::size_t max_undo_bytes = std::size_t{8} << 20;

bool in_word(char byte) {
    return static_cast<unsigned char>(byte) >= 0x80 ||
           std::isalnum(static_cast<unsigned char>(byte)) || byte == '_';
}

}  // namespace

void EditBuffer::set(std::string text) {
    text_ = std::move(text);
    cursor_ = text_.size();
    before_.clear();
    before_bytes_ = 0;
    after_.clear();
    typing_ = false;
    if (unit_) begin_unit();
}

void EditBuffer::replace(std::string text, std::size_t cursor) {
    save();
    typing_ = false;
    text_ = std::move(text);
    cursor_ = std::min(cursor, text_.size());
}

void EditBuffer::insert(std::string_view text) {
    text_.insert(cursor_, text);
    cursor_ += text.size();
}

void EditBuffer::move_to(std::size_t cursor) {
    cursor_ = std::min(cursor, text_.size());
    typing_ = false;
}

void EditBuffer::begin_unit() {
    unit_ = Saved{text_, cursor_};
    unit_saves_ = 0;
    typing_ = false;
}

void EditBuffer::end_unit() {
    if (!unit_) return;
    Saved begun = std::move(*unit_);
    unit_.reset();
    for (; unit_saves_ > 0 && !before_.empty(); --unit_saves_) {
        before_bytes_ -= before_.back().text.size();
        before_.pop_back();
    }
    if (begun.text != text_) push(std::move(begun));
    typing_ = false;
}

bool EditBuffer::redo() {
    if (after_.empty()) return false;
    Saved next = std::move(after_.back());
    after_.pop_back();
    std::vector<Saved> rest = std::exchange(after_, {});
    save();
    after_ = std::move(rest);
    text_ = std::move(next.text);
    cursor_ = next.cursor;
    typing_ = false;
    return true;
}

void EditBuffer::save() {
    Saved saved;
    saved.text = text_;
    saved.cursor = cursor_;
    push(std::move(saved));
}

void EditBuffer::push(Saved saved) {
    after_.clear();
    ++unit_saves_;
    before_bytes_ += saved.text.size();
    before_.push_back(std::move(saved));
    while (before_.size() > max_undo || (before_.size() > 1 && before_bytes_ > max_undo_bytes)) {
        before_bytes_ -= before_.front().text.size();
        before_.pop_front();
    }
}

void EditBuffer::undo() {
    if (before_.empty()) return;
    if (unit_saves_ > 0) --unit_saves_;
    after_.push_back(Saved{text_, cursor_});
    if (after_.size() > max_undo) after_.erase(after_.begin());
    text_ = std::move(before_.back().text);
    cursor_ = before_.back().cursor;
    before_bytes_ -= text_.size();
    before_.pop_back();
}

std::size_t EditBuffer::before(std::size_t at) const { return previous_character(text_, at); }

std::size_t EditBuffer::after(std::size_t at) const { return next_character(text_, at); }

std::size_t EditBuffer::word_before(std::size_t at) const {
    while (at > 0 && !in_word(text_[at - 1])) --at;
    while (at > 0 && in_word(text_[at - 1])) --at;
    return at;
}

std::size_t EditBuffer::word_after(std::size_t at) const {
    while (at < text_.size() && !in_word(text_[at])) ++at;
    while (at < text_.size() && in_word(text_[at])) ++at;
    return at;
}

std::size_t EditBuffer::line_start(std::size_t at) const {
    if (at == 0) return 0;
    const std::size_t feed = text_.rfind('\n', at - 1);
    return feed == std::string::npos ? 0 : feed + 1;
}

std::size_t EditBuffer::line_end(std::size_t at) const {
    return std::min(text_.find('\n', at), text_.size());
}

void EditBuffer::cut(std::size_t from, std::size_t to, bool keep) {
    if (keep && from < to) cut_ = text_.substr(from, to - from);
    text_.erase(from, to - from);
    cursor_ = from;
}

bool EditBuffer::move_line(bool up) {
    const std::size_t start = line_start(cursor_);
    const std::size_t column =
        display_width(std::string_view(text_).substr(start, cursor_ - start));
    std::size_t target = 0;
    if (up) {
        if (start == 0) return false;
        target = line_start(start - 1);
    } else {
        const std::size_t end = line_end(cursor_);
        if (end == text_.size()) return false;
        target = end + 1;
    }
    const std::size_t stop = line_end(target);
    std::size_t width = 0;
    for (cursor_ = target; cursor_ < stop; cursor_ = after(cursor_)) {
        width += display_width(std::string_view(text_).substr(cursor_, after(cursor_) - cursor_));
        if (width > column) break;
    }
    return true;
}

/// Applies a key that changes the text.
bool EditBuffer::edit(const Key& key) {
    switch (key.code) {
        case KeyCode::text:
        case KeyCode::paste: insert(key.text); return true;
        case KeyCode::new_line: insert("\n"); return true;
        case KeyCode::backspace: cut(before(cursor_), cursor_, false); return true;
        case KeyCode::erase: cut(cursor_, after(cursor_), false); return true;
        case KeyCode::erase_word: cut(word_before(cursor_), cursor_, true); return true;
        case KeyCode::erase_next_word: cut(cursor_, word_after(cursor_), true); return true;
        case KeyCode::erase_to_start: cut(line_start(cursor_), cursor_, true); return true;
        case KeyCode::erase_to_end: cut(cursor_, line_end(cursor_), true); return true;
        case KeyCode::yank: insert(std::string(cut_)); return true;
        default: return false;
    }
}

bool EditBuffer::apply(const Key& key) {
    const bool continues = typing_ && key.code == KeyCode::text && key.text != " ";
    typing_ = key.code == KeyCode::text;
    switch (key.code) {
        case KeyCode::undo: undo(); return true;
        case KeyCode::left: cursor_ = before(cursor_); return true;
        case KeyCode::right: cursor_ = after(cursor_); return true;
        case KeyCode::home: cursor_ = line_start(cursor_); return true;
        case KeyCode::end: cursor_ = line_end(cursor_); return true;
        case KeyCode::word_left: cursor_ = word_before(cursor_); return true;
        case KeyCode::word_right: cursor_ = word_after(cursor_); return true;
        case KeyCode::up: return move_line(true);
        case KeyCode::down: return move_line(false);
        default: break;
    }
    if (continues) return edit(key);
    const std::string text = text_;
    const std::size_t cursor = cursor_;
    if (!edit(key)) return false;
    if (text == text_) return true;
    // Undo restores the previous text.
    std::string changed = std::exchange(text_, text);
    const std::size_t moved = std::exchange(cursor_, cursor);
    save();
    text_ = std::move(changed);
    cursor_ = moved;
    return true;
}

namespace {

// A very long line is laid out from here on, not from its beginning.
constexpr std::size_t max_line_before = 32 * 1024;

/// The beginning of the layout: enough lines above the cursor to fill the field.
std::size_t window_begin(std::string_view text, std::size_t cursor, std::size_t max_rows) {
    std::size_t begin = cursor;
    for (std::size_t lines = 0; begin > 0 && cursor - begin < max_line_before; --begin) {
        if (text[begin - 1] == '\n' && ++lines > max_rows) return begin;
    }
    while (begin > 0 && begin < text.size() &&
           (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
        ++begin;
    return begin;
}

TerminalText lines_sign(std::string_view hidden, TerminalView where) {
    auto feeds = static_cast<std::size_t>(std::count(hidden.begin(), hidden.end(), '\n'));
    if (feeds > 0 && !hidden.ends_with('\n')) ++feeds;
    if (feeds == 0) return TerminalView("  …");
    return "  … " + TerminalText::number(feeds) +
           (feeds == 1 ? TerminalView(" line ") : TerminalView(" lines ")) + where;
}

/// A character with its accents and joiners, as the field shows it.
TerminalText shown_character(std::string_view cluster) {
    if (cluster == "\t") return TerminalView(" ");
    // Emoji and scripts keep their joiners; after other letters a joiner would be invisible.
    const bool own_script = static_cast<unsigned char>(cluster.front()) >= 0x80;
    const std::string_view first = cluster.substr(0, first_character(cluster).bytes);
    if (own_script && display_width(cluster) > 0 && printable(cluster) == cluster &&
        visible(first) == first)
        return for_terminal(cluster);
    return spelled_out(cluster);
}

class Layout {
public:
    Layout(const TerminalText& prompt, const EditBuffer& buffer, std::size_t columns,
           std::size_t max_rows)
        : text_(buffer.text()),
          cursor_(buffer.cursor()),
          usable_(columns > 12 ? columns - 1 : 11),
          max_rows_(std::max<std::size_t>(max_rows, 1)) {
        set_prompt(prompt);
    }

    FieldRows rows() {
        const std::size_t begin = window_begin(text_, cursor_, max_rows_);
        if (begin > 0) row_ = TerminalText::blanks(indent_);
        lay_out(begin);
        fit();
        return std::move(field_);
    }

private:
    void set_prompt(const TerminalText& prompt) {
        // Until it is longer, the text needs no row of its own.
        const std::size_t needed = std::min<std::size_t>(text_.size() + 1, 8);
        indent_ = display_width(prompt);
        row_ = prompt;
        if (indent_ + needed <= usable_) return;
        // The question has its own rows, of which a short text follows the last one. Its sign stays with its last word.
        constexpr std::string_view sign = " > ";
        constexpr std::string_view joined_sign = "\u00a0>";
        std::string rest(prompt.str());
        if (rest.ends_with(sign)) rest.replace(rest.size() - sign.size(), sign.size(), joined_sign);
        rest = wrapped(rest, needed < 8 ? usable_ - needed - 1 : usable_);
        if (rest.ends_with(joined_sign))
            rest.replace(rest.size() - joined_sign.size(), joined_sign.size(), " >");
        for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
            field_.rows.push_back(TerminalText::assembled(rest.substr(0, end)));
            begins_.push_back(0);
            rest.erase(0, end + 1);
        }
        const std::size_t end = rest.find_last_not_of(' ');
        rest.resize(end == std::string::npos ? 0 : end + 1);
        indent_ = display_width(rest) + 1;
        if (indent_ + needed <= usable_) {
            row_ = TerminalText::assembled(rest + " ");
            return;
        }
        if (rest.ends_with('>')) rest.pop_back();
        field_.rows.push_back(TerminalText::assembled(rest));
        begins_.push_back(0);
        row_ = TerminalView("> ");
        indent_ = 2;
    }

    void end_row(std::size_t next) {
        field_.rows.push_back(std::exchange(row_, TerminalText::blanks(indent_)));
        begins_.push_back(begin_of_row_);
        begin_of_row_ = next;
        column_ = indent_;
    }

    void lay_out(std::size_t at) {
        begin_of_row_ = at;
        column_ = indent_;
        std::size_t rows_below = 0;
        bool passed = false;
        while (at < text_.size() && rows_below <= max_rows_) {
            const std::size_t end = next_character(text_, at);
            const std::string_view cluster = std::string_view(text_).substr(at, end - at);
            const bool feed = cluster == "\n";
            const TerminalText shown = feed ? TerminalText() : shown_character(cluster);
            const std::size_t width = feed ? 0 : display_width(shown);
            if (!feed && column_ + width > usable_) {
                end_row(at);
                rows_below += passed ? 1 : 0;
            }
            if (at == cursor_) mark_cursor();
            passed = passed || at >= cursor_;
            if (feed) {
                end_row(end);
                rows_below += passed ? 1 : 0;
            } else {
                row_ += shown;
                column_ += width;
            }
            at = end;
        }
        if (cursor_ == text_.size()) mark_cursor();
        end_row(at);
    }

    void mark_cursor() {
        field_.cursor_row = field_.rows.size();
        field_.cursor_column = column_;
    }

    /// Reduces the field to the rows around the cursor, with signs for those above and below.
    void fit() {
        std::vector<TerminalText>& rows = field_.rows;
        if (rows.size() <= max_rows_) return;
        std::size_t first =
            field_.cursor_row >= max_rows_ / 2 ? field_.cursor_row - max_rows_ / 2 : 0;
        first = std::min(first, rows.size() - max_rows_);
        const std::size_t last = first + max_rows_;
        if (max_rows_ > 3 && last < rows.size() && field_.cursor_row + 1 < last)
            rows[last - 1] = lines_sign(std::string_view(text_).substr(begins_[last - 1]), "below");
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(last), rows.end());
        if (max_rows_ > 3 && first > 0 && field_.cursor_row > first)
            rows[first] = lines_sign(
                std::string_view(text_).substr(0, begins_[std::min(first + 1, last - 1)]), "above");
        rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first));
        field_.cursor_row -= first;
    }

    const std::string& text_;
    std::size_t cursor_;
    std::size_t usable_;
    std::size_t max_rows_;
    std::size_t indent_ = 0;
    TerminalText row_;
    std::size_t column_ = 0;
    std::size_t begin_of_row_ = 0;
    std::vector<std::size_t> begins_;  // where each row begins in the text
    FieldRows field_;
};

}  // namespace

FieldRows field_rows(const TerminalText& prompt, const EditBuffer& buffer, std::size_t columns,
                     std::size_t max_rows) {
    return Layout(prompt, buffer, columns, max_rows).rows();
}

namespace {

// Longer pastes are folded.
constexpr std::int64_t unfolded_lines = 10;
constexpr std::size_t unfolded_bytes = 4000;

}  // namespace

std::string PasteFolds::fold(const std::string& pasted) {
    const auto feeds = std::count(pasted.begin(), pasted.end(), '\n');
    const auto lines = feeds + (pasted.ends_with('\n') ? 0 : 1);
    if (lines <= unfolded_lines && pasted.size() <= unfolded_bytes) return pasted;
    const std::string size = lines > 1
                                 ? count_text(lines) + " lines"
                                 : count_text(static_cast<std::int64_t>(pasted.size())) + " bytes";
    std::string mark = "[pasted " + size + "]";
    for (int number = 2; texts_.contains(mark) && texts_[mark] != pasted; ++number)
        mark = "[pasted " + size + ", " + std::to_string(number) + "]";
    texts_[mark] = pasted;
    return mark;
}

std::string PasteFolds::unfold(const std::string& text) const {
    std::string whole;
    for (std::size_t at = 0; at < text.size();) {
        const auto here = std::find_if(texts_.begin(), texts_.end(), [&](const auto& fold) {
            return text.compare(at, fold.first.size(), fold.first) == 0;
        });
        whole += here == texts_.end() ? text.substr(at, 1) : here->second;
        at += here == texts_.end() ? 1 : here->first.size();
    }
    return whole;
}

}  // namespace cubepi::app
