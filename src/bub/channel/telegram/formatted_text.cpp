#include <bub/channel/telegram/formatted_text.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <bub/channel/shared/message_text.hpp>
#include <bub/channel/telegram_text.hpp>

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

}  // namespace bub::telegram
