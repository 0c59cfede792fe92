#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// Detects "image/png", "image/jpeg", "image/gif" or "image/webp" from the first bytes; empty for any other content, also
/// for SVG, which may contain scripts.
std::string_view image_type(std::string_view bytes) noexcept;

/// Returns the reason why endpoints would refuse an image of `size` bytes, of which `bytes` are the first, or an empty text: it
/// has more than `limit` bytes or more than 8,000 pixels in a dimension.
std::string image_problem(std::string_view bytes, std::uint64_t size, std::uint64_t limit);

/// True if the first bytes cannot belong to a text in UTF-8 or another encoding that contains ASCII.
bool looks_binary(std::string_view bytes) noexcept;

/// Returns a path as a part of one line: unchanged, or as a JSON string if it has line breaks or other control characters,
/// which a model could read as further lines.
std::string one_line_path(std::string_view path);

/// Returns at most `bytes` of `text`, without splitting a UTF-8 character.
std::string_view cut_text(std::string_view text, std::size_t bytes) noexcept;

/// Converts an HTML page to readable plain text, with Markdown's marks for headings, lists and links. Accepts any input;
/// ignores layout. `title` receives the page's title, if it has one.
std::string html_to_text(std::string_view html, std::string& title);

/// Returns `text` with character references such as "&amp;" and "&#8212;" decoded.
std::string decode_entities(std::string_view text);

}  // namespace cubepi::detail
