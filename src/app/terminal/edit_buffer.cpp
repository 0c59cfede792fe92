#include "edit_buffer.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "text_width.hpp"

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
    typing_ = false;
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

void EditBuffer::save() {
    Saved saved;
    saved.text = text_;
    saved.cursor = cursor_;
    before_bytes_ += text_.size();
    before_.push_back(std::move(saved));
    while (before_.size() > max_undo || (before_.size() > 1 && before_bytes_ > max_undo_bytes)) {
        before_bytes_ -= before_.front().text.size();
        before_.pop_front();
    }
}

void EditBuffer::undo() {
    if (before_.empty()) return;
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

}  // namespace cubepi::app
