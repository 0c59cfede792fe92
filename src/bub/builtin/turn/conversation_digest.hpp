#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message_list.hpp>

namespace bub::detail {

/// A conversation as plain text, for a model that is asked to summarize it. Tool calls and their results become text
/// too, because a request without tools must not contain them.
class ConversationDigest {
public:
    explicit ConversationDigest(const cubepi::MessageList& messages);

    /// Returns the number of messages in the text; answers that ended before their first word are not included.
    std::size_t message_count() const noexcept { return parts_.size(); }
    /// Returns false if there is only the user's first message, so that nothing would be lost.
    bool has_history() const noexcept { return has_history_; }
    /// Returns the size of the whole text in bytes.
    std::size_t size() const noexcept;
    /// Returns the text in at most `limit` bytes: the first message, which may be the summary of earlier ones, and the
    /// newest messages. States how many messages between them are omitted.
    std::string text(std::size_t limit) const;

private:
    std::vector<std::string> parts_;
    bool has_history_ = false;
};

/// Returns at most `limit` bytes of valid UTF-8: beginning and end of a longer text, and how much is omitted between
/// them.
std::string shortened_middle(std::string_view text, std::size_t limit);

}  // namespace bub::detail
