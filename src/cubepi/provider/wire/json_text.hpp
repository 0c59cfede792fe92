#pragma once

#include <deque>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Unescapes JSON strings, of which two consecutive ones may share a surrogate pair: servers that split their text
/// anywhere send "\ud83d" in one chunk and "\ude00" in the next.
class SplitText {
public:
    /// A first half waits for its second.
    bool holds_back() const noexcept { return high_ != 0; }
    /// `token` is the string with its quotes. The result lives until the next call.
    std::string_view unescape(std::string_view token);
    /// Returns U+FFFD for a first half without a second.
    std::string_view give_up() noexcept;

    std::string scratch;
    /// Texts that must outlive the next unescape.
    std::deque<std::string> keep;

private:
    void unit(unsigned code_unit);

    unsigned high_ = 0;
};

void append_utf8(std::string& out, unsigned code_point);

/// One part of a content list: {"type": "text", "text": ...} or {"type": "thinking", "thinking": [...]}.
void collect_content_part(const Json& part, std::string& text, std::string& thinking);

/// The text in a list of reasoning items.
std::string thinking_details_text(const JsonArray& details);
/// Adds a piece of a reasoning item; pieces of the same item (type and index) are joined.
void append_thinking_detail(JsonArray& details, const JsonObject& piece);

}  // namespace cubepi::detail
