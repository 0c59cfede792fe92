#include "markdown.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>

#include <cubepi/core/support/trimmed.hpp>

#include "code_view.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_link = 2000;
constexpr std::size_t longest_entity = 8;
constexpr std::size_t longest_code_line = 2000;  // that is held until it is complete

/// The characters that authors write as entities although they could write them as they are. Others stay as written.
std::optional<char> entity(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, char>, 8> known{{{"&amp", '&'},
                                                                      {"&lt", '<'},
                                                                      {"&gt", '>'},
                                                                      {"&quot", '"'},
                                                                      {"&apos", '\''},
                                                                      {"&#39", '\''},
                                                                      {"&#x27", '\''},
                                                                      {"&nbsp", ' '}}};
    for (const auto& [written, shown] : known) {
        if (written == name) return shown;
    }
    return std::nullopt;
}

bool is_word(char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return code >= 0x80 || std::isalnum(code);
}

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\n'; }

bool is_punctuation(char byte) { return std::ispunct(static_cast<unsigned char>(byte)) != 0; }

/// Returns whether a run of stars or underscores between these two characters can begin emphasis.
bool can_open(std::string_view run, char previous, char next) {
    if (is_blank(next)) return false;
    if (is_word(previous)) {
        // In scripts without spaces bold text begins after a letter.
        return run.front() == '*' && run.size() > 1 &&
               !std::isdigit(static_cast<unsigned char>(previous)) && is_word(next);
    }
    // "*.cpp" is a file name, "*/" the end of a comment.
    constexpr std::string_view opening = "\"'([`~$#@<\\*_&+-";
    return is_word(next) || opening.find(next) != std::string_view::npos;
}

bool can_close(std::string_view run, char previous, char next) {
    return !is_blank(previous) && (run.front() == '*' || !is_word(next));
}

}  // namespace

MarkdownInline::MarkdownInline(Style style, Write write)
    : style_(style), write_(std::move(write)) {}

void MarkdownInline::set_base(std::string base) {
    base_ = std::move(base);
    if (!base_.empty()) write_(base_);
}

void MarkdownInline::text(std::string_view shown) {
    if (shown.empty()) return;
    write_(shown);
    previous_ = shown.back();
}

void MarkdownInline::add(char byte) {
    if (!style_.color) return text(std::string_view(&byte, 1));
    add_plain(byte, true);
}

void MarkdownInline::add_plain(char byte, bool with_links) {
    if (!link_.empty() && hold_link(byte)) return;
    if (!entity_.empty() && hold_entity(byte)) return;
    if (byte == '`') {
        if (!run_.empty()) end_run(byte);
        if (std::exchange(escape_, false)) return text("`");
        ++ticks_;
        return;
    }
    if (ticks_ > 0) end_ticks();
    if (code_ > 0) return text(std::string_view(&byte, 1));
    if (std::exchange(escape_, false)) {
        if (!is_punctuation(byte)) text("\\");
        return text(std::string_view(&byte, 1));
    }
    const bool mark = byte == '*' || byte == '_' || byte == '~';
    if (mark && (run_.empty() || run_.front() == byte)) {
        run_ += byte;
        return;
    }
    if (!run_.empty()) end_run(byte);
    if (mark) {
        run_ += byte;
    } else if (byte == '\\') {
        escape_ = true;
    } else if (byte == '[' && with_links) {
        link_ = "[";
    } else if (byte == '&') {
        entity_ = "&";
    } else {
        text(std::string_view(&byte, 1));
    }
}

/// True while the text since the '&' may become an entity.
bool MarkdownInline::hold_entity(char byte) {
    const bool continues =
        (static_cast<unsigned char>(byte) < 0x80 && is_word(byte)) || byte == '#';
    if (continues && entity_.size() < longest_entity) {
        entity_ += byte;
        return true;
    }
    const std::string held = std::exchange(entity_, {});
    const std::optional<char> shown = byte == ';' ? entity(held) : std::nullopt;
    text(shown ? std::string(1, *shown) : held);
    return shown.has_value();
}

