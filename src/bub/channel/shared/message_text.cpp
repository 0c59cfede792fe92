#include <bub/channel/shared/message_text.hpp>

#include <algorithm>

#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/utf8.hpp>

namespace bub::shared {

namespace {

struct Character {
    char32_t code;
    std::size_t byte;
    std::size_t unit;
    std::size_t units;
};

std::vector<Character> characters_of(std::string_view text) {
    std::vector<Character> all;
    all.reserve(text.size());
    std::size_t unit = 0;
    for (std::size_t at = 0; at < text.size();) {
        const cubepi::detail::Utf8Char character = cubepi::detail::utf8_char(text, at);
        const std::size_t units = character.length == 4 ? 2 : 1;
        all.push_back({character.code, at, unit, units});
        at += character.length;
        unit += units;
    }
    return all;
}

/// Returns true for characters that belong to the previous one: combining marks, variation selectors, skin tones, joiners, tags.
bool extends(char32_t code) {
    return (code >= 0x300 && code <= 0x36F) || (code >= 0x483 && code <= 0x489) ||
           (code >= 0x591 && code <= 0x5BD) || (code >= 0x64B && code <= 0x65F) ||
           (code >= 0x93A && code <= 0x94F && code != 0x93D) || (code >= 0xE31 && code <= 0xE3A) ||
           (code >= 0x1AB0 && code <= 0x1AFF) || (code >= 0x1DC0 && code <= 0x1DFF) ||
           code == 0x200D || (code >= 0x20D0 && code <= 0x20FF) ||
           (code >= 0xFE00 && code <= 0xFE0F) || (code >= 0xFE20 && code <= 0xFE2F) ||
           (code >= 0x1F3FB && code <= 0x1F3FF) || (code >= 0xE0020 && code <= 0xE01EF);
}

bool is_flag_letter(char32_t code) { return code >= 0x1F1E6 && code <= 0x1F1FF; }
bool is_blank(char32_t code) { return code == ' ' || code == '\n' || code == '\t'; }

class Splitter {
public:
    Splitter(std::string_view text, std::size_t limit, const std::vector<TextSpan>& spans)
        : text_(text), limit_(limit), spans_(spans), characters_(characters_of(text)) {
        mark_graphemes();
        mark_spans();
    }

    std::vector<TextPart> split() {
        std::vector<TextPart> parts;
        for (std::size_t begin = 0; begin < characters_.size();) {
            const std::size_t end = cut_after(begin);
            add_part(parts, begin, end);
            begin = next_begin(end);
        }
        return parts;
    }

private:
    void mark_graphemes() {
        inside_grapheme_.assign(characters_.size() + 1, false);
        bool odd_flag = false;
        for (std::size_t i = 0; i < characters_.size(); ++i) {
            const char32_t code = characters_[i].code;
            const bool flag = is_flag_letter(code);
            const bool joined = i > 0 && characters_[i - 1].code == 0x200D;
            inside_grapheme_[i] = i > 0 && (extends(code) || joined || (flag && odd_flag));
            odd_flag = flag && !odd_flag;
        }
    }

    /// Marks the boundaries inside of spans that fit into one message.
    void mark_spans() {
        std::vector<int> steps(units_end() + 2, 0);
        for (const TextSpan& span : spans_) {
            if (span.length > limit_ || span.length < 2) continue;
            ++steps[span.offset + 1];
            --steps[span.offset + span.length];
        }
        inside_span_.assign(characters_.size() + 1, false);
        int depth = 0;
        std::size_t unit = 0;
        for (std::size_t i = 0; i < characters_.size(); ++i) {
            for (; unit <= characters_[i].unit; ++unit) depth += steps[unit];
            inside_span_[i] = depth > 0;
        }
    }

    std::size_t units_end() const {
        return characters_.empty() ? 0 : characters_.back().unit + characters_.back().units;
    }
    std::size_t unit_at(std::size_t i) const {
        return i < characters_.size() ? characters_[i].unit : units_end();
    }

    /// How good it is to end a part before character `i`; higher is better.
    int rank(std::size_t i, bool late) const {
        int rank = 0;
        const char32_t code = characters_[i].code;
        if (inside_grapheme_[i]) return rank;
        const bool line = code == '\n' || characters_[i - 1].code == '\n';
        const bool paragraph =
            line && i + 1 < characters_.size() && code == '\n' && characters_[i + 1].code == '\n';
        rank = paragraph ? 4 : line ? 3 : is_blank(code) ? 2 : 1;
        if (late) rank += 4;
        if (!inside_span_[i]) rank += 10;
        return rank;
    }

