#include <bub/envelope.hpp>

#include <array>
#include <cstddef>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>

namespace bub {

namespace {

/// Returns strings unchanged, numbers and similar values as JSON; nothing for null.
std::optional<std::string> text_of(const Json& value) {
    if (const auto* text = value.if_string()) return std::string(*text);
    if (value.is_null()) return std::nullopt;
    return cubepi::json_text(value);
}

struct TextField {
    std::string_view name;
    std::optional<std::string> Envelope::* member;
};
constexpr std::array<TextField, 6> text_fields = {{
    {"session_id", &Envelope::session_id},
    {"channel", &Envelope::channel},
    {"chat_id", &Envelope::chat_id},
    {"content", &Envelope::content},
    {"kind", &Envelope::kind},
    {"output_channel", &Envelope::output_channel},
}};

std::string encode_base64(std::string_view bytes) {
    static constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        }
        for (std::size_t k = 0; k < 4; ++k) {
            out += k <= count ? digits[group >> (18 - 6 * k) & 63u] : '=';
        }
    }
    return out;
}

std::optional<MediaItem> parse_media(const Json& form) {
    const JsonObject* object = form.if_object();
    if (!object) return std::nullopt;
    const auto text = [object](std::string_view key) {
        return cubepi::detail::text_member(*object, key);
    };
    MediaItem item;
    const std::string type = text("type");
    bool known = false;
    for (const MediaType each :
         {MediaType::image, MediaType::audio, MediaType::video, MediaType::document}) {
        if (type != to_string(each)) continue;
        item.type = each;
        known = true;
    }
    if (!known) return std::nullopt;
    item.mime_type = text("mime_type");
    item.filename = text("filename");
    item.url = text("url");
    return item;
}

JsonArray media_json(const std::vector<MediaItem>& media) {
    JsonArray list;
    for (const MediaItem& item : media) {
        JsonObject form;
        form["type"] = to_string(item.type);
        form["mime_type"] = item.mime_type;
        if (!item.filename.empty()) form["filename"] = item.filename;
        if (!item.url.empty()) form["url"] = item.url;
        list.push_back(std::move(form));
    }
    return list;
}

}  // namespace

std::string_view to_string(MediaType type) noexcept {
    switch (type) {
        case MediaType::image: return "image";
        case MediaType::audio: return "audio";
        case MediaType::video: return "video";
        case MediaType::document: return "document";
    }
    return "image";
}

Task<std::optional<std::string>> MediaItem::get_url() const {
    if (!url.empty()) co_return url;
    if (!fetch) co_return std::nullopt;
    const std::string type_of_bytes = mime_type;
    std::optional<std::string> bytes = co_await fetch();
    if (!bytes) co_return std::nullopt;
    co_return "data:" + type_of_bytes + ";base64," + encode_base64(*bytes);
}

Envelope::Envelope(JsonObject fields) : rest(std::move(fields)) {
    for (const TextField& field : text_fields) {
        const auto found = rest.find(field.name);
        if (found == rest.end()) continue;
        this->*field.member = text_of(found->value());
        // A value that is not a string is preserved, so that it can be written back unchanged.
        if (found->value().is_string()) rest.erase(found);
    }
    if (Json* value = rest.if_contains("context"); value && value->is_object()) {
        context = std::move(value->get_object());
        rest.erase("context");
    }
    if (const Json* value = rest.if_contains("media"); value && value->is_array()) {
        for (const Json& form : value->get_array()) {
            if (std::optional<MediaItem> item = parse_media(form))
                media.push_back(std::move(*item));
        }
    }
}

const std::string& Envelope::content_text() const noexcept {
    static const std::string none;
    return content ? *content : none;
}

std::string Envelope::context_text() const {
    std::string text;
    for (const auto& [key, value] : context) {
        if (key.starts_with('_')) continue;
        if (!text.empty()) text += '|';
        text += key;
        text += '=';
        text += text_of(value).value_or("");
    }
    if (!text.empty()) return text;
    return cubepi::detail::text_member(rest, "context_str");
}

bool Envelope::is_operator() const noexcept { return from_operator.value_or(channel == "cli"); }

JsonObject to_json(const Envelope& envelope) {
    JsonObject fields = envelope.rest;
    for (const TextField& field : text_fields) {
        const std::optional<std::string>& value = envelope.*field.member;
        if (!value) continue;
        const Json* given = fields.if_contains(field.name);
        if (!given || text_of(*given) != value) fields[field.name] = *value;
    }
    if (!envelope.context.empty()) fields["context"] = envelope.context;
    if (!envelope.media.empty() && !fields.contains("media")) {
        fields["media"] = media_json(envelope.media);
    }
    return fields;
}

std::string default_session(const Envelope& message) {
    return message.channel.value_or("default") + ":" + message.chat_id.value_or("default");
}

std::string input_id_of(const Envelope& message) {
    if (!message.inbound_id || message.inbound_id->empty()) return {};
    return message.channel.value_or("default") + ":" + *message.inbound_id;
}

}  // namespace bub
