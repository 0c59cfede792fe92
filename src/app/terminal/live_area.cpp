#include "live_area.hpp"

#include <algorithm>
#include <utility>

#include "text_width.hpp"

namespace cubepi::app {

namespace {

// The terminal shows what comes in between at once, where it can.
constexpr std::string_view begin_update = "\x1b[?2026h\x1b[?25l";
constexpr std::string_view end_update = "\x1b[?25h\x1b[?2026l";

std::string up(std::size_t rows) {
    return rows == 0 ? std::string() : "\x1b[" + std::to_string(rows) + "A";
}

std::size_t rows_of(std::string_view line, std::size_t columns) {
    return extent_of(line, columns).row + 1;
}

bool has_style(std::string_view line) { return line.find('\x1b') != std::string_view::npos; }

}  // namespace

LiveArea::LiveArea(Write write, std::size_t columns, std::size_t rows)
    : write_(std::move(write)), columns_(columns), rows_(rows) {}

void LiveArea::print(std::string_view text) {
    const std::size_t end = text.rfind('\n');
    if (end == std::string_view::npos) {
        open_line_ += text;
        return;
    }
    std::string complete = std::exchange(open_line_, {});
    complete += text.substr(0, end + 1);
    open_line_ = style_at_end(complete);
    open_line_ += text.substr(end + 1);
    printed_ += complete;
}

void LiveArea::show(Content content) { content_ = std::move(content); }

/// What of the content fits: the cursor's line stays in view.
LiveArea::Content LiveArea::fitted() const {
    Content fit = content_;
    for (std::string& line : fit.lines) line = cut_to_width(line, columns_ - 1);
    const std::size_t room = rows_ > 2 ? rows_ - 1 : 1;
    while (fit.lines.size() > room) {
        if (fit.cursor_line + 1 < fit.lines.size() && fit.cursor_line < room) {
            fit.lines.pop_back();
        } else {
            fit.lines.erase(fit.lines.begin());
            if (fit.cursor_line > 0) --fit.cursor_line;
        }
    }
    return fit;
}

/// An open line may grow beyond the screen: its first rows are written for good.
void LiveArea::commit_high_line() {
    const std::size_t room =
        rows_ > content_.lines.size() + 3 ? rows_ - content_.lines.size() - 2 : 1;
    const std::size_t rows = rows_of(open_line_, columns_);
    if (rows <= room) return;
    const std::size_t split = row_start(open_line_, columns_, rows - 1);
    const std::string head = open_line_.substr(0, split);
    printed_ += head + "\n";
    open_line_ = style_at_end(head) + open_line_.substr(split);
}

std::string LiveArea::erase() {
    if (!visible_) return {};
    std::size_t above = 0;
    for (std::size_t i = 0; i + 1 < drawn_.size(); ++i) above += rows_of(drawn_[i], columns_);
    if (!drawn_.empty()) above += drawn_column_ / columns_;
    visible_ = false;
    return up(above) + "\r\x1b[J";
}

void LiveArea::draw() {
    commit_high_line();
    Content fit = fitted();
    if (visible_ && printed_.empty() && fit == drawn_content_ && open_line_ == drawn_open_line_)
        return;
    std::string out(begin_update);
    out += erase();
    if (has_style(printed_)) printed_ += "\x1b[0m";
    out += std::exchange(printed_, {});
    drawn_.clear();
    if (!open_line_.empty() && display_width(open_line_) > 0) {
        out += open_line_;
        if (has_style(open_line_)) out += "\x1b[0m";
        if (!fit.lines.empty()) out += "\n";
        drawn_.push_back(open_line_);
        const Extent end = extent_of(open_line_, columns_);
        drawn_column_ = end.row * columns_ + std::min(end.column, columns_ - 1);
    }
    for (std::size_t i = 0; i < fit.lines.size(); ++i) {
        if (i > 0) out += "\n";
        out += fit.lines[i];
        if (i <= fit.cursor_line) drawn_.push_back(fit.lines[i]);
    }
    if (!fit.lines.empty()) {
        out += up(fit.lines.size() - 1 - fit.cursor_line) + "\r";
        if (fit.cursor_column > 0) out += "\x1b[" + std::to_string(fit.cursor_column) + "C";
        drawn_column_ = fit.cursor_column;
    }
    out += end_update;
    visible_ = true;
    drawn_content_ = std::move(fit);
    drawn_open_line_ = open_line_;
    write_(out);
}

void LiveArea::hide() {
    std::string out = erase();
    out += std::exchange(printed_, {});
    if (!open_line_.empty() && display_width(open_line_) > 0) {
        out += std::exchange(open_line_, {});
        out += "\n";
    }
    open_line_.clear();
    if (!out.empty()) write_(out);
}

void LiveArea::resize(std::size_t columns, std::size_t rows) {
    columns_ = std::max<std::size_t>(columns, 10);
    rows_ = std::max<std::size_t>(rows, 2);
    drawn_open_line_.clear();
    drawn_content_ = Content();
}

void LiveArea::forget() {
    visible_ = false;
    drawn_.clear();
}

}  // namespace cubepi::app
