#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>

namespace bub::telegram {

/// The limit of the text of a message, in UTF-16 units.
inline constexpr std::size_t max_message_units = 4096;

/// A format of a part of a text (Bot API: MessageEntity). Offset and length are in UTF-16 units.
struct Entity {
    std::string type = {};  ///< bold, italic, strikethrough, code, pre, blockquote or text_link
    std::size_t offset = 0;
    std::size_t length = 0;
    std::string language = {};  ///< of `pre`; may be empty
    std::string url = {};       ///< of `text_link`

    friend bool operator==(const Entity&, const Entity&) = default;
};

struct FormattedText {
    std::string text = {};  ///< valid UTF-8
    /// Sorted by offset, the outer one first. Each is inside of the text, not empty, begins and ends with a character that
    /// is not white space, and is inside or outside of each other one as a whole.
    std::vector<Entity> entities = {};

    friend bool operator==(const FormattedText&, const FormattedText&) = default;
};

/// Returns the length of valid UTF-8 in UTF-16 units.
std::size_t utf16_length(std::string_view text) noexcept;

/// Converts Markdown as models write it. Marks that are not Markdown (globs, snake_case, 2 * 3) are unchanged. Tables become
/// preformatted text. Invalid UTF-8 is replaced, and control characters, which Telegram removes, are removed.
FormattedText format_markdown(std::string_view markdown);

/// Divides a text into messages of at most `limit` units (at least 2): between paragraphs, lines or words if possible. An entity
/// that fits into one message is not divided if the text can be divided elsewhere; a longer one continues in the next
/// message. A surrogate pair is never divided, a grapheme only if it is longer than the limit. White space at the
/// divisions is dropped. Returns nothing for a text of white space.
std::vector<FormattedText> split_text(const FormattedText& text,
                                      std::size_t limit = max_message_units);

/// Returns the entities in the form of the Bot API.
cubepi::JsonArray to_json(const std::vector<Entity>& entities);

}  // namespace bub::telegram