    std::size_t cut_after(std::size_t begin) const {
        const std::size_t start = characters_[begin].unit;
        if (units_end() - start <= limit_) return characters_.size();
        std::size_t last = begin + 1;  // at least one character, whatever the limit
        while (last < characters_.size() && unit_at(last + 1) - start <= limit_) ++last;
        std::size_t best = last;
        int best_rank = 0;
        for (std::size_t i = last; i > begin; --i) {
            const bool late = unit_at(i) - start >= limit_ / 2;
            const int value = rank(i, late);
            if (value <= best_rank) continue;
            best = i;
            best_rank = value;
            if (value == 18) break;
        }
        return best;
    }

    /// Skips the white space at a division; of a code block's indented line only the line break.
    std::size_t next_begin(std::size_t end) const {
        std::size_t begin = end;
        while (begin < characters_.size() && is_blank(characters_[begin].code)) ++begin;
        if (begin == characters_.size() || begin == end || !in_code(unit_at(begin))) return begin;
        while (begin > end && characters_[begin - 1].code != '\n') --begin;
        return begin;
    }

    bool in_code(std::size_t unit) const {
        return std::any_of(spans_.begin(), spans_.end(), [unit](const TextSpan& one) {
            return one.is_code && one.offset < unit && unit < one.offset + one.length;
        });
    }

    void add_part(std::vector<TextPart>& parts, std::size_t begin, std::size_t end) const {
        while (end > begin && is_blank(characters_[end - 1].code)) --end;
        if (end == begin) return;
        TextPart part;
        part.offset = unit_at(begin);
        part.length = unit_at(end) - part.offset;
        const std::size_t byte = characters_[begin].byte;
        const std::size_t last = end < characters_.size() ? characters_[end].byte : text_.size();
        part.text = text_.substr(byte, last - byte);
        parts.push_back(part);
    }

    const std::string_view text_;
    const std::size_t limit_;
    const std::vector<TextSpan>& spans_;
    std::vector<Character> characters_;
    std::vector<bool> inside_grapheme_;
    std::vector<bool> inside_span_;
};

}  // namespace

std::size_t utf16_length(std::string_view text) noexcept {
    std::size_t units = 0;
    for (const char byte : text) {
        const auto code = static_cast<unsigned char>(byte);
        if ((code & 0xC0) != 0x80) units += code >= 0xF0 ? 2 : 1;
    }
    return units;
}

std::vector<TextPart> split_text(std::string_view text, std::size_t limit,
                                 const std::vector<TextSpan>& spans) {
    if (limit < 2) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "the limit of a message is " + std::to_string(limit) +
                                "; it must be at least 2 UTF-16 units");
    }
    return Splitter(text, limit, spans).split();
}

std::string shortened(std::string_view text, std::size_t units) {
    std::string whole = cubepi::replace_broken_utf8(text);
    if (utf16_length(whole) <= units) return whole;
    const std::vector<TextPart> parts = split_text(whole, units);
    return parts.empty() ? std::string() : std::string(parts.front().text) + " \u2026";
}

std::string with_both_ends(std::string_view text, std::size_t units, std::string_view note) {
    std::string whole = cubepi::replace_broken_utf8(text);
    const std::size_t length = utf16_length(whole);
    if (length <= units) return whole;
    constexpr std::size_t units_of_line = 120;
    const std::size_t shown = units - units_of_line;
    // More of the beginning, which names the call; the end, since a command may hide its last part there.
    const std::size_t last = length - shown / 3;
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t unit = 0;
    for (std::size_t at = 0; unit < last;) {
        const std::size_t bytes = cubepi::detail::utf8_char(whole, at).length;
        unit += bytes == 4 ? 2 : 1;
        at += bytes;
        if (unit <= shown - shown / 3) begin = at;
        end = at;
    }
    return whole.substr(0, begin) + " \u2026\n(" + std::to_string(end - begin) +
           " bytes are left out" + std::string(note) + ")\n\u2026 " + whole.substr(end);
}

std::string one_line(std::string text) {
    for (const std::string_view line_break : {"\u0085", "\u2028", "\u2029"}) {
        for (std::size_t at = text.find(line_break); at != std::string::npos;
             at = text.find(line_break, at))
            text.replace(at, line_break.size(), " ");
    }
    for (char& c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7F) c = ' ';
    }
    return text;
}

std::string file_name(const MediaItem& item) {
    if (!item.filename.empty()) return item.filename;
    const std::size_t slash = item.mime_type.find('/');
    return "file" + (slash == std::string::npos ? "" : "." + item.mime_type.substr(slash + 1));
}

}  // namespace bub::shared
