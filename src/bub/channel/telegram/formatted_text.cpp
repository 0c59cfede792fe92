#include <bub/channel/telegram/formatted_text.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <bub/channel/telegram_text.hpp>
#include <cubepi/core/error.hpp>

namespace bub::telegram {

namespace {

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
        const auto lead = static_cast<unsigned char>(text[at]);
        const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
        char32_t code = size == 1 ? lead : lead & (0xFFU >> (size + 1));
        for (std::size_t i = 1; i < size && at + i < text.size(); ++i)
            code = (code << 6U) | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
        const std::size_t units = size == 4 ? 2 : 1;
        all.push_back({code, at, unit, units});
        at += size;
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
    Splitter(const FormattedText& text, std::size_t limit)
        : text_(text), limit_(limit), characters_(characters_of(text.text)) {
        mark_graphemes();
        mark_entities();
    }

    std::vector<FormattedText> split() {
        std::vector<FormattedText> parts;
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

    /// Marks the boundaries inside of entities that fit into one message.
    void mark_entities() {
        std::vector<int> steps(units_end() + 2, 0);
        for (const Entity& entity : text_.entities) {
            if (entity.length > limit_ || entity.length < 2) continue;
            ++steps[entity.offset + 1];
            --steps[entity.offset + entity.length];
        }
        inside_entity_.assign(characters_.size() + 1, false);
        int depth = 0;
        std::size_t unit = 0;
        for (std::size_t i = 0; i < characters_.size(); ++i) {
            for (; unit <= characters_[i].unit; ++unit) depth += steps[unit];
            inside_entity_[i] = depth > 0;
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
        if (!inside_entity_[i]) rank += 10;
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
        return std::any_of(text_.entities.begin(), text_.entities.end(), [unit](const Entity& one) {
            return one.type == "pre" && one.offset < unit && unit < one.offset + one.length;
        });
    }

    void add_part(std::vector<FormattedText>& parts, std::size_t begin, std::size_t end) const {
        while (end > begin && is_blank(characters_[end - 1].code)) --end;
        if (end == begin) return;
        const std::size_t from = unit_at(begin);
        const std::size_t to = unit_at(end);
        const std::size_t last_byte =
            end < characters_.size() ? characters_[end].byte : text_.text.size();
        FormattedText part;
        part.text = text_.text.substr(characters_[begin].byte, last_byte - characters_[begin].byte);
        std::vector<Entity> entities;
        for (Entity entity : text_.entities) {
            const std::size_t first = std::max(entity.offset, from);
            const std::size_t past = std::min(entity.offset + entity.length, to);
            if (first >= past) continue;
            entity.offset = first - from;
            entity.length = past - first;
            entities.push_back(std::move(entity));
        }
        part.entities = valid_entities(part.text, std::move(entities));
        parts.push_back(std::move(part));
    }

    const FormattedText& text_;
    const std::size_t limit_;
    std::vector<Character> characters_;
    std::vector<bool> inside_grapheme_;
    std::vector<bool> inside_entity_;
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
    if (limit < 2) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "the limit of a message is " + std::to_string(limit) +
                                "; it must be at least 2 UTF-16 units");
    }
    return Splitter(text, limit).split();
}

}  // namespace bub::telegram
