#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message.hpp>

// Conversion of messages to text for endpoints, shared by all providers.

namespace cubepi::detail {

/// The result sent for a tool call without a stored result (D1).
inline constexpr std::string_view interrupted_result =
    "The tool call was interrupted; whether it took effect is unknown.";

/// The content, prefixed by the sender in a group chat: "[Ann]: Hi" (metadata sender_display_name).
ContentList<Content> with_sender(const UserMessage& message);
bool has_images(const ContentList<Content>& content) noexcept;
/// The text blocks, with `separator` between them.
std::string joined_text(const ContentList<Content>& content, std::string_view separator);
/// The data URL or the URL of an image.
std::string image_url(const ImageContent& image);
/// Shortens an id to at most `longest` bytes (22 or more): endpoints reject longer ones, which other endpoints
/// assign. The same id always yields the same result, so that calls and results still match.
std::string shortened_id(std::string_view id, std::size_t longest);
/// The text of a failed tool, marked as an error for APIs without a flag for it.
std::string marked_error(std::string text);

}  // namespace cubepi::detail
