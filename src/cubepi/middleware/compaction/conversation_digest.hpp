#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message_list.hpp>

namespace cubepi::detail {

/// A conversation as plain text, for a model that is asked to summarize it. Tool calls and their results become text
/// too, because a request without tools must not contain them.
class ConversationDigest {
public:
    /// `before` becomes the first part, unless it is empty.
    ConversationDigest(const std::string& before, const Message* first, const Message* last);

    /// Returns the size of the whole text in bytes.
    std::size_t size() const noexcept;
    /// Returns the text in at most `limit` bytes: the first part and the newest messages. States how many messages between
    /// them are omitted.
    std::string text(std::size_t limit) const;

private:
    std::vector<std::string> parts_;
};

/// Returns at most `limit` bytes of valid UTF-8: beginning and end of a longer text, and how much is omitted between
/// them.
std::string shortened_middle(std::string_view text, std::size_t limit);

}  // namespace cubepi::detail
