#include "markdown.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "markdown_table.hpp"

namespace cubepi::app {

namespace {

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
        out("• ");
        from = indent + 2;
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
    fence_ = fence_.empty() ? fence : std::string();
    flow_ = Flow::code;
    out(style_.dim().str());
    out(std::exchange(start_, {}));
    out(style_.off().str());
    out("\n");
    return true;
}

void MarkdownStream::end_line() {
    if (table_line_) return add_table_line(std::exchange(start_, {}));
    if (take_fence()) return;
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
        begin_line();
        if (table_line_) return finish();
    }
    flush_table();
    inside_.finish();
    if (!fence_.empty() && line_known_) out(style_.off().str());
    if (wrote_ && !at_line_start_) out("\n");
    fence_.clear();
    line_known_ = wrote_ = false;
    flow_ = Flow::prose;
}

}  // namespace cubepi::app
