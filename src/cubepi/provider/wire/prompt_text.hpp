#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message.hpp>

// How messages become text for endpoints, the same for all providers.

namespace cubepi::detail {

/// What a call without a result is answered with on the wire (D1).
inline constexpr std::string_view interrupted_result =
    "The tool call was interrupted; whether it took effect is unknown.";

/// The content with the sender's name of a group chat in front: "[Ann]: Hi" (metadata sender_display_name).
ContentList<Content> with_sender(const UserMessage& message);
bool has_images(const ContentList<Content>& content) noexcept;
/// The text blocks, with `separator` between them.
std::string joined_text(const ContentList<Content>& content, std::string_view separator);
/// A data URL, or the URL that the image is.
std::string image_url(const ImageContent& image);
/// An id of at most `longest` bytes (22 or more): endpoints refuse longer ones, which other endpoints gave. The same for
/// the same id, so that calls and results still meet.
std::string shortened_id(std::string_view id, std::size_t longest);
/// The text of a failed tool, recognisable as such where the wire has no flag for it.
std::string marked_error(std::string text);

}  // namespace cubepi::detail
