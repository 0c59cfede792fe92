#include <bub/channel/telegram_text.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/shared/message_text.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

namespace {

/// The formats of one piece of text. `code` and `pre` exclude the others.
struct TextStyle {
    bool bold = false;
    bool italic = false;
    bool strike = false;
    bool code = false;
    std::size_t link = 0;   ///< index + 1 of the link; 0: none
    std::size_t quote = 0;  ///< number of the quote; 0: none
    std::size_t pre = 0;    ///< index + 1 of the code block; 0: none
};

/// A text that is built piece by piece, each with its formats.
class StyledText {
public:
    void add(std::string_view text, const TextStyle& style);
    std::size_t add_link(std::string url);
    std::size_t add_pre(std::string language);
    /// Derives the entities from the styles.
    FormattedText finish() &&;

private:
    struct Piece {
        std::size_t offset;
        std::size_t length;
        TextStyle style;
    };
    template <class Key>
    void collect(std::vector<Entity>& all, const char* type, Key key) const;

    std::string text_;
    std::size_t units_ = 0;
    std::vector<Piece> pieces_;
    std::vector<std::string> links_;
    std::vector<std::string> languages_;
};

/// Returns which UTF-16 units of the text are white space.
std::vector<bool> blank_units(std::string_view text) {
    std::vector<bool> blank;
    blank.reserve(text.size());
    for (const char byte : text) {
        const auto code = static_cast<unsigned char>(byte);
        if ((code & 0xC0) == 0x80) continue;
        blank.push_back(byte == ' ' || byte == '\n' || byte == '\t');
        if (code >= 0xF0) blank.push_back(false);
    }
    return blank;
}

void trim(Entity& entity, const std::vector<bool>& blank) {
    std::size_t end = std::min(entity.offset + entity.length, blank.size());
    while (entity.offset < end && blank[entity.offset]) ++entity.offset;
    while (end > entity.offset && blank[end - 1]) --end;
    entity.length = end - entity.offset;
}

/// The order of entities that cover the same characters.
std::size_t rank_of(const Entity& entity) {
    constexpr std::string_view order = "blockquote pre text_link bold italic strikethrough code";
    return order.find(entity.type);
}

bool outer_first(const Entity& a, const Entity& b) {
    if (a.offset != b.offset) return a.offset < b.offset;
    if (a.length != b.length) return a.length > b.length;
    return rank_of(a) < rank_of(b);
}

/// Divides the entities that overlap others partially, so that each is inside or outside of the others.
std::vector<Entity> nested(std::vector<Entity> entities) {
    std::sort(entities.begin(), entities.end(), outer_first);
    std::vector<Entity> done;
    std::vector<std::size_t> open;  // ends of the entities around the current one
    for (std::size_t i = 0; i < entities.size(); ++i) {
        Entity entity = std::move(entities[i]);
        while (!open.empty() && open.back() <= entity.offset) open.pop_back();
        const std::size_t end = entity.offset + entity.length;
        if (!open.empty() && open.back() < end) {
            Entity tail = entity;
            tail.offset = open.back();
            tail.length = end - tail.offset;
            entity.length = open.back() - entity.offset;
            const auto from = entities.begin() + static_cast<std::ptrdiff_t>(i) + 1;
            const auto place = std::upper_bound(from, entities.end(), tail, outer_first);
            entities.insert(place, std::move(tail));
        }
        open.push_back(entity.offset + entity.length);
        done.push_back(std::move(entity));
    }
    return done;
}

/// Makes entities valid: removes white space at their ends and empty ones, divides those that overlap partially, and sorts
/// them.
std::vector<Entity> valid_entities(std::string_view text, std::vector<Entity> entities) {
    const std::vector<bool> blank = blank_units(text);
    for (Entity& entity : entities) trim(entity, blank);
    entities = nested(std::move(entities));
    // A division may have left white space at an end.
    for (Entity& entity : entities) trim(entity, blank);
    std::erase_if(entities, [](const Entity& entity) { return entity.length == 0; });
    std::sort(entities.begin(), entities.end(), outer_first);
    return entities;
}

}  // namespace

std::size_t utf16_length(std::string_view text) noexcept { return shared::utf16_length(text); }

void StyledText::add(std::string_view text, const TextStyle& style) {
    if (text.empty()) return;
    const std::size_t length = utf16_length(text);
    text_ += text;
    pieces_.push_back({units_, length, style});
    units_ += length;
}

std::size_t StyledText::add_link(std::string url) {
    links_.push_back(std::move(url));
    return links_.size();
}