/// True while the text since the '[' may become a link.
bool MarkdownInline::hold_link(char byte) {
    const std::size_t close = link_.find("](");
    if (close != std::string::npos && byte == ')') {
        const std::string held = std::exchange(link_, {});
        show_link(std::string_view(held).substr(1, close - 1),
                  std::string_view(held).substr(close + 2));
        return true;
    }
    const bool closed = link_.size() > 1 && link_.back() == ']' && close == std::string::npos;
    const bool over = (closed && byte != '(') || link_.size() > longest_link ||
                      (close == std::string::npos && byte == '[');
    if (!over) {
        link_ += byte;
        return true;
    }
    flush_link();
    return false;
}

void MarkdownInline::show_link(std::string_view label, std::string_view address) {
    for (const char byte : label) add_plain(byte, false);
    text(std::exchange(entity_, {}));
    if (ticks_ > 0) end_ticks();
    if (!run_.empty()) end_run(' ');
    address = address.substr(0, address.find(' '));
    if (address == label || address.empty()) return;
    write_(style_.dim().str());
    text(" (");
    text(address);
    text(")");
    restyle();
}

/// Handles text that did not become a link.
void MarkdownInline::flush_link() {
    const std::string held = std::exchange(link_, {});
    for (const char byte : held) add_plain(byte, false);
}

void MarkdownInline::end_run(char next) {
    const std::string run = std::exchange(run_, {});
    if (run.front() == '~') {
        const bool can = struck_ ? can_close(run, previous_, next) : can_open(run, previous_, next);
        if (run.size() != 2 || !can) return text(run);
        struck_ = !struck_;
        return restyle();
    }
    const bool bold = run.size() >= 2;
    const bool italic = run.size() % 2 == 1;
    const bool on = (!bold || bold_) && (!italic || italic_);
    const bool off = (!bold || !bold_) && (!italic || !italic_);
    // Two underscores are more often part of a name (__init__) than a mark for bold.
    const bool known = run.size() <= (run.front() == '_' ? 1 : 3);
    if (known && on && can_close(run, previous_, next)) {
        bold_ = bold_ && !bold;
        italic_ = italic_ && !italic;
    } else if (known && off && can_open(run, previous_, next)) {
        bold_ = bold_ || bold;
        italic_ = italic_ || italic;
    } else {
        return text(run);
    }
    restyle();
}

void MarkdownInline::end_ticks() {
    const std::size_t count = std::exchange(ticks_, 0);
    if (code_ == 0) {
        code_ = count;
    } else if (code_ == count) {
        code_ = 0;
    } else {
        return text(std::string(count, '`'));
    }
    previous_ = '`';
    restyle();
}

void MarkdownInline::restyle() {
    std::string styles(style_.off().str());
    styles += base_;
    if (bold_) styles += style_.bold().str();
    if (italic_) styles += style_.italic().str();
    if (struck_) styles += style_.struck().str();
    if (code_ > 0) styles += style_.cyan().str();
    write_(styles);
}

void MarkdownInline::finish() {
    if (!link_.empty()) flush_link();
    text(std::exchange(entity_, {}));
    if (ticks_ > 0) end_ticks();
    if (!run_.empty()) end_run('\n');
    if (std::exchange(escape_, false)) text("\\");
    if (styled()) write_(style_.off().str());
    base_.clear();
    bold_ = italic_ = struck_ = false;
    code_ = 0;
    previous_ = ' ';
}

