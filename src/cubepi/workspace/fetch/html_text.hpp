#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Converts an HTML page to readable plain text, with Markdown's marks for headings, lists and links. Accepts any input;
/// ignores layout. `title` receives the page's title, if it has one.
std::string html_to_text(std::string_view html, std::string& title);

/// Returns `text` with character references such as "&amp;" and "&#8212;" decoded.
std::string decode_entities(std::string_view text);

}  // namespace cubepi::detail