std::size_t StyledText::add_pre(std::string language) {
    languages_.push_back(std::move(language));
    return languages_.size();
}

/// Adds an entity for each run of pieces with the same key; 0 is "not formatted".
template <class Key>
void StyledText::collect(std::vector<Entity>& all, const char* type, Key key) const {
    std::size_t last = 0;
    for (const Piece& piece : pieces_) {
        const std::size_t value = key(piece.style);
        if (value != 0 && value == last) {
            all.back().length += piece.length;
        } else if (value != 0) {
            Entity entity;
            entity.type = type;
            entity.offset = piece.offset;
            entity.length = piece.length;
            if (piece.style.pre) entity.language = languages_[piece.style.pre - 1];
            if (std::string_view(type) == "text_link") entity.url = links_[value - 1];
            all.push_back(std::move(entity));
        }
        last = value;
    }
}

FormattedText StyledText::finish() && {
    std::vector<Entity> all;
    const auto free = [](const TextStyle& style) { return !style.code && style.pre == 0; };
    collect(all, "blockquote",
            [](const TextStyle& style) { return style.pre == 0 ? style.quote : 0; });
    collect(all, "pre", [](const TextStyle& style) { return style.pre; });
    collect(all, "text_link", [&](const TextStyle& style) { return free(style) ? style.link : 0; });
    collect(all, "bold",
            [&](const TextStyle& style) -> std::size_t { return free(style) && style.bold; });
    collect(all, "italic",
            [&](const TextStyle& style) -> std::size_t { return free(style) && style.italic; });
    collect(all, "strikethrough",
            [&](const TextStyle& style) -> std::size_t { return free(style) && style.strike; });
    collect(all, "code",
            [](const TextStyle& style) -> std::size_t { return style.code && style.pre == 0; });
    FormattedText formatted;
    formatted.entities = valid_entities(text_, std::move(all));
    formatted.text = std::move(text_);
    return formatted;
}

cubepi::JsonArray to_json(const std::vector<Entity>& entities) {
    cubepi::JsonArray all;
    for (const Entity& entity : entities) {
        cubepi::JsonObject one;
        one["type"] = entity.type;
        one["offset"] = entity.offset;
        one["length"] = entity.length;
        if (!entity.language.empty()) one["language"] = entity.language;
        if (!entity.url.empty()) one["url"] = entity.url;
        all.push_back(std::move(one));
    }
    return all;
}

std::vector<FormattedText> split_text(const FormattedText& text, std::size_t limit) {
    std::vector<shared::TextSpan> spans;
    for (const Entity& entity : text.entities)
        spans.push_back({entity.offset, entity.length, entity.type == "pre"});
    std::vector<FormattedText> parts;
    for (const shared::TextPart& one : shared::split_text(text.text, limit, spans)) {
        FormattedText& part = parts.emplace_back();
        part.text = one.text;
        std::vector<Entity> entities;
        for (Entity entity : text.entities) {
            const std::size_t first = std::max(entity.offset, one.offset);
            const std::size_t past =
                std::min(entity.offset + entity.length, one.offset + one.length);
            if (first >= past) continue;
            entity.offset = first - one.offset;
            entity.length = past - first;
            entities.push_back(std::move(entity));
        }
        part.entities = valid_entities(part.text, std::move(entities));
    }
    return parts;
}

namespace {

using cubepi::detail::trimmed;

constexpr std::size_t longest_link = 2048;

bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }
bool is_word(char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return code >= 0x80 || std::isalnum(code);
}

std::size_t run_length(std::string_view text, std::size_t at) {
    const std::size_t end = text.find_first_not_of(text[at], at);
    return (end == text.npos ? text.size() : end) - at;
}

bool is_address(std::string_view text) {
    for (const std::string_view scheme : {"http://", "https://", "tg://", "mailto:"}) {
        if (text.starts_with(scheme) && text.size() > scheme.size())
            return text.find_first_of(" \t<>\"") == text.npos;
    }
    return false;
}

/// The reader of one line, or of the part of it between two marks.
class LineReader {
public:
    LineReader(StyledText& out, std::string_view text, TextStyle style)
        : out_(out), text_(text), style_(style) {}

    void read() {
        while (at_ < text_.size()) {
            if (!take_mark()) ++at_;
        }
        flush(at_);
    }

private:
    bool take_mark() {
        switch (text_[at_]) {
            case '\\': return take_escape();
            case '`': return take_code();
            case '*':
            case '_':
            case '~': return take_emphasis();
            case '!':
            case '[': return take_link();
            case '<': return take_autolink();
            default: return false;
        }
    }