namespace {

/// `text` as a line with its styles.
std::string markdown_line(const Style& style, std::string_view text, std::string base = {}) {
    std::string line;
    MarkdownInline inside(style, [&](std::string_view piece) { line += piece; });
    inside.set_base(std::move(base));
    for (const char byte : text) inside.add(byte);
    inside.finish();
    return line;
}

// Tables.

constexpr std::size_t gap = 2;
constexpr std::size_t narrowest = 8;

enum class Side : std::uint8_t { left, middle, right };

constexpr std::string_view cell_blanks = " \t";

/// The cells of a row; a '|' inside of code or after a backslash belongs to a cell.
std::vector<std::string> cells_of(std::string_view row) {
    std::string text(detail::trimmed(row, cell_blanks));
    if (text.starts_with('|')) text.erase(0, 1);
    if (text.ends_with('|') && !text.ends_with("\\|")) text.pop_back();
    std::vector<std::string> cells;
    std::string cell;
    bool code = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i == text.size() || (text[i] == '|' && !code)) {
            cells.emplace_back(detail::trimmed(cell, cell_blanks));
            cell.clear();
        } else if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '|') {
            cell += text[++i];
        } else {
            // A backtick without its counterpart opens nothing.
            if (text[i] == '`') code = !code && text.find('`', i + 1) != std::string::npos;
            cell += text[i];
        }
    }
    return cells;
}

Side side_of(const std::string& cell) {
    if (!cell.ends_with(':')) return Side::left;
    return cell.starts_with(':') ? Side::middle : Side::right;
}

/// The lines of a cell (separated by <br>), with styles.
std::vector<std::string> lines_of(std::string cell, const Style& style, const std::string& base) {
    std::vector<std::string> lines;
    for (;;) {
        const std::size_t at = cell.find("<br");
        const std::size_t end = at == std::string::npos ? at : cell.find('>', at);
        lines.push_back(markdown_line(
            style,
            detail::trimmed(std::string_view(cell).substr(0, end == std::string::npos ? end : at),
                            cell_blanks),
            base));
        if (end == std::string::npos) return lines;
        cell.erase(0, end + 1);
    }
}

/// The number of rows of `line` in a cell of this width.
std::vector<std::string> rows_of(std::string line, std::size_t width) {
    std::vector<std::string> rows;
    for (;;) {
        if (display_width(line) <= width) break;
        std::optional<RowBreak> at = first_break(line, width);
        if (!at || display_width(std::string_view(line).substr(0, at->end)) > width) {
            // The word is too long.
            const std::size_t cut = row_start(line, width, 1);
            at = RowBreak{cut, cut};
        }
        const std::string head = line.substr(0, at->end);
        const std::string styles = style_at_end(std::string_view(line).substr(0, at->next));
        rows.push_back(styles.empty() ? head : head + "\x1b[0m");
        line = styles + line.substr(at->next);
    }
    rows.push_back(std::move(line));
    return rows;
}

std::string padded(const std::string& text, std::size_t width, Side side) {
    const std::size_t taken = display_width(text);
    const std::size_t blanks = width > taken ? width - taken : 0;
    const std::size_t before = side == Side::left ? 0 : side == Side::right ? blanks : blanks / 2;
    return std::string(before, ' ') + text + std::string(blanks - before, ' ');
}

using Cell = std::vector<std::string>;

struct Table {
    std::vector<Side> sides = {};
    std::vector<std::vector<Cell>> rows = {};  // the first one is the head
    std::vector<std::size_t> widths = {};
};

Table read(const std::vector<std::string>& lines, const Style& style) {
    Table table;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        std::vector<std::string> cells = cells_of(lines[i]);
        if (i == 1) {
            for (const std::string& cell : cells) table.sides.push_back(side_of(cell));
            continue;
        }
        if (i == 0) table.widths.resize(cells.size());
        // Surplus cells are dropped, as in other Markdown renderers.
        cells.resize(table.widths.size());
        std::vector<Cell> row;
        for (std::size_t c = 0; c < cells.size(); ++c) {
            row.push_back(lines_of(std::move(cells[c]), style,
                                   i == 0 ? std::string(style.bold().str()) : std::string()));
            for (const std::string& line : row.back())
                table.widths[c] = std::max(table.widths[c], display_width(line));
        }
        table.rows.push_back(std::move(row));
    }
    table.sides.resize(table.widths.size());
    return table;
}

std::size_t total(const std::vector<std::size_t>& widths, std::size_t most) {
    std::size_t sum = widths.empty() ? 0 : gap * (widths.size() - 1);
    for (const std::size_t width : widths) sum += std::min(width, most);
    return sum;
}

