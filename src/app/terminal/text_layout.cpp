#include "text_layout.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <utf8proc.h>

namespace cubepi::app {

namespace {

/// Terminals show the emoji and ideographs that a later version of Unicode assigns as wide.
bool will_be_wide(char32_t character) {
    return (character >= 0x1FA70 && character <= 0x1FAFF) ||
           (character >= 0x20000 && character <= 0x3FFFD);
}

/// Columns of a character at a terminal: 0 for those that join the previous one (combining marks, joiners, selectors, vowels
/// and finals of Hangul), 2 for wide ones. Uses Unicode's tables instead of the locale, as terminals do.
std::size_t character_width(char32_t character) {
    if (character < 0x300) return 1;
    if (character >= 0x1160 && character <= 0x11FF) return 0;
    const auto code = static_cast<utf8proc_int32_t>(character);
    const utf8proc_property_t* property = utf8proc_get_property(code);
    switch (property->category) {
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_ME: return 0;
        // A few format characters are signs before a number.
        case UTF8PROC_CATEGORY_CF:
            return property->boundclass == UTF8PROC_BOUNDCLASS_PREPEND ? 1 : 0;
        // utf8proc counts spacing marks as joining; terminals give them a column.
        default: return utf8proc_charwidth(code) == 2 || will_be_wide(character) ? 2 : 1;
    }
}

struct Piece {
    std::size_t bytes = 0;
    std::size_t width = 0;
    char32_t code = 0;
    bool tab = false;
    bool style = false;  // an escape sequence that ends in 'm'
};

std::size_t escape_length(std::string_view text) {
    if (text.size() < 2) return text.size();
    if (text[1] != '[') return 2;
    std::size_t end = 2;
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return std::min(end + 1, text.size());
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// The next character or escape sequence of `text`, which is not empty.
Piece next_piece(std::string_view text) {
    Piece piece;
    if (text.front() == '\x1b') {
        piece.bytes = escape_length(text);
        piece.style = text[piece.bytes - 1] == 'm';
        return piece;
    }
    if (text.front() == '\t') {
        piece.bytes = 1;
        piece.tab = true;
        return piece;
    }
    const FirstCharacter character = first_character(text);
    piece.bytes = character.bytes;
    piece.code = character.code;
    piece.width = character_width(character.code);
    return piece;
}

void advance(Extent& at, const Piece& piece, std::size_t columns) {
    if (piece.tab) {
        at.column = std::min(columns - 1, (at.column / 8 + 1) * 8);
        return;
    }
    if (piece.width == 0) return;
    if (at.column + piece.width > columns) {
        ++at.row;
        at.column = 0;
    }
    at.column += piece.width;
}

constexpr char32_t joiner = 0x200D;

/// Characters that do not begin a row.
bool closes(char32_t code) {
    constexpr std::u32string_view closing =
        U"\u3001\u3002\uFF0C\uFF0E\uFF01\uFF1F\uFF1A\uFF1B\uFF09\u300D\u300F\u3011\u300B\u3009"
        U"\u30FC";
    return closing.find(code) != std::u32string_view::npos;
}

/// The first break of `line`; `last` becomes the last place to break that was seen.
std::optional<RowBreak> find_break(std::string_view line, std::size_t columns,
                                   std::optional<RowBreak>& last) {
    columns = std::max<std::size_t>(columns, 2);
    Extent at;
    bool text = false;  // after the indent
    bool joined = false;
    std::size_t offset = 0;
    while (offset < line.size()) {
        const Piece piece = next_piece(line.substr(offset));
        const bool blank = line[offset] == ' ' || piece.tab;
        const bool break_before = text && !joined && piece.width == 2 && !closes(piece.code);
        if (break_before && !(last && last->next == offset)) last = RowBreak{offset, offset};
        if (!blank && piece.width > 0 && at.column + piece.width > columns && last) return last;
        if (blank && text) {
            const std::size_t end =
                last && last->next == offset && last->end < offset ? last->end : offset;
            last = RowBreak{end, offset + piece.bytes};
        }
        if (piece.tab) {
            at.column = (at.column / 8 + 1) * 8;
        } else {
            at.column += piece.width;
        }
        if (piece.width > 0) text = text || !blank;
        if (piece.width > 0 || piece.code == joiner) joined = piece.code == joiner;
        offset += piece.bytes;
        // The text after a wide character may start the next row.
        if (piece.width == 2 && offset < line.size() && line[offset] != ' ') {
            const Piece next = next_piece(line.substr(offset));
            if (next.width > 0 && !closes(next.code)) last = RowBreak{offset, offset};
        }
    }
    return std::nullopt;
}

constexpr std::size_t narrowest = 12;

/// Replaces tabs by spaces: the width of a tab depends on the column, which the frame moves.
std::string without_tabs(const std::string& line) {
    std::string text;
    for (const char c : line) text += c == '\t' ? std::string(4, ' ') : std::string(1, c);
    return text;
}

}  // namespace

std::size_t display_width(const TerminalText& line) { return display_width(line.str()); }

TerminalText cut_to_width(const TerminalText& line, std::size_t columns) {
    return TerminalText::assembled(cut_to_width(line.str(), columns));
}

TerminalText shortened(const TerminalText& line, std::size_t columns) {
    return TerminalText::assembled(shortened(line.str(), columns));
}

std::size_t display_width(std::string_view line) {
    return extent_of(line, std::size_t{1} << 30).column;
}

Extent extent_of(std::string_view line, std::size_t columns) {
    Extent at;
    columns = std::max<std::size_t>(columns, 2);
    while (!line.empty()) {
        const Piece piece = next_piece(line);
        advance(at, piece, columns);
        line.remove_prefix(piece.bytes);
    }
    return at;
}

std::size_t row_start(std::string_view line, std::size_t columns, std::size_t row) {
    Extent at;
    columns = std::max<std::size_t>(columns, 2);
    std::size_t offset = 0;
    while (offset < line.size()) {
        const Piece piece = next_piece(line.substr(offset));
        advance(at, piece, columns);
        if (at.row >= row && row > 0) return offset;
        offset += piece.bytes;
    }
    return row == 0 ? 0 : line.size();
}

std::string cut_to_width(std::string_view line, std::size_t columns) {
    std::string cut;
    std::size_t width = 0;
    while (!line.empty()) {
        const Piece piece = next_piece(line);
        const std::size_t wide = piece.tab ? 1 : piece.width;
        const bool escape = line.front() == '\x1b';
        if (escape || width + wide <= columns) cut += piece.tab ? " " : line.substr(0, piece.bytes);
        width += wide;
        line.remove_prefix(piece.bytes);
    }
    return cut;
}

std::string shortened(std::string_view line, std::size_t columns) {
    if (display_width(line) <= columns) return std::string(line);
    if (columns == 0) return {};
    // The sign is placed before the escape sequences that end the styles of the line.
    std::string cut = cut_to_width(line, columns - 1);
    std::size_t end = cut.size();
    for (std::size_t at = cut.rfind('\x1b');
         at != std::string::npos && at + escape_length(std::string_view(cut).substr(at)) == end;
         at = at == 0 ? std::string::npos : cut.rfind('\x1b', at - 1))
        end = at;
    return cut.insert(end, "…");
}

TerminalText shortened_at_front(const TerminalText& line, std::size_t columns) {
    if (display_width(line) <= columns) return line;
    std::string_view end = line.str();
    while (!end.empty() && display_width(end) + 1 > columns)
        end.remove_prefix(next_character(end, 0));
    return TerminalText::assembled("…" + std::string(end));
}

std::optional<RowBreak> first_break(std::string_view line, std::size_t columns) {
    std::optional<RowBreak> last;
    return find_break(line, columns, last);
}

std::size_t last_break(std::string_view line) {
    std::optional<RowBreak> last;
    (void)find_break(line, std::size_t{1} << 30, last);
    return last ? last->end : 0;
}

std::string hanging_indent(std::string_view line) {
    std::string plain;
    for (std::size_t at = 0; at < line.size() && plain.size() < 40;) {
        const Piece piece = next_piece(line.substr(at));
        if (line[at] != '\x1b') plain += line.substr(at, piece.bytes);
        at += piece.bytes;
    }
    const std::size_t blanks = std::min(plain.find_first_not_of(' '), plain.size());
    const std::string_view rest = std::string_view(plain).substr(blanks);
    for (const std::string_view mark : {"• ", "- ", "* ", "> ", "● ", "✓ ", "✗ ", "? "}) {
        if (rest.starts_with(mark)) return std::string(blanks + 2, ' ');
    }
    if (rest.starts_with("│")) return std::string(blanks, ' ') + "│ ";
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const std::string_view behind = rest.substr(digits);
    if (digits > 0 && digits < 4 && (behind.starts_with(". ") || behind.starts_with(") ")))
        return std::string(blanks + digits + 2, ' ');
    return std::string(blanks, ' ');
}

std::string wrapped(std::string_view text, std::size_t columns) {
    std::string all;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string line(text.substr(0, end));
        std::string indent = hanging_indent(line);
        if (indent.size() > columns / 2) indent.clear();
        while (const std::optional<RowBreak> at = first_break(line, columns)) {
            all += line.substr(0, at->end) + "\n";
            line = indent + line.substr(at->next);
        }
        all += line;
        if (end < text.size()) all += "\n";
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return all;
}

std::size_t next_character(std::string_view text, std::size_t at) {
    if (at >= text.size()) return text.size();
    if (text[at] == '\n') return at + 1;
    FirstCharacter character = first_character(text.substr(at));
    at += character.bytes;
    while (at < text.size()) {
        const FirstCharacter next = first_character(text.substr(at));
        const bool joins = next.code >= 0x300 && character_width(next.code) == 0;
        if (!joins && character.code != joiner) break;
        character = next;
        at += next.bytes;
    }
    return at;
}

std::size_t previous_character(std::string_view text, std::size_t at) {
    const auto back = [&](std::size_t from) {
        --from;
        while (from > 0 && continues(text[from])) --from;
        return from;
    };
    if (at == 0) return 0;
    at = back(at);
    while (at > 0) {
        const FirstCharacter here = first_character(text.substr(at));
        const std::size_t before = back(at);
        const bool joins = here.code >= 0x300 && character_width(here.code) == 0;
        if (!joins && first_character(text.substr(before)).code != joiner) break;
        if (text[before] == '\n') break;
        at = before;
    }
    return at;
}

std::string style_at_end(std::string_view text, std::string before) {
    while (!text.empty()) {
        const Piece piece = next_piece(text);
        if (piece.style) {
            const std::string_view sequence = text.substr(0, piece.bytes);
            if (sequence == "\x1b[0m" || sequence == "\x1b[m") {
                before.clear();
            } else {
                before += sequence;
            }
        }
        text.remove_prefix(piece.bytes);
    }
    return before;
}

void add_framed(std::vector<TerminalText>& rows, const TerminalText& line, std::size_t columns,
                Frame frame) {
    std::string rest = without_tabs(line.str());
    TerminalView prefix = frame.first;
    for (;;) {
        const std::size_t taken = display_width(prefix.str()) + 1;
        const std::size_t width = columns > taken + narrowest ? columns - taken : narrowest;
        const std::size_t end = row_start(rest, width, 1);
        const std::string row = rest.substr(0, end);
        const std::string styles = style_at_end(row);
        rows.push_back(prefix + TerminalText::assembled(styles.empty() ? row : row + "\x1b[0m"));
        if (end >= rest.size()) return;
        rest = styles + rest.substr(end);
        prefix = frame.next;
    }
}

void add_framed_lines(std::vector<TerminalText>& rows, std::string_view text, std::size_t columns,
                      Frame frame, TerminalView style, TerminalView off) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        add_framed(rows, style + spelled_out(text.substr(at, end - at)) + off, columns, frame);
        at = end + 1;
    }
}

TerminalText framed(std::string_view text, std::size_t columns, Frame frame) {
    std::vector<TerminalText> rows;
    add_framed_lines(rows, text, columns, frame);
    TerminalText all;
    for (const TerminalText& row : rows) all += row + "\n";
    return all;
}

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
