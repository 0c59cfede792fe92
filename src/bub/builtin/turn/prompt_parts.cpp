#include <bub/builtin/turn/prompt_parts.hpp>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <utility>

namespace bub::detail {

namespace {

/// Formats local time with its offset, to the second.
std::string local_date(std::chrono::system_clock::time_point now) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm parts{};
    localtime_r(&seconds, &parts);
    char text[64];
    const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &parts);
    std::string date(text, size);
    if (date.size() > 5) date.insert(date.size() - 2, ":");
    return date;
}

std::string lower_case(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

std::string audio_format(std::string mime) {
    mime = lower_case(mime.substr(0, mime.find(';')));
    std::string kind = mime.substr(mime.find('/') == std::string::npos ? 0 : mime.find('/') + 1);
    if (kind.starts_with("x-")) kind = kind.substr(2);
    if (kind == "mpeg") return "mp3";
    if (kind == "mp4") return "m4a";
    return kind.empty() ? "unknown" : kind;
}

Json media_part(const MediaItem& item, const std::string& url) {
    JsonObject part;
    if (item.type == MediaType::image || item.type == MediaType::video) {
        const std::string key = item.type == MediaType::image ? "image_url" : "video_url";
        JsonObject place;
        place["url"] = url;
        part["type"] = key;
        part[key] = std::move(place);
        return part;
    }
    const std::size_t comma = url.find(";base64,");
    if (item.type != MediaType::audio || lower_case(url.substr(0, 11)) != "data:audio/" ||
        comma == std::string::npos) {
        return nullptr;
    }
    JsonObject audio;
    audio["data"] = url.substr(comma + 8);
    audio["format"] = audio_format(url.substr(5, comma - 5));
    part["type"] = "input_audio";
    part["input_audio"] = std::move(audio);
    return part;
}

void add_part(cubepi::UserMessage& message, const JsonObject& part) {
    const Json* text = part.if_contains("text");
    if (text && text->is_string()) {
        message.content.emplace_back(cubepi::TextContent{std::string(text->get_string())});
        return;
    }
    const Json* image = part.if_contains("image_url");
    const JsonObject* place = image ? image->if_object() : nullptr;
    const Json* url = place ? place->if_contains("url") : nullptr;
    if (!url || !url->is_string()) {
        const Json* type = part.if_contains("type");
        const std::string name =
            type && type->is_string() ? std::string(type->get_string()) : "part";
        message.content.emplace_back(
            cubepi::TextContent{"[" + name + ": cannot be shown to this model]"});
        return;
    }
    cubepi::ImageContent content;
    const std::string_view source = url->get_string();
    const std::size_t comma = source.find(";base64,");
    if (source.starts_with("data:") && comma != std::string_view::npos) {
        content.media_type = cubepi::SharedString(std::string(source.substr(5, comma - 5)));
        content.source = std::string(source.substr(comma + 8));
    } else {
        content.source = std::string(source);
    }
    message.content.emplace_back(std::move(content));
}

}  // namespace

Task<Prompt> prompt_of(std::shared_ptr<Envelope> message,
                       std::chrono::system_clock::time_point now) {
    std::string text = message->content_text();
    const std::string context = message->context_text();
    if (!context.empty()) text = context + "\n---Date: " + local_date(now) + "---\n" + text;
    JsonArray parts;
    for (const MediaItem& item : message->media) {
        // Models do not accept documents, so they are not fetched.
        if (item.type == MediaType::document) continue;
        const std::optional<std::string> url = co_await item.get_url();
        if (!url) continue;
        Json part = media_part(item, *url);
        if (!part.is_null()) parts.push_back(std::move(part));
    }
    if (parts.empty()) co_return Prompt(std::move(text));
    JsonObject first;
    first["type"] = "text";
    first["text"] = std::move(text);
    parts.insert(parts.begin(), Json(std::move(first)));
    co_return Prompt(std::move(parts));
}

cubepi::Message user_message_of(const Prompt& prompt) {
    if (const std::string* text = prompt.if_text()) return cubepi::user_message(*text);
    cubepi::UserMessage message;
    for (const Json& part : *prompt.if_parts()) {
        if (const JsonObject* object = part.if_object()) add_part(message, *object);
    }
    return message;
}

}  // namespace bub::detail