std::string as_list(const Table& table, std::size_t columns) {
    std::string out;
    for (std::size_t r = 1; r < table.rows.size(); ++r) {
        if (r > 1) out += "\n";
        for (std::size_t c = 0; c < table.widths.size(); ++c) {
            std::string line = c == 0 ? "• " : "  ";
            for (const std::string& part : table.rows[0][c]) line += part;
            line += ":";
            for (const std::string& part : table.rows[r][c]) line += " " + part;
            const std::vector<std::string> rows = rows_of(line, columns - 4);
            for (std::size_t i = 0; i < rows.size(); ++i)
                out += (i > 0 ? "    " : "") + rows[i] + "\n";
        }
    }
    return out;
}

std::string as_grid(const Table& table, const Style& style) {
    std::string out;
    std::size_t all = 0;
    for (const std::size_t width : table.widths) all += width + gap;
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
        std::vector<std::vector<std::string>> cells;
        std::size_t height = 1;
        for (std::size_t c = 0; c < table.widths.size(); ++c) {
            std::vector<std::string> rows;
            for (const std::string& line : table.rows[r][c]) {
                for (std::string& row : rows_of(line, table.widths[c]))
                    rows.push_back(std::move(row));
            }
            height = std::max(height, rows.size());
            cells.push_back(std::move(rows));
        }
        for (std::size_t i = 0; i < height; ++i) {
            std::string line;
            for (std::size_t c = 0; c < cells.size(); ++c) {
                const std::string part = i < cells[c].size() ? cells[c][i] : std::string();
                // A cell of several rows is read from the left.
                const Side side = cells[c].size() > 1 ? Side::left : table.sides[c];
                line += padded(part, table.widths[c], side) + std::string(gap, ' ');
            }
            line.erase(line.find_last_not_of(' ') + 1);
            out += line + "\n";
        }
        if (r > 0) continue;
        out += style.dim().str();
        for (std::size_t i = gap; i < all; ++i) out += "─";
        out += std::string(style.off().str()) + "\n";
    }
    return out;
}

/// True if `line` is the second one of a table: dashes and colons for the alignment of columns.
bool is_table_rule(std::string_view line) {
    const std::vector<std::string> cells = cells_of(line);
    return std::all_of(cells.begin(), cells.end(), [](const std::string& cell) {
        return cell.find('-') != std::string::npos &&
               cell.find_first_not_of("-:") == std::string::npos;
    });
}

/// Lays out a table for a terminal of `columns` columns, from its source lines (the rule second). Cells that do not
/// fit are wrapped; if columns become too narrow, each row becomes a list. Ends with a line feed.
std::string table_text(const std::vector<std::string>& lines, const Style& style,
                       std::size_t columns) {
    Table table = read(lines, style);
    columns = std::max<std::size_t>(columns, 10);
    if (total(table.widths, columns) > columns) {
        std::size_t most = columns;
        while (most > narrowest && total(table.widths, most) > columns) --most;
        if (total(table.widths, most) > columns && table.rows.size() > 1)
            return as_list(table, columns);
        // Columns that need more get the remainder of the rounding.
        std::size_t left = columns - total(table.widths, most);
        for (std::size_t& width : table.widths) {
            const std::size_t more = width > most ? std::min(left, width - most) : 0;
            width = std::min(width, most + more);
            left -= more;
        }
    }
    return as_grid(table, style);
}

// The kinds of lines.

std::size_t count_front(std::string_view text, char wanted) {
    return std::min(text.find_first_not_of(wanted), text.size());
}

std::string_view without_indent(std::string_view line) {
    return line.substr(count_front(line, ' '));
}

/// The backticks or tildes at the beginning, if they are enough for a fence.
std::string fence_of(std::string_view line) {
    const std::string_view rest = without_indent(line);
    if (rest.empty() || (rest.front() != '`' && rest.front() != '~')) return {};
    const std::size_t count = count_front(rest, rest.front());
    if (count < 3) return {};
    // Further backticks mean code inside of a line.
    if (rest.front() == '`' && rest.find('`', count) != std::string_view::npos) return {};
    return std::string(count, rest.front());
}

