#pragma once

#include <string_view>

#include <bub/channel/telegram/styled_text.hpp>

namespace bub::telegram {

/// Adds one line of Markdown to `out`: emphasis, code, links and escapes as formats on top of `style`.
void add_markdown_line(StyledText& out, std::string_view line, const TextStyle& style);

}  // namespace bub::telegram
