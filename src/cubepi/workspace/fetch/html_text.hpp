#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// What a person reads of an HTML page, as plain text with Markdown's marks for headings, lists and links. Takes
/// whatever it gets; knows no layout. `title` gets the page's title when there is one.
std::string html_to_text(std::string_view html, std::string& title);

/// `text` with "&amp;", "&#8212;" and the like replaced by what they stand for.
std::string decode_entities(std::string_view text);

}  // namespace cubepi::detail
