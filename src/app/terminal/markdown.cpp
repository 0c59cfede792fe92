#include "markdown.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace cubepi::app {

namespace {

std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

std::string trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

std::vector<std::string> cells_of(std::string_view row) {
    std::string text = trimmed(row);
    if (!text.empty() && text.front() == '|') text.erase(0, 1);
    if (!text.empty() && text.back() == '|') text.pop_back();
    std::vector<std::string> cells;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i == text.size() || (text[i] == '|' && (i == 0 || text[i - 1] != '\\'))) {
            cells.push_back(trimmed(std::string_view(text).substr(begin, i - begin)));
            begin = i + 1;
        }
    }
    return cells;
}

bool is_rule_row(const std::vector<std::string>& cells) {
    return std::all_of(cells.begin(), cells.end(), [](const std::string& cell) {
        return !cell.empty() && cell.find_first_not_of("-: ") == std::string::npos;
    });
}

/// More of the line is needed to tell what it is.
bool undecided(std::string_view start) {
    const std::size_t text = start.find_first_not_of(' ');
    if (text == std::string_view::npos) return start.size() < 12;
    const std::string_view rest = start.substr(text);
    if (rest == "-" || rest == "*" || rest == "+" || rest == "`" || rest == "``") return true;
    if (rest.find_first_not_of('#') == std::string_view::npos) return rest.size() < 7;
    return rest.size() < 4 && rest.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

MarkdownStream::MarkdownStream(Style style, Write write)
    : style_(style), write_(std::move(write)) {}

void MarkdownStream::out(std::string_view text) {
    if (text.empty()) return;
    wrote_ = true;
    at_line_start_ = text.back() == '\n';
    write_(text);
}

void MarkdownStream::add(std::string_view text) {
    const std::string clean = printable(text);
    if (!style_.color) return out(clean);
    for (const char byte : clean) take(byte);
}

void MarkdownStream::take(char byte) {
    if (byte == '\n') return end_line();
    if (in_table_ || !line_known_) {
        start_ += byte;
        if (!in_table_ && !undecided(start_)) begin_line();
        return;
    }
    if (in_code_block_) return out(std::string_view(&byte, 1));
    inline_byte(byte);
}

/// The kind of the line is clear: shows its beginning in its style.
void MarkdownStream::begin_line() {
    line_known_ = true;
    const std::string start = std::exchange(start_, {});
    const std::size_t indent = std::min(start.find_first_not_of(' '), start.size());
    const std::string_view rest = std::string_view(start).substr(indent);
    if (rest.starts_with("```")) {
        in_code_block_ = !in_code_block_;
        out(style_.dim());
        return out(start);
    }
    if (in_code_block_) {
        out(style_.cyan());
        return out(start);
    }
    if (rest.starts_with("|")) {
        in_table_ = true;
        line_known_ = false;
        start_ = start;
        return;
    }
    const std::size_t hashes = std::min(rest.find_first_not_of('#'), rest.size());
    if (hashes >= 1 && hashes <= 6 && hashes < rest.size() && rest[hashes] == ' ') {
        heading_ = true;
        out(style_.bold());
        for (const char byte : rest.substr(hashes + 1)) inline_byte(byte);
        return;
    }
    std::size_t from = 0;
    if (rest.size() >= 2 && (rest[0] == '-' || rest[0] == '*' || rest[0] == '+') &&
        rest[1] == ' ') {
        out(start.substr(0, indent));
        out("• ");
        from = indent + 2;
    } else if (rest.starts_with(">")) {
        quote_ = true;
        out(style_.dim());
        out("│");
        from = indent + 1;
    }
    for (const char byte : std::string_view(start).substr(from)) inline_byte(byte);
}

void MarkdownStream::inline_byte(char byte) {
    const bool mark = byte == '*' || byte == '_' || byte == '`';
    if (mark && (marks_.empty() || marks_.back() == byte) && marks_.size() < 2 &&
        (byte == '`' || !code_)) {
        marks_ += byte;
        if (byte == '`') flush_marks();
        return;
    }
    const char next = byte;
    if (!marks_.empty()) {
        // Underscores inside words and stars between blanks are text.
        const bool inside_word = marks_[0] == '_' &&
                                 std::isalnum(static_cast<unsigned char>(previous_)) &&
                                 std::isalnum(static_cast<unsigned char>(next));
        const bool between = previous_ == ' ' && next == ' ';
        if (inside_word || between) {
            out(std::exchange(marks_, {}));
        } else {
            flush_marks();
        }
        if (mark) return inline_byte(byte);
    }
    out(std::string_view(&byte, 1));
    previous_ = byte;
}

void MarkdownStream::flush_marks() {
    if (marks_.empty()) return;
    if (marks_[0] == '`') {
        code_ = !code_;
    } else if (marks_.size() == 2) {
        bold_ = !bold_;
    } else {
        italic_ = !italic_;
    }
    marks_.clear();
    restyle();
}

void MarkdownStream::restyle() {
    out(style_.off());
    if (heading_ || bold_) out(style_.bold());
    if (quote_) out(style_.dim());
    if (italic_) out(style_.italic());
    if (code_) out(style_.cyan());
}

void MarkdownStream::end_line() {
    if (in_table_) {
        if (!trimmed(start_).starts_with("|")) {
            show_table();
            in_table_ = false;
            begin_line();
        } else {
            table_.push_back(std::exchange(start_, {}));
            return;
        }
    } else if (!line_known_) {
        begin_line();
        if (in_table_) return end_line();
    }
    flush_marks();
    const bool styled =
        heading_ || quote_ || bold_ || italic_ || code_ || in_code_block_ || line_known_;
    heading_ = quote_ = bold_ = italic_ = code_ = false;
    if (styled) out(style_.off());
    out("\n");
    line_known_ = false;
    previous_ = ' ';
}

void MarkdownStream::show_table() {
    std::vector<std::vector<std::string>> rows;
    std::vector<std::size_t> widths;
    for (const std::string& line : table_) {
        std::vector<std::string> cells = cells_of(line);
        if (is_rule_row(cells)) continue;
        if (cells.size() > widths.size()) widths.resize(cells.size());
        for (std::size_t i = 0; i < cells.size(); ++i)
            widths[i] = std::max(widths[i], width_of(cells[i]));
        rows.push_back(std::move(cells));
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
        std::string line;
        for (std::size_t i = 0; i < rows[r].size(); ++i) {
            line += rows[r][i] + std::string(widths[i] - width_of(rows[r][i]) + 2, ' ');
        }
        if (r == 0) out(style_.bold());
        out(line);
        if (r == 0) out(style_.off());
        out("\n");
    }
    table_.clear();
}

void MarkdownStream::finish() {
    if (in_table_) {
        if (!start_.empty()) table_.push_back(std::exchange(start_, {}));
        show_table();
        in_table_ = false;
    } else if (!start_.empty()) {
        begin_line();
        if (in_table_) return finish();
    }
    flush_marks();
    if (in_code_block_ || heading_ || bold_ || italic_ || code_ || quote_) out(style_.off());
    heading_ = quote_ = bold_ = italic_ = code_ = in_code_block_ = line_known_ = false;
    if (wrote_ && !at_line_start_) out("\n");
    wrote_ = false;
}

}  // namespace cubepi::app
