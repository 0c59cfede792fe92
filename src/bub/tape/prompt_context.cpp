#include <bub/tape/prompt_context.hpp>

namespace bub {

namespace {

constexpr std::string_view before_date = "\n---Date: ";
constexpr std::string_view after_date = "---\n";

}  // namespace

std::string with_context(std::string_view context, std::string_view date,
                         std::string_view content) {
    if (context.empty()) return std::string(content);
    std::string text(context);
    text += before_date;
    text += date;
    text += after_date;
    text += content;
    return text;
}

std::string_view without_context(std::string_view text) noexcept {
    const std::size_t line = text.find('\n');
    if (line == text.npos || text.substr(0, line).find('=') == text.npos) return text;
    if (!text.substr(line).starts_with(before_date)) return text;
    const std::size_t end = text.find('\n', line + 1);
    if (end == text.npos || !text.substr(0, end + 1).ends_with(after_date)) return text;
    return text.substr(end + 1);
}

}  // namespace bub