    void flush(std::size_t end) {
        out_.add(text_.substr(from_, end - from_), style_);
        from_ = end;
    }
    void skip_to(std::size_t position) { from_ = at_ = position; }

    bool take_escape() {
        if (at_ + 1 >= text_.size() || !std::ispunct(static_cast<unsigned char>(text_[at_ + 1])))
            return false;
        flush(at_);
        from_ = at_ + 1;
        at_ += 2;
        return true;
    }

    bool take_code() {
        const std::size_t ticks = run_length(text_, at_);
        const std::size_t close = find_ticks(at_ + ticks, ticks);
        if (close == text_.npos) {
            at_ += ticks;
            return true;
        }
        flush(at_);
        std::string_view code = text_.substr(at_ + ticks, close - at_ - ticks);
        if (code.size() > 2 && code.front() == ' ' && code.back() == ' ')
            code = code.substr(1, code.size() - 2);
        TextStyle style = style_;
        style.code = true;
        out_.add(code, style);
        skip_to(close + ticks);
        return true;
    }

    std::size_t find_ticks(std::size_t from, std::size_t ticks) {
        if (unclosed_ticks_.contains(ticks)) return text_.npos;
        for (std::size_t at = text_.find('`', from); at != text_.npos;) {
            const std::size_t length = run_length(text_, at);
            if (length == ticks) return at;
            at = text_.find('`', at + length);
        }
        unclosed_ticks_.insert(ticks);
        return text_.npos;
    }

    bool take_emphasis() {
        const char mark = text_[at_];
        const std::size_t length = run_length(text_, at_);
        TextStyle style = style_;
        if (!apply(style, mark, length) || !can_open(length)) {
            at_ += length;
            return true;
        }
        const std::size_t close = find_close(at_ + length, mark, length);
        if (close == text_.npos) {
            at_ += length;
            return true;
        }
        flush(at_);
        LineReader(out_, text_.substr(at_ + length, close - at_ - length), style).read();
        skip_to(close + length);
        return true;
    }

    /// Sets the formats of a run of marks. Returns false if the run is not a mark, or its format is set already.
    static bool apply(TextStyle& style, char mark, std::size_t length) {
        if (mark == '~') {
            if (length != 2 || style.strike) return false;
            style.strike = true;
            return true;
        }
        if (length > (mark == '_' ? 2U : 3U)) return false;
        const bool bold = length >= 2;
        const bool italic = length % 2 == 1;
        if ((bold && style.bold) || (italic && style.italic)) return style.bold && bold && !italic;
        style.bold = style.bold || bold;
        style.italic = style.italic || italic;
        return true;
    }

    bool can_open(std::size_t length) const {
        const std::size_t next = at_ + length;
        if (next >= text_.size() || is_blank(text_[next])) return false;
        const bool inside_word = at_ > 0 && is_word(text_[at_ - 1]);
        if (text_[at_] == '_')
            return !inside_word && (length < 2 || at_ == 0 || text_[at_ - 1] != '.');
        return !inside_word || (length > 1 && is_word(text_[next]));
    }

    /// Returns the position of the marks that close a run of this length, or npos.
    std::size_t find_close(std::size_t from, char mark, std::size_t length) {
        bool& unclosed = unclosed_.at(mark == '*' ? length : mark == '_' ? 3 + length : 0);
        if (unclosed) return text_.npos;
        for (std::size_t at = from; at < text_.size();) {
            if (text_[at] == '\\') {
                at += 2;
                continue;
            }
            if (text_[at] != '`' && text_[at] != mark) {
                ++at;
                continue;
            }
            const std::size_t run = run_length(text_, at);
            if (text_[at] == '`') {
                const std::size_t close = find_ticks(at + run, run);
                at = (close == text_.npos ? at : close) + run;
                continue;
            }
            const bool fits = run == length || (mark == '*' && run == 3);
            if (fits && closes(at, run, from)) return at + run - length;
            at += run;
        }
        unclosed = true;
        return text_.npos;
    }

    bool closes(std::size_t at, std::size_t run, std::size_t from) const {
        if (at == from || is_blank(text_[at - 1])) return false;
        const std::size_t next = at + run;
        if (text_[at] != '_' || next >= text_.size()) return true;
        // __init__() and __init__.py are names, not bold.
        const bool continues_name =
            run > 1 && (text_[next] == '(' || (text_[next] == '.' && next + 1 < text_.size() &&
                                               is_word(text_[next + 1])));
        return !is_word(text_[next]) && !continues_name;
    }

