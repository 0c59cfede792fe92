#include "prose_writer.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "text_layout.hpp"

namespace cubepi::app {

void take_full_rows(OpenLine& line, std::size_t columns, std::string& rows) {
    while (const std::optional<RowBreak> at = first_break(line.text, columns)) {
        if (!std::exchange(line.broken, true)) {
            line.indent = hanging_indent(line.text);
            if (line.indent.size() > columns / 2) line.indent.clear();
        }
        const std::string style = style_at_end(std::string_view(line.text).substr(0, at->next));
        rows += line.text.substr(0, at->end);
        if (!style.empty()) rows += "\x1b[0m";
        rows += '\n';
        line.text = style + line.indent + line.text.substr(at->next);
    }
}

TerminalText ProseWriter::add(TerminalView safe, Flow flow, std::size_t columns) {
    std::string_view text = safe.str();
    columns = std::max<std::size_t>(columns, 10);
    fit(columns);
    std::string out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        line_.text += text.substr(0, end);
        if (flow == Flow::prose) {
            std::string rows;
            take_full_rows(line_, columns - 1, rows);
            if (!rows.empty()) {
                out += std::string_view(rows).substr(written_);
                written_ = 0;
            }
        }
        if (end == text.size()) break;
        out += take_rest() + "\n";
        line_ = OpenLine{style_at_end(line_.text), {}, false};
        written_ = line_.text.size();
        text.remove_prefix(end + 1);
    }
    return TerminalText::assembled(out + take_ready(flow, columns));
}

TerminalText ProseWriter::finish() { return TerminalText::assembled(take_rest()); }

std::string ProseWriter::take_rest() {
    std::string rest = line_.text.substr(written_);
    written_ = line_.text.size();
    return rest;
}

/// The text up to the last place at which the row can end. The word after it may still grow.
std::string ProseWriter::take_ready(Flow flow, std::size_t columns) {
    std::size_t end = line_.text.size();
    const std::size_t complete = flow == Flow::prose ? last_break(line_.text) : end;
    // A word without a place to break is broken by the terminal once it is longer than a row.
    if (complete > 0 || display_width(line_.text) < columns) end = std::max(written_, complete);
    std::string ready = line_.text.substr(written_, end - written_);
    written_ = end;
    return ready;
}

/// A terminal that became narrower has rewrapped the written text. Further text is placed after its last row.
void ProseWriter::fit(std::size_t columns) {
    const std::string_view shown = std::string_view(line_.text).substr(0, written_);
    if (display_width(shown) < columns) return;
    const std::size_t column = std::min(extent_of(shown, columns).column, columns - 1);
    const std::string style = style_at_end(shown);
    // Stands for the characters of the terminal's row.
    const std::string row = std::string(column, 'x') + style;
    line_.text = row + line_.text.substr(written_);
    written_ = row.size();
}

}  // namespace cubepi::app
