#include "virtual_screen.hpp"

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <utility>

namespace cubepi::terminal_tests {

namespace {

std::size_t character_length(unsigned char first) {
    if (first < 0x80) return 1;
    if (first >= 0xF0) return 4;
    return first >= 0xE0 ? 3 : 2;
}

int width_of(std::string_view bytes) {
    const auto first = static_cast<unsigned char>(bytes.front());
    if (first < 0x80) return 1;
    unsigned value = first & (0xFFu >> (bytes.size() + 1));
    for (const char byte : bytes.substr(1))
        value = (value << 6) | (static_cast<unsigned char>(byte) & 0x3Fu);
    return wcwidth(static_cast<wchar_t>(value));
}

std::size_t number(std::string_view parameters, std::size_t otherwise) {
    const std::string text(parameters);
    const unsigned long value = std::strtoul(text.c_str(), nullptr, 10);
    return value == 0 ? otherwise : value;
}

}  // namespace

VirtualScreen::VirtualScreen(std::size_t columns, std::size_t rows)
    : columns_(columns), height_(rows), rows_(rows), continues_(rows) {
    std::setlocale(LC_CTYPE, "C.UTF-8");  // it goes by characters
}

void VirtualScreen::write(std::string_view bytes) {
    held_ += bytes;
    std::size_t at = 0;
    while (at < held_.size()) {
        const std::string_view rest = std::string_view(held_).substr(at);
        const auto first = static_cast<unsigned char>(rest.front());
        if (first == 0x1b) {
            if (rest.size() < 2) break;
            if (rest[1] != '[') {
                if (rest[1] == '7') {
                    saved_line_ = line_;
                    saved_column_ = column_;
                } else if (rest[1] == '8') {
                    line_ = std::min(saved_line_, height_ - 1);
                    column_ = std::min(saved_column_, columns_ - 1);
                    wrap_pending_ = false;
                }
                at += 2;
                continue;
            }
            std::size_t end = 2;
            while (end < rest.size() && (rest[end] < '@' || rest[end] > '~')) ++end;
            if (end == rest.size()) break;
            sequence(rest.substr(2, end - 2), rest[end]);
            at += end + 1;
        } else if (first < 0x20 || first == 0x7F) {
            control(rest.front());
            ++at;
        } else {
            const std::size_t length = character_length(first);
            if (rest.size() < length) break;
            put(rest.substr(0, length));
            at += length;
        }
    }
    held_.erase(0, at);
}

void VirtualScreen::line_feed() {
    if (line_ + 1 < height_) {
        ++line_;
    } else {
        rows_.emplace_back();
        continues_.push_back(false);
        ++top_;
    }
}

void VirtualScreen::control(char byte) {
    switch (byte) {
        case '\r':
            column_ = 0;
            wrap_pending_ = false;
            return;
        case '\n': wrap_pending_ = false; return line_feed();
        case '\b':
            if (column_ > 0) --column_;
            wrap_pending_ = false;
            return;
        case '\t': column_ = std::min(columns_ - 1, (column_ / 8 + 1) * 8); return;
        default: return;
    }
}

void VirtualScreen::put(std::string_view character) {
    const int width = width_of(character);
    if (width <= 0) {
        if (column_ > 0 && column_ <= row().size()) row()[column_ - 1] += character;
        return;
    }
    const auto wide = static_cast<std::size_t>(width);
    if (wrap_pending_ || column_ + wide > columns_) {
        column_ = 0;
        wrap_pending_ = false;
        continues_[top_ + line_] = true;
        line_feed();
    }
    continues_[top_ + line_] = false;
    if (row().size() < column_ + wide) row().resize(column_ + wide, " ");
    row()[column_] = character;
    for (std::size_t i = 1; i < wide; ++i) row()[column_ + i] = "\1";
    column_ += wide;
    if (column_ >= columns_) {
        column_ = columns_ - 1;
        wrap_pending_ = true;
    }
}

void VirtualScreen::use_alternate(bool alternate) {
    if (alternate == main_.has_value()) return;
    wrap_pending_ = false;
    if (alternate) {
        main_ = Saved{std::exchange(rows_, std::vector<Row>(height_)),
                      std::exchange(continues_, std::vector<bool>(height_)), top_, line_, column_};
        top_ = line_ = column_ = 0;
        return;
    }
    rows_ = std::move(main_->rows);
    continues_ = std::move(main_->continues);
    top_ = main_->top;
    line_ = main_->line;
    column_ = main_->column;
    main_.reset();
}

void VirtualScreen::sequence(std::string_view parameters, char final) {
    switch (final) {
        case 'A': line_ -= std::min(line_, number(parameters, 1)); break;
        case 'B': line_ = std::min(height_ - 1, line_ + number(parameters, 1)); break;
        case 'C': column_ = std::min(columns_ - 1, column_ + number(parameters, 1)); break;
        case 'D': column_ -= std::min(column_, number(parameters, 1)); break;
        case 'G': column_ = std::min(columns_ - 1, number(parameters, 1) - 1); break;
        case 'H':
            line_ = 0;
            column_ = 0;
            break;
        case 'J':
            if (parameters == "2") {
                for (std::size_t i = 0; i < height_; ++i) rows_[top_ + i].clear();
            } else {
                if (row().size() > column_) row().resize(column_);
                for (std::size_t i = line_ + 1; i < height_; ++i) rows_[top_ + i].clear();
            }
            break;
        case 'K':
            if (row().size() > column_) row().resize(column_);
            break;
        case 'h':
        case 'l':
            if (parameters == "?2026") updating_ = final == 'h';
            if (parameters == "?1049") use_alternate(final == 'h');
            return;
        default: return;
    }
    wrap_pending_ = false;
}

/// Joins the rows of a line and breaks it for another width; the cursor stays at its character.
void VirtualScreen::reflow(std::size_t columns) {
    std::vector<Row> rows;
    std::vector<bool> continues;
    const std::size_t cursor_row = top_ + line_;
    std::size_t new_row = 0;
    std::size_t new_column = 0;
    std::size_t last = rows_.size();
    while (last > cursor_row + 1 && rows_[last - 1].empty()) --last;
    for (std::size_t i = 0; i < last;) {
        Row line;
        std::size_t cursor = std::string::npos;
        for (bool more = true; more && i < last; ++i) {
            if (i == cursor_row) cursor = line.size() + column_ + (wrap_pending_ ? 1 : 0);
            line.insert(line.end(), rows_[i].begin(), rows_[i].end());
            more = continues_[i];
        }
        std::size_t at = 0;
        do {
            std::size_t end = std::min(at + columns, line.size());
            if (end < line.size() && line[end] == "\1") --end;
            const bool here = cursor != std::string::npos && cursor >= at &&
                              (cursor < at + columns || end == line.size());
            if (here) {
                new_row = rows.size();
                new_column = std::min(cursor - at, columns - 1);
                cursor = std::string::npos;
            }
            rows.emplace_back(line.begin() + static_cast<std::ptrdiff_t>(at),
                              line.begin() + static_cast<std::ptrdiff_t>(end));
            continues.push_back(end < line.size());
            at = end;
        } while (at < line.size());
    }
    rows_ = std::move(rows);
    continues_ = std::move(continues);
    top_ = rows_.size() > height_ ? rows_.size() - height_ : 0;
    rows_.resize(top_ + height_);
    continues_.resize(top_ + height_);
    top_ = std::min(top_, new_row);
    line_ = new_row - top_;
    column_ = new_column;
}

void VirtualScreen::resize(std::size_t columns, std::size_t rows, bool reflows) {
    if (reflows && columns != columns_) reflow(columns);
    columns_ = columns;
    column_ = std::min(column_, columns_ - 1);
    wrap_pending_ = false;
    const std::size_t off = line_ >= rows ? line_ - rows + 1 : 0;
    top_ += off;
    line_ -= off;
    rows_.resize(top_ + rows);
    continues_.resize(top_ + rows);
    height_ = rows;
}

std::string VirtualScreen::text_of(const Row& row) {
    std::string text;
    for (const std::string& cell : row) {
        if (cell != "\1") text += cell;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
}

std::string VirtualScreen::text() const {
    std::string all;
    for (const Row& row : rows_) all += text_of(row) + "\n";
    while (all.ends_with("\n\n")) all.pop_back();
    return all;
}

std::string VirtualScreen::unwrapped_text() const {
    std::string all;
    Row line;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        line.insert(line.end(), rows_[i].begin(), rows_[i].end());
        if (!continues_[i]) all += text_of(std::exchange(line, {})) + "\n";
    }
    return all;
}

std::string VirtualScreen::cursor_row() const { return text_of(rows_[top_ + line_]); }

std::vector<std::string> VirtualScreen::screen() const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < height_; ++i) lines.push_back(text_of(rows_[top_ + i]));
    return lines;
}

}  // namespace cubepi::terminal_tests