/// Three or more of '-', '*' or '_', alone on a line.
bool is_rule(std::string_view line) {
    std::size_t count = 0;
    char mark = 0;
    for (const char byte : line) {
        if (byte == ' ') continue;
        if ((byte != '-' && byte != '*' && byte != '_') || (mark != 0 && byte != mark))
            return false;
        mark = byte;
        ++count;
    }
    return count >= 3;
}

bool may_be_rule(std::string_view line) {
    const char mark = line.front();
    return (mark == '-' || mark == '*' || mark == '_') &&
           std::all_of(line.begin(), line.end(),
                       [mark](char byte) { return byte == mark || byte == ' '; });
}

/// True for the beginning of "- [x] ".
bool may_be_task(std::string_view line) {
    constexpr std::array<std::string_view, 6> places{"-*+", " ", "[", " xX", "]", " "};
    if (line.size() >= places.size()) return false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (places[i].find(line[i]) == std::string_view::npos) return false;
    }
    return true;
}

}  // namespace

MarkdownStream::MarkdownStream(Style style, Write write)
    : style_(style),
      write_(std::move(write)),
      inside_(style_, [this](std::string_view text) { out(text); }),
      columns_(static_cast<std::size_t>(std::max(style.columns, 10))) {}

void MarkdownStream::out(std::string_view text) {
    if (text.empty()) return;
    wrote_ = true;
    at_line_start_ = text.back() == '\n';
    write_(TerminalText::assembled(std::string(text)), flow_);
}

void MarkdownStream::add(std::string_view text) {
    std::string whole;
    splitter_.push(text, whole);
    take_all(whole);
}

/// Untrusted text, in whole characters: from here on it is safe, and only styles are added.
void MarkdownStream::take_all(std::string_view bytes) {
    const std::string clean = printable(bytes);
    if (!style_.terminal) return out(clean);
    for (const char byte : clean) take(byte);
}

void MarkdownStream::take(char byte) {
    if (byte == '\n') return end_line();
    if (line_known_) {
        if (!fence_.empty()) return out(std::string_view(&byte, 1));
        return inside_.add(byte);
    }
    start_ += byte;
    if (code_) {
        // The rest of the block has no colors, since the parser has to see all of it.
        if (start_.size() < longest_code_line) return;
        code_.reset();
        return begin_line();
    }
    if (!table_line_ && !undecided()) begin_line();
}