    bool take_link() {
        const std::size_t open = text_[at_] == '!' ? at_ + 1 : at_;
        if (style_.link != 0 || open >= text_.size() || text_[open] != '[') return false;
        const std::string_view window = text_.substr(open, longest_link);
        const std::size_t middle = window.find("](");
        if (middle == window.npos || window.find('[', 1) < middle) return false;
        std::size_t depth = 1;
        std::size_t end = middle + 2;
        for (; end < window.size(); ++end) {
            if (window[end] == '(') ++depth;
            if (window[end] == ')' && --depth == 0) break;
        }
        if (end >= window.size()) return false;
        std::string_view address = window.substr(middle + 2, end - middle - 2);
        address = address.substr(0, address.find(' '));
        const std::string_view label = window.substr(1, middle - 1);
        if (!is_address(address)) return false;
        flush(at_);
        TextStyle style = style_;
        style.link = out_.add_link(std::string(address));
        LineReader(out_, label.empty() ? address : label, style).read();
        skip_to(open + end + 1);
        return true;
    }

    bool take_autolink() {
        const std::string_view window = text_.substr(at_, longest_link);
        const std::size_t end = window.find('>');
        if (end == window.npos || !is_address(window.substr(1, end - 1))) return false;
        flush(at_);
        out_.add(window.substr(1, end - 1), style_);  // Telegram finds the address itself
        skip_to(at_ + end + 1);
        return true;
    }

    StyledText& out_;
    std::string_view text_;
    TextStyle style_;
    std::size_t at_ = 0;
    std::size_t from_ = 0;
    std::set<std::size_t> unclosed_ticks_;  // lengths of runs that nothing closes
    std::array<bool, 6> unclosed_{};        // by kind of mark: "~~", "*", "**", "***", "_", "__"
};

/// Adds one line of Markdown to `out`: emphasis, code, links and escapes as formats on top of `style`.
void add_markdown_line(StyledText& out, std::string_view line, const TextStyle& style) {
    LineReader(out, line, style).read();
}

/// Removes the characters that Telegram removes, so that offsets agree.
std::string clean(std::string_view text) {
    std::string whole =
        cubepi::is_utf8(text) ? std::string(text) : cubepi::replace_broken_utf8(text);
    std::erase_if(whole, [](char byte) {
        const auto code = static_cast<unsigned char>(byte);
        return (code < 0x20 && byte != '\n' && byte != '\t') || code == 0x7F;
    });
    return whole;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    for (std::size_t begin = 0;;) {
        const std::size_t end = text.find('\n', begin);
        lines.push_back(text.substr(begin, end == text.npos ? end : end - begin));
        if (end == text.npos) return lines;
        begin = end + 1;
    }
}

std::size_t count_front(std::string_view text, char wanted) {
    return std::min(text.find_first_not_of(wanted), text.size());
}

struct Fence {
    char mark;
    std::size_t length;
    std::size_t indent;
    std::string_view language;
};

std::optional<Fence> opening_fence(std::string_view line) {
    const std::size_t indent = count_front(line, ' ');
    const std::string_view rest = line.substr(indent);
    if (rest.empty() || (rest.front() != '`' && rest.front() != '~')) return std::nullopt;
    const std::size_t length = count_front(rest, rest.front());
    const std::string_view info = trimmed(rest.substr(length));
    if (length < 3 || (rest.front() == '`' && info.find('`') != info.npos)) return std::nullopt;
    return Fence{rest.front(), length, indent, info.substr(0, info.find_first_of(" \t{"))};
}

bool closes(const Fence& fence, std::string_view line) {
    const std::string_view rest = trimmed(line);
    return rest.size() >= fence.length && count_front(rest, fence.mark) == rest.size();
}

bool is_rule(std::string_view line) {
    const std::string_view rest = trimmed(line);
    return rest.size() >= 3 && (rest[0] == '-' || rest[0] == '*' || rest[0] == '_') &&
           count_front(rest, rest[0]) == rest.size();
}

bool is_table_rule(std::string_view line) {
    return line.find('-') != line.npos && line.find('|') != line.npos &&
           line.find_first_not_of("|-: \t") == line.npos;
}

std::vector<std::string> cells_of(std::string_view line) {
    line = trimmed(line);
    if (line.starts_with('|')) line.remove_prefix(1);
    if (line.ends_with('|')) line.remove_suffix(1);
    std::vector<std::string> cells(1);
    for (std::size_t at = 0; at < line.size(); ++at) {
        if (line[at] == '|') {
            cells.emplace_back();
        } else {
            if (line[at] == '\\' && at + 1 < line.size() && line[at + 1] == '|') ++at;
            cells.back() += line[at];
        }
    }
    for (std::string& cell : cells) {
        StyledText shown;
        add_markdown_line(shown, trimmed(cell), TextStyle());
        cell = std::move(shown).finish().text;
    }
    return cells;
}

