#include "live_area.hpp"

#include <algorithm>
#include <utility>

#include "text_layout.hpp"

namespace cubepi::app {

namespace {

// Synchronized output: terminals that support it show the update at once.
constexpr std::string_view begin_update = "\x1b[?2026h\x1b[?25l";
constexpr std::string_view end_update = "\x1b[?25h\x1b[?2026l";
// Lets a slow terminal show keys between two parts of a long text.
constexpr std::size_t part_size = 16 * 1024;
// Long lines are handled in pieces, so that the work does not grow quadratically.
constexpr std::size_t piece_size = 2048;
constexpr std::size_t max_open_line = 16 * 1024;

std::string up(std::size_t rows) {
    return rows == 0 ? std::string() : "\x1b[" + std::to_string(rows) + "A";
}

std::size_t rows_of(std::string_view line, std::size_t columns) {
    return extent_of(line, columns).row + 1;
}

/// Bytes up to the end of the line, or of a part of limited length.
std::size_t piece_of(std::string_view text) {
    std::size_t end = std::min(text.find('\n'), text.size());
    if (end <= piece_size) return end;
    end = piece_size;
    while (end > piece_size - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return end;
}

bool has_style(std::string_view line) { return line.find('\x1b') != std::string_view::npos; }

}  // namespace

LiveArea::LiveArea(Write write, std::size_t columns, std::size_t rows)
    : write_(std::move(write)), columns_(columns), rows_(rows), drawn_columns_(columns) {}

void LiveArea::print(TerminalView safe, Flow flow) {
    std::string_view text = safe.str();
    flow_ = flow;
    while (!text.empty()) {
        const std::string_view piece = text.substr(0, piece_of(text));
        line_.text += piece;
        commit_rows();
        if (line_.text.size() > max_open_line) commit_high_line();
        text.remove_prefix(piece.size());
        if (!text.starts_with('\n')) continue;
        end_line();
        text.remove_prefix(1);
    }
}

void LiveArea::end_line() {
    printed_ += line_.text;
    printed_ += '\n';
    line_.text = style_at_end(line_.text);
    line_.indent.clear();
    line_.broken = false;
}

/// Full rows of prose no longer change.
void LiveArea::commit_rows() {
    if (flow_ != Flow::prose) return;
    take_full_rows(line_, columns_ - 1, printed_);
}

void LiveArea::show(Content content) { content_ = std::move(content); }

/// The part of the content that fits; the line of the cursor stays in view.
LiveArea::Content LiveArea::fitted() const {
    Content fit = content_;
    for (TerminalText& line : fit.lines) line = cut_to_width(line, columns_ - 1);
    const std::size_t max_rows = rows_ > 2 ? rows_ - 1 : 1;
    while (fit.lines.size() > max_rows) {
        if (fit.cursor_line + 1 < fit.lines.size() && fit.cursor_line < max_rows) {
            fit.lines.pop_back();
        } else {
            fit.lines.erase(fit.lines.begin());
            if (fit.cursor_line > 0) --fit.cursor_line;
        }
    }
    return fit;
}

/// A line that the terminal wraps may grow beyond the screen: its first rows are then permanent.
void LiveArea::commit_high_line() {
    const std::size_t max_rows =
        rows_ > content_.lines.size() + 3 ? rows_ - content_.lines.size() - 2 : 1;
    const std::size_t rows = rows_of(line_.text, columns_);
    if (rows <= max_rows) return;
    const std::size_t split = row_start(line_.text, columns_, rows - 1);
    const std::string head = line_.text.substr(0, split);
    printed_ += head + "\n";
    line_.text = style_at_end(head) + line_.text.substr(split);
}

/// Moves to the first row of the area and clears it with everything below. (A terminal like tmux saves the screen
/// when it is cleared from the first cell on.)
std::string LiveArea::erase() {
    if (!visible_) return {};
    std::size_t above = 0;
    for (std::size_t i = 0; i + 1 < drawn_.size(); ++i) above += rows_of(drawn_[i], drawn_columns_);
    if (!drawn_.empty()) above += drawn_column_ / drawn_columns_;
    visible_ = false;
    return up(above) +
           "\r\x1b[K\x1b"
           "7\x1b[1B\r\x1b[J\x1b"
           "8";
}

/// Takes the part of the printed text that is written now.
std::string LiveArea::take_printed() {
    std::string text;
    if (printed_.size() <= part_size) {
        text = std::exchange(printed_, {});
    } else {
        std::size_t end = printed_.rfind('\n', part_size);
        if (end == std::string::npos) end = printed_.find('\n');
        text = printed_.substr(0, end + 1);
        printed_ = style_at_end(text) + printed_.substr(end + 1);
    }
    if (has_style(text)) text += "\x1b[0m";
    return text;
}

bool LiveArea::open_line_shows() const {
    // The line cannot be shown while earlier text is pending.
    return printed_.empty() && !line_.text.empty() && display_width(line_.text) > 0;
}

std::string LiveArea::cursor_to(const Content& fit) const {
    std::string out = "\r";
    if (fit.cursor_column > 0) out += "\x1b[" + std::to_string(fit.cursor_column) + "C";
    return out;
}

/// Rewrites the lines that differ; returns false if more has changed.
bool LiveArea::draw_changes(const Content& fit) {
    if (!visible_ || !printed_.empty() || line_.text != drawn_open_line_ ||
        fit.lines.size() != drawn_content_.lines.size() ||
        fit.cursor_line != drawn_content_.cursor_line || drawn_columns_ != columns_)
        return false;
    std::string out(begin_update);
    std::size_t line = fit.cursor_line;
    const auto go_to = [&](std::size_t wanted) {
        if (wanted > line) out += "\x1b[" + std::to_string(wanted - line) + "B";
        if (wanted < line) out += up(line - wanted);
        line = wanted;
    };
    for (std::size_t i = 0; i < fit.lines.size(); ++i) {
        if (fit.lines[i] == drawn_content_.lines[i]) continue;
        go_to(i);
        out += "\r" + fit.lines[i].str() + "\x1b[K";
        if (i > fit.cursor_line) continue;
        const std::size_t shift = drawn_.size() - 1 - fit.cursor_line;
        drawn_[i + shift] = fit.lines[i].str();
    }
    go_to(fit.cursor_line);
    out += cursor_to(fit);
    drawn_column_ = fit.cursor_column;
    out += end_update;
    write(out);
    return true;
}

void LiveArea::draw() {
    commit_high_line();
    Content fit = fitted();
    if (visible_ && printed_.empty() && fit == drawn_content_ && line_.text == drawn_open_line_)
        return;
    if (!visible_ && printed_.empty() && fit.lines.empty() && !open_line_shows()) return;
    if (draw_changes(fit)) {
        drawn_content_ = std::move(fit);
        return;
    }
    std::string out(begin_update);
    out += erase();
    out += take_printed();
    drawn_.clear();
    drawn_columns_ = columns_;
    if (open_line_shows()) {
        out += line_.text;
        if (has_style(line_.text)) out += "\x1b[0m";
        if (!fit.lines.empty()) out += "\n";
        drawn_.push_back(line_.text);
        const Extent end = extent_of(line_.text, columns_);
        drawn_column_ = end.row * columns_ + std::min(end.column, columns_ - 1);
    }
    for (std::size_t i = 0; i < fit.lines.size(); ++i) {
        if (i > 0) out += "\n";
        out += fit.lines[i].str();
        if (i <= fit.cursor_line) drawn_.push_back(fit.lines[i].str());
    }
    if (!fit.lines.empty()) {
        out += up(fit.lines.size() - 1 - fit.cursor_line) + cursor_to(fit);
        drawn_column_ = fit.cursor_column;
    }
    out += end_update;
    visible_ = true;
    drawn_content_ = std::move(fit);
    drawn_open_line_ = line_.text;
    write(out);
}

void LiveArea::hide() {
    std::string out = erase();
    while (!printed_.empty()) out += take_printed();
    if (open_line_shows()) {
        out += line_.text;
        if (has_style(line_.text)) out += "\x1b[0m";
        out += "\n";
    }
    line_ = OpenLine();
    if (!out.empty()) write(out);
}

void LiveArea::resize(std::size_t columns, std::size_t rows, bool reflows) {
    columns_ = std::max<std::size_t>(columns, 10);
    rows_ = std::max<std::size_t>(rows, 2);
    // Rows that are wider than the new screen take several rows if the terminal rewraps them.
    if (reflows) drawn_columns_ = columns_;
    drawn_open_line_.clear();
    drawn_content_ = Content();
    commit_rows();
}

void LiveArea::forget() {
    visible_ = false;
    drawn_.clear();
}

}  // namespace cubepi::app
