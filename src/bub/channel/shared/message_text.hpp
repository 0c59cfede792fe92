#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <bub/envelope.hpp>

namespace bub::shared {

/// Returns the length of valid UTF-8 in UTF-16 units, in which services state their limits.
std::size_t utf16_length(std::string_view text) noexcept;

/// A part of a text that is divided only if it does not fit into one message, such as a link. In UTF-16 units.
struct TextSpan {
    std::size_t offset = 0;
    std::size_t length = 0;
    bool is_code = false;  ///< the indentation of its lines is kept
};

/// A part of a text for one message. Offset and length are in UTF-16 units.
struct TextPart {
    std::string_view text = {};
    std::size_t offset = 0;
    std::size_t length = 0;
};

/// Divides valid UTF-8 into messages of at most `limit` UTF-16 units (at least 2): between paragraphs, lines or words if possible. A
/// surrogate pair is never divided, a grapheme only if it is longer than the limit. White space at the divisions is dropped. Returns
/// nothing for a text of white space.
std::vector<TextPart> split_text(std::string_view text, std::size_t limit,
                                 const std::vector<TextSpan>& spans = {});

/// Returns the beginning of a text, of at most so many UTF-16 units and a mark; invalid UTF-8 is replaced.
std::string shortened(std::string_view text, std::size_t units);

/// Returns a text of at most so many UTF-16 units (at least 200): all of it, or its beginning and its end, and between them a line with the
/// number of bytes that are left out and a `note` (of at most 60 characters). Blanks at the cuts stay. Invalid UTF-8 is replaced.
std::string with_both_ends(std::string_view text, std::size_t units, std::string_view note);

/// Replaces line breaks and other control characters by blanks: a name that a sender chooses must not add lines to a prompt.
std::string one_line(std::string text);

/// Returns the name of a file for its receiver, made of its type if it has none.
std::string file_name(const MediaItem& item);

}  // namespace bub::shared
