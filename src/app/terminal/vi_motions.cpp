#include "vi_motions.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "text_layout.hpp"

namespace cubepi::app {

namespace {

enum class Kind : std::uint8_t { blank, feed, word, sign };

Kind kind_at(std::string_view text, std::size_t at, ViWord word) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == '\n') return Kind::feed;
    if (byte == ' ' || byte == '\t') return Kind::blank;
    const bool in_word = byte >= 0x80 || std::isalnum(byte) || byte == '_';
    return in_word || word == ViWord::big ? Kind::word : Kind::sign;
}

bool is_gap(Kind kind) { return kind == Kind::blank || kind == Kind::feed; }

/// The end of the run of characters of one kind.
std::size_t run_end(std::string_view text, std::size_t at, ViWord word) {
    const Kind kind = kind_at(text, at, word);
    while (at < text.size() && kind_at(text, at, word) == kind) at = next_character(text, at);
    return at;
}

std::size_t run_begin(std::string_view text, std::size_t at, ViWord word) {
    const Kind kind = kind_at(text, at, word);
    while (at > 0) {
        const std::size_t before = previous_character(text, at);
        if (kind_at(text, before, word) != kind) break;
        at = before;
    }
    return at;
}

using Span = std::optional<std::pair<std::size_t, std::size_t>>;

Span word_object(std::string_view text, std::size_t at, ViWord word, bool around) {
    if (at >= text.size() || text[at] == '\n') return std::nullopt;
    std::size_t from = run_begin(text, at, word);
    std::size_t to = run_end(text, at, word);
    if (!around) return std::pair(from, to);
    const bool is_blank = kind_at(text, at, word) == Kind::blank;
    const bool more = to < text.size() && text[to] != '\n';
    if (more && (is_blank || kind_at(text, to, word) == Kind::blank)) {
        to = run_end(text, to, word);
    } else if (from > 0 && kind_at(text, previous_character(text, from), word) == Kind::blank) {
        from = run_begin(text, previous_character(text, from), word);
    }
    return std::pair(from, to);
}

/// The quotes of the line are pairs from its beginning.
Span quote_object(std::string_view text, std::size_t at, char quote, bool around) {
    const std::size_t end = vi_line_end(text, at);
    std::size_t open = vi_line_begin(text, at);
    const auto next = [&](std::size_t from) {
        for (std::size_t i = from; i < end; ++i) {
            if (text[i] == quote && (i == 0 || text[i - 1] != '\\')) return i;
        }
        return end;
    };
    for (open = next(open); open < end; open = next(open + 1)) {
        const std::size_t close = next(open + 1);
        if (close >= end) return std::nullopt;
        if (at <= close) {
            if (!around) return std::pair(open + 1, close);
            std::size_t to = close + 1;
            while (to < end && (text[to] == ' ' || text[to] == '\t')) ++to;
            return std::pair(open, to);
        }
        open = close;
    }
    return std::nullopt;
}

Span bracket_object(std::string_view text, std::size_t at, char open, char close, bool around) {
    std::size_t depth = 0;
    std::size_t from = std::min(at, text.size());
    // A closing bracket at the cursor belongs to the pair.
    bool found = from < text.size() && text[from] == open;
    while (!found && from > 0) {
        --from;
        if (text[from] == close) ++depth;
        if (text[from] == open) found = depth-- == 0;
    }
    if (!found) return std::nullopt;
    depth = 0;
    for (std::size_t to = from + 1; to < text.size(); ++to) {
        if (text[to] == open) ++depth;
        if (text[to] != close) continue;
        if (depth-- > 0) continue;
        return around ? std::pair(from, to + 1) : std::pair(from + 1, to);
    }
    return std::nullopt;
}

}  // namespace

std::size_t vi_line_begin(std::string_view text, std::size_t at) {
    if (at == 0) return 0;
    const std::size_t feed = text.rfind('\n', at - 1);
    return feed == std::string_view::npos ? 0 : feed + 1;
}

std::size_t vi_line_end(std::string_view text, std::size_t at) {
    return std::min(text.find('\n', at), text.size());
}

std::size_t vi_line_text(std::string_view text, std::size_t at) {
    std::size_t begin = vi_line_begin(text, at);
    while (begin < text.size() && (text[begin] == ' ' || text[begin] == '\t')) ++begin;
    return begin;
}

std::size_t vi_line(std::string_view text, std::size_t number) {
    std::size_t at = 0;
    for (; number > 1; --number) {
        const std::size_t end = vi_line_end(text, at);
        if (end == text.size()) break;
        at = end + 1;
    }
    return at;
}

std::size_t vi_next_word(std::string_view text, std::size_t at, ViWord word) {
    if (at >= text.size()) return text.size();
    if (!is_gap(kind_at(text, at, word))) at = run_end(text, at, word);
    while (at < text.size() && is_gap(kind_at(text, at, word))) {
        ++at;
        // An empty line is a word.
        if (at < text.size() && text[at] == '\n' && text[at - 1] == '\n') break;
    }
    return at;
}

std::size_t vi_word_before(std::string_view text, std::size_t at, ViWord word) {
    while (at > 0 && is_gap(kind_at(text, previous_character(text, at), word)))
        at = previous_character(text, at);
    return at == 0 ? 0 : run_begin(text, previous_character(text, at), word);
}

std::size_t vi_word_end(std::string_view text, std::size_t at, ViWord word, bool stays) {
    if (at >= text.size()) return text.size();
    if (!stays) at = next_character(text, at);
    while (at < text.size() && is_gap(kind_at(text, at, word))) ++at;
    if (at >= text.size()) return text.empty() ? 0 : previous_character(text, text.size());
    return previous_character(text, run_end(text, at, word));
}

std::optional<std::pair<std::size_t, std::size_t>> vi_object(std::string_view text, std::size_t at,
                                                             char kind, bool around) {
    switch (kind) {
        case 'w': return word_object(text, at, ViWord::small, around);
        case 'W': return word_object(text, at, ViWord::big, around);
        case '"':
        case '\'':
        case '`': return quote_object(text, at, kind, around);
        case '(':
        case ')':
        case 'b': return bracket_object(text, at, '(', ')', around);
        case '{':
        case '}':
        case 'B': return bracket_object(text, at, '{', '}', around);
        case '[':
        case ']': return bracket_object(text, at, '[', ']', around);
        case '<':
        case '>': return bracket_object(text, at, '<', '>', around);
        default: return std::nullopt;
    }
}

}  // namespace cubepi::app