/// True if the kind of the line is not yet clear.
bool MarkdownStream::undecided() const {
    const std::string_view rest = without_indent(start_);
    if (rest.empty()) return start_.size() < 12;
    if (!fence_.empty()) return count_front(rest, fence_.front()) == rest.size();
    if (rest.front() == '`' || rest.front() == '~') {
        const std::size_t count = count_front(rest, rest.front());
        return count == rest.size() || count >= 3;
    }
    if (may_be_rule(rest)) return true;
    if (rest == "+") return true;
    if (may_be_task(rest)) return true;
    if (count_front(rest, '#') == rest.size()) return rest.size() < 7;
    return rest.size() < 4 && rest.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Shows the beginning of a line in the style of its kind.
void MarkdownStream::begin_line() {
    if (fence_.empty() && without_indent(start_).starts_with('|')) {
        table_line_ = true;
        return;
    }
    flush_table();
    line_known_ = true;
    const std::string start = std::exchange(start_, {});
    if (!fence_.empty()) {
        flow_ = Flow::code;
        out(style_.cyan().str());
        return out(start);
    }
    flow_ = Flow::prose;
    begin_prose(start);
}

void MarkdownStream::begin_prose(std::string_view start) {
    const std::size_t indent = count_front(start, ' ');
    const std::string_view rest = start.substr(indent);
    std::size_t from = 0;
    const std::size_t hashes = count_front(rest, '#');
    if (!style_.color) {
        // As it is written.
    } else if (hashes >= 1 && hashes <= 6 && hashes < rest.size() && rest[hashes] == ' ') {
        inside_.set_base(std::string(style_.bold().str()));
        from = indent + hashes + 1;
    } else if (rest.size() >= 2 && (rest[0] == '-' || rest[0] == '*' || rest[0] == '+') &&
               rest[1] == ' ') {
        out(start.substr(0, indent));
        const bool is_task = rest.size() > 5 && may_be_task(rest.substr(0, 5)) && rest[5] == ' ';
        out(!is_task ? "• " : rest[3] == ' ' ? "☐ " : "☑ ");
        from = indent + (is_task ? 6 : 2);
    } else if (rest.starts_with(">")) {
        inside_.set_base(std::string(style_.dim().str()));
        out("│");
        from = indent + 1;
    }
    for (const char byte : start.substr(from)) inside_.add(byte);
}

/// A line that opens or closes a code block.
bool MarkdownStream::take_fence() {
    if (line_known_) return false;
    const std::string fence = fence_of(start_);
    if (fence.empty()) return false;
    if (!fence_.empty() &&
        (fence.front() != fence_.front() || fence.size() < fence_.size() ||
         count_front(without_indent(start_), fence.front()) != without_indent(start_).size()))
        return false;
    flush_table();
    code_.reset();
    if (fence_.empty() && style_.color) {
        const CodeLanguage* const language =
            language_of_fence(without_indent(start_).substr(fence.size()));
        if (language) code_.emplace(*language);
    }
    fence_ = fence_.empty() ? fence : std::string();
    flow_ = Flow::code;
    out(style_.dim().str());
    out(std::exchange(start_, {}));
    out(style_.off().str());
    out("\n");
    return true;
}

/// Shows a complete line of code.
void MarkdownStream::show_code_line() {
    flow_ = Flow::code;
    const std::string line = std::exchange(start_, {}) + "\n";
    const TerminalText code = TerminalText::assembled(line);
    out(code_text(code, code_->add(line), style_).str());
}

void MarkdownStream::end_line() {
    if (table_line_) return add_table_line(std::exchange(start_, {}));
    if (take_fence()) return;
    if (code_) return show_code_line();
    if (!line_known_ && fence_.empty() && is_rule(start_)) {
        flush_table();
        start_.clear();
        flow_ = Flow::code;
        out(style_.dim().str());
        for (std::size_t i = 0; i < std::min<std::size_t>(columns_ - 1, 40); ++i) out("─");
        out(style_.off().str());
        return out("\n");
    }
    if (!line_known_) {
        begin_line();
        if (table_line_) return end_line();
    }
    inside_.finish();
    if (!fence_.empty()) out(style_.off().str());
    out("\n");
    line_known_ = false;
}

void MarkdownStream::add_table_line(std::string line) {
    table_line_ = false;
    table_.push_back(std::move(line));
    if (table_.size() == 2 && !is_table_rule(table_.back())) flush_table();
}

/// Shows pending lines as a table, or as plain lines if they are not one.
void MarkdownStream::flush_table() {
    if (table_.empty()) return;
    const std::vector<std::string> lines = std::exchange(table_, {});
    if (lines.size() > 1 && is_table_rule(lines[1])) {
        flow_ = Flow::code;
        return out(table_text(lines, style_, columns_ - 1));
    }
    flow_ = Flow::prose;
    for (const std::string& line : lines) out(markdown_line(style_, line) + "\n");
}

void MarkdownStream::finish() {
    std::string cut;
    splitter_.finish(cut);
    take_all(cut);
    if (table_line_) add_table_line(std::exchange(start_, {}));
    if (!start_.empty() && !take_fence()) {
        if (code_) {
            show_code_line();
        } else {
            begin_line();
            if (table_line_) return finish();
        }
    }
    code_.reset();
    flush_table();
    inside_.finish();
    if (!fence_.empty() && line_known_) out(style_.off().str());
    if (wrote_ && !at_line_start_) out("\n");
    fence_.clear();
    line_known_ = wrote_ = false;
    flow_ = Flow::prose;
}

}  // namespace cubepi::app
