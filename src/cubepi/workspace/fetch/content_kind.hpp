#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Detects "image/png", "image/jpeg", "image/gif" or "image/webp" from the first bytes; empty for any other content.
std::string_view image_type(std::string_view bytes) noexcept;

/// True if the first bytes cannot belong to a text in UTF-8 or another encoding that contains ASCII.
bool looks_binary(std::string_view bytes) noexcept;

std::string base64(std::string_view bytes);

/// Returns at most `bytes` of `text`, without splitting a UTF-8 character.
std::string_view cut_text(std::string_view text, std::size_t bytes) noexcept;

}  // namespace cubepi::detail