/// Aligns the columns of a table.
std::string table_text(const std::vector<std::string_view>& lines) {
    std::vector<std::vector<std::string>> rows;
    std::vector<std::size_t> widths;
    for (const std::string_view line : lines) {
        rows.push_back(cells_of(line));
        widths.resize(std::max(widths.size(), rows.back().size()));
        for (std::size_t i = 0; i < rows.back().size(); ++i)
            widths[i] = std::max(widths[i], utf16_length(rows.back()[i]));
    }
    std::string text;
    for (const std::vector<std::string>& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (i > 0) line += " | ";
            line += row[i];
            // A long cell does not widen all rows without bound.
            const std::size_t width = std::min<std::size_t>(widths[i], 40);
            const std::size_t length = utf16_length(row[i]);
            if (i + 1 < row.size() && length < width) line.append(width - length, ' ');
        }
        text += (text.empty() ? "" : "\n") + line;
    }
    return text;
}

class MarkdownReader {
public:
    explicit MarkdownReader(std::string_view text) : lines_(lines_of(text)) {}

    FormattedText read() {
        while (at_ < lines_.size()) {
            if (at_ > 0 && !dropped_) out_.add("\n", between());
            dropped_ = false;
            if (!take_code_block() && !take_table()) take_line();
        }
        return std::move(out_).finish();
    }

private:
    /// The line break between two lines of a quote belongs to it.
    TextStyle between() const {
        TextStyle style;
        if (quoted_ && lines_[at_].starts_with('>')) style.quote = quotes_;
        return style;
    }

    bool take_code_block() {
        const std::optional<Fence> fence = opening_fence(lines_[at_]);
        if (!fence) return false;
        TextStyle style;
        style.pre = out_.add_pre(std::string(fence->language));
        quoted_ = false;
        std::string code;
        bool first = true;
        for (++at_; at_ < lines_.size() && !closes(*fence, lines_[at_]); ++at_) {
            if (!std::exchange(first, false)) code += '\n';
            const std::size_t indent = std::min(count_front(lines_[at_], ' '), fence->indent);
            code += lines_[at_].substr(indent);
        }
        if (at_ < lines_.size()) ++at_;
        out_.add(code, style);
        dropped_ = code.empty();
        return true;
    }

    bool take_table() {
        if (at_ + 1 >= lines_.size() || lines_[at_].find('|') == std::string_view::npos ||
            !is_table_rule(lines_[at_ + 1]))
            return false;
        std::vector<std::string_view> rows = {lines_[at_]};
        quoted_ = false;
        for (at_ += 2; at_ < lines_.size() && lines_[at_].find('|') != std::string_view::npos;
             ++at_)
            rows.push_back(lines_[at_]);
        TextStyle style;
        style.pre = out_.add_pre({});
        out_.add(table_text(rows), style);
        return true;
    }

    void take_line() {
        std::string_view line = lines_[at_++];
        TextStyle style;
        const bool quote = line.starts_with('>');
        if (quote) {
            if (!quoted_) ++quotes_;
            style.quote = quotes_;
            line.remove_prefix(line.starts_with("> ") ? 2 : 1);
        }
        quoted_ = quote;
        const std::size_t indent = count_front(line, ' ');
        const std::string_view rest = line.substr(indent);
        const std::size_t hashes = count_front(rest, '#');
        if (is_rule(line)) return out_.add("———", style);
        if (hashes >= 1 && hashes <= 6 && hashes < rest.size() && rest[hashes] == ' ') {
            style.bold = true;
            return add_markdown_line(out_, trimmed(rest.substr(hashes)), style);
        }
        if (rest.size() > 2 && (rest[0] == '-' || rest[0] == '*' || rest[0] == '+') &&
            rest[1] == ' ') {
            out_.add(line.substr(0, indent), style);
            out_.add("• ", style);
            line = rest.substr(2);
        }
        add_markdown_line(out_, line, style);
    }

    std::vector<std::string_view> lines_;
    StyledText out_;
    std::size_t at_ = 0;
    std::size_t quotes_ = 0;
    bool quoted_ = false;   // the previous line is part of a quote
    bool dropped_ = false;  // the previous block has no text, and no line break follows it
};

}  // namespace

FormattedText format_markdown(std::string_view markdown) {
    const std::string text = clean(markdown);
    return MarkdownReader(text).read();
}

}  // namespace bub::telegram
