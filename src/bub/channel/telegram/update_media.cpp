#include <bub/channel/telegram/update.hpp>

#include <cmath>
#include <string>

#include <cubepi/core/support/json_member.hpp>

namespace bub::telegram {

namespace {

using cubepi::detail::array_member;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::string_member;
using cubepi::detail::text_member;

/// A kind of attachment, and the name and type of files that do not state theirs.
struct MediaKind {
    const char* key;
    MediaType type;
    const char* mime_type;
    const char* title;
};
constexpr MediaKind media_kinds[] = {
    // An animation has a copy of itself as a document.
    {"animation", MediaType::video, "video/mp4", "Animation"},
    {"document", MediaType::document, "application/octet-stream", "Document"},
    {"voice", MediaType::audio, "audio/ogg", "Voice message"},
    {"audio", MediaType::audio, "audio/mpeg", "Audio"},
    {"video", MediaType::video, "video/mp4", "Video"},
    {"video_note", MediaType::video, "video/mp4", "Video message"},
};

void add_note(Envelope& envelope, const std::string& note) {
    std::string& text = *envelope.content;
    if (!text.empty()) text += "\n";
    text += "[" + note + "]";
}

MediaType type_of(std::string_view mime_type, MediaType type) {
    if (type != MediaType::document) return type;
    if (mime_type.starts_with("image/")) return MediaType::image;
    if (mime_type.starts_with("audio/")) return MediaType::audio;
    return type;
}

void add_file(const JsonObject& file, const MediaKind& kind, JsonArray& files) {
    JsonObject stored;
    std::string mime_type = text_member(file, "mime_type");
    if (mime_type.empty()) mime_type = kind.mime_type;
    stored["type"] = to_string(type_of(mime_type, kind.type));
    stored["mime_type"] = mime_type;
    stored["filename"] = text_member(file, "file_name");
    stored["file_id"] = text_member(file, "file_id");
    stored["size"] = integer_member(file, "file_size").value_or(0);
    files.emplace_back(std::move(stored));
}

/// Sizes are listed from small to large, but this is not promised.
const JsonObject* largest_photo(const JsonArray& sizes) {
    const JsonObject* largest = nullptr;
    std::int64_t most = -1;
    for (const Json& one : sizes) {
        const JsonObject* const size = one.if_object();
        if (!size) continue;
        const std::int64_t pixels = integer_member(*size, "width").value_or(0) *
                                    integer_member(*size, "height").value_or(0);
        if (pixels > most) {
            most = pixels;
            largest = size;
        }
    }
    return largest;
}

std::string note_for(const MediaKind& kind, const JsonObject& file) {
    std::string note = kind.title;
    const std::string_view name = string_member(file, "file_name");
    if (!name.empty()) note += ": " + std::string(name);
    if (const auto seconds = integer_member(file, "duration"))
        note += ", " + std::to_string(*seconds) + " s";
    return note;
}

void add_other(const JsonObject& message, Envelope& envelope) {
    if (const JsonObject* sticker = object_member(message, "sticker"))
        add_note(envelope, "Sticker " + text_member(*sticker, "emoji"));
    if (const JsonObject* contact = object_member(message, "contact"))
        add_note(envelope, "Contact: " + text_member(*contact, "first_name") + ", " +
                               text_member(*contact, "phone_number"));
    if (const JsonObject* place = object_member(message, "location"))
        add_note(envelope, "Location: " + boost::json::serialize(*place));
}

}  // namespace

void add_media(const JsonObject& message, Envelope& envelope, JsonArray& files) {
    if (const JsonArray* sizes = array_member(message, "photo")) {
        constexpr MediaKind photo{"photo", MediaType::image, "image/jpeg", "Photo"};
        if (const JsonObject* largest = largest_photo(*sizes)) add_file(*largest, photo, files);
        if (envelope.content->empty()) add_note(envelope, "Photo");
    }
    for (const MediaKind& kind : media_kinds) {
        const JsonObject* const file = object_member(message, kind.key);
        if (!file) continue;
        add_file(*file, kind, files);
        add_note(envelope, note_for(kind, *file));
        break;
    }
    add_other(message, envelope);
}

}  // namespace bub::telegram
