#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// "image/png", "image/jpeg", "image/gif" or "image/webp" by the first bytes; empty for anything else.
std::string_view image_type(std::string_view bytes) noexcept;

/// True when the first bytes cannot be those of a text in UTF-8 or another encoding that contains ASCII.
bool looks_binary(std::string_view bytes) noexcept;

std::string base64(std::string_view bytes);

/// `text` up to `bytes`, without cutting a UTF-8 character.
std::string_view cut_text(std::string_view text, std::size_t bytes) noexcept;

}  // namespace cubepi::detail
