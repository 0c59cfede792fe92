#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/message_list.hpp>

namespace cubepi::app {

/// The head of the page of a session.
struct SessionPageHead {
    std::string title = {};
    std::string facts = {};  ///< one line below the title
};

/// Returns a conversation as an HTML page, complete in one file: without scripts, and loading nothing. All text is escaped; the
/// pictures that models take are in it, other ones are only named.
std::string session_page(const MessageList& messages, const SessionPageHead& head);

/// `text` for an HTML element or an attribute in quotes. Control characters are removed, characters that change the order
/// of others become U+FFFD.
std::string html_text(std::string_view text);

}  // namespace cubepi::app
