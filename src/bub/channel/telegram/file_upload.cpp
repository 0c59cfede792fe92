#include <bub/channel/telegram/file_upload.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <cubepi/core/outcome.hpp>

namespace bub::telegram {

namespace {

using cubepi::Outcome;

constexpr std::size_t max_photo_bytes = 10'000'000;
constexpr std::size_t max_file_bytes = 50'000'000;

struct Method {
    const char* name;
    const char* field;
};

Method method_for(const MediaItem& item, std::size_t bytes) {
    const bool is_photo = item.mime_type == "image/jpeg" || item.mime_type == "image/png" ||
                          item.mime_type == "image/webp";
    if (item.type == MediaType::image && is_photo && bytes <= max_photo_bytes)
        return Method{"sendPhoto", "photo"};
    if (item.type == MediaType::video && item.mime_type == "video/mp4")
        return Method{"sendVideo", "video"};
    if (item.type == MediaType::audio && item.mime_type == "audio/mpeg")
        return Method{"sendAudio", "audio"};
    return Method{"sendDocument", "document"};
}

int digit_value(char c) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t at = digits.find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

Task<std::optional<std::string>> bytes_of(MediaItem item) {
    std::optional<std::string> bytes;
    if (!item.url.empty()) {
        bytes = decode_data_url(item.url);
    } else if (item.fetch) {
        bytes = co_await item.fetch();
    }
    co_return bytes;
}

std::string name_of(const MediaItem& item) {
    if (!item.filename.empty()) return item.filename;
    const std::size_t slash = item.mime_type.find('/');
    return "file" + (slash == std::string::npos ? "" : "." + item.mime_type.substr(slash + 1));
}

}  // namespace

std::optional<std::string> decode_data_url(std::string_view url) {
    const std::size_t comma = url.find(";base64,");
    if (!url.starts_with("data:") || comma == std::string_view::npos) return std::nullopt;
    std::string bytes;
    std::uint32_t group = 0;
    int bits = 0;
    for (const char c : url.substr(comma + 8)) {
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

Task<FileUpload> file_upload(MediaItem item) {
    FileUpload upload;
    const std::string name = name_of(item);
    if (item.url.starts_with("https://") || item.url.starts_with("http://")) {
        const Method method = method_for(item, 0);
        upload.method = method.name;
        upload.parameters[method.field] = item.url;
        co_return upload;
    }
    Task<std::optional<std::string>> fetching = bytes_of(item);
    Outcome<std::optional<std::string>> fetched = co_await cubepi::outcome_of(std::move(fetching));
    if (fetched.cancelled()) fetched.rethrow();
    if (!fetched || !fetched.value()) {
        upload.problem = "(The file " + name + " could not be read.)";
    } else if (fetched.value()->size() > max_file_bytes) {
        upload.problem =
            "(The file " + name + " has more than 50 MB, and Telegram does not take it.)";
    } else {
        const Method method = method_for(item, fetched.value()->size());
        upload.method = method.name;
        upload.file.field = method.field;
        upload.file.name = name;
        upload.file.mime_type =
            item.mime_type.empty() ? "application/octet-stream" : item.mime_type;
        upload.file.bytes = std::move(*fetched.value());
    }
    co_return upload;
}

}  // namespace bub::telegram
