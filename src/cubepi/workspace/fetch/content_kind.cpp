#include <cubepi/workspace/fetch/content_kind.hpp>

#include <algorithm>

#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

using namespace std::string_view_literals;

std::string_view image_type(std::string_view bytes) noexcept {
    if (bytes.starts_with("\x89PNG\r\n\x1a\n"sv)) return "image/png";
    if (bytes.starts_with("\xff\xd8\xff"sv)) return "image/jpeg";
    if (bytes.starts_with("GIF87a"sv) || bytes.starts_with("GIF89a"sv)) return "image/gif";
    if (bytes.starts_with("RIFF"sv) && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP"sv)
        return "image/webp";
    return {};
}

bool looks_binary(std::string_view bytes) noexcept {
    bytes = bytes.substr(0, 8192);
    return bytes.find('\0') != std::string_view::npos || bytes.starts_with("%PDF-"sv);
}

std::string base64(std::string_view bytes) {
    constexpr std::string_view alphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
        unsigned group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        }
        for (std::size_t k = 0; k < 4; ++k) {
            out += k <= count ? alphabet[group >> (18 - 6 * k) & 63] : '=';
        }
    }
    return out;
}

std::string_view cut_text(std::string_view text, std::size_t bytes) noexcept {
    text = text.substr(0, bytes);
    return text.substr(0, complete_utf8_prefix(text));
}

}  // namespace cubepi::detail
