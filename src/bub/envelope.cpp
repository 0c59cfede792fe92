#include <bub/envelope.hpp>

#include <array>
#include <cstddef>
#include <ctime>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>

namespace bub {

Task<> HeldTurn::wait() const {
    cubepi::AsyncEvent never;
    Task<> waiting = cubepi::cancel_on(decided_.get_token(), never.wait());
    const cubepi::Outcome<> ended = co_await cubepi::outcome_of(std::move(waiting));
    if (!decided_.stop_requested()) ended.rethrow();
}

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

/// Appends text from outside, which must not end the line or the value.
void append_context(std::string& to, std::string_view text) {
    for (const char c : text) {
        const bool separates = static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '|';
        to += separates ? ' ' : c;
    }
}

int digit_value(char c) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t at = digits.find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

std::string decode_base64(std::string_view text) {
    std::string bytes;
    std::uint32_t group = 0;
    int bits = 0;
    for (const char c : text) {
        const int value = digit_value(c);
        if (value < 0) continue;
        group = (group << 6U) | static_cast<std::uint32_t>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        bytes += static_cast<char>((group >> static_cast<unsigned>(bits)) & 255U);
    }
    return bytes;
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

std::string local_date(std::chrono::system_clock::time_point time) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
    std::tm parts{};
    localtime_r(&seconds, &parts);
    char text[64];
    const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &parts);
    std::string date(text, size);
    if (date.size() > 5) date.insert(date.size() - 2, ":");
    return date;
}

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
    co_return "data:" + type_of_bytes + ";base64," + cubepi::detail::base64(*bytes);
}

Task<std::optional<std::string>> MediaItem::get_bytes() const {
    std::optional<std::string> bytes;
    const std::size_t comma = url.find(";base64,");
    if (url.empty() && fetch) {
        bytes = co_await fetch();
    } else if (url.starts_with("data:") && comma != std::string::npos) {
        bytes = decode_base64(std::string_view(url).substr(comma + 8));
    }
    co_return bytes;
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
        append_context(text, key);
        text += '=';
        append_context(text, text_of(value).value_or(""));
    }
    if (!text.empty()) return text;
    return cubepi::detail::text_member(rest, "context_str");
}

void Envelope::note_arrival(std::chrono::system_clock::time_point time) {
    context["channel"] = "$" + channel.value_or("default");
    context["chat_id"] = chat_id.value_or("default");
    context[date_key] = local_date(time);
    context[arrived_key] = std::chrono::duration<double>(time.time_since_epoch()).count();
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
