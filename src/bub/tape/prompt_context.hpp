#pragma once

#include <string>
#include <string_view>

// The lines before a user's message that tell the model where it comes from (D106), in Bub's form:
//
//   channel=$telegram|chat_id=42
//   ---Date: 2026-03-01T12:00:00+01:00---

namespace bub {

/// Returns the text of a prompt. Empty context: the content.
std::string with_context(std::string_view context, std::string_view date, std::string_view content);

/// Returns the text of a prompt without these lines; text that does not begin with them is returned unchanged. Users are shown this
/// part of their messages.
std::string_view without_context(std::string_view text) noexcept;

}  // namespace bub
