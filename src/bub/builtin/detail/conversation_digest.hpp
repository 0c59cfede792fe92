#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message_list.hpp>

namespace bub::detail {

/// A conversation as plain text, for a model that is asked to summarize it. Calls of tools and their results become text
/// too, since a request without tools must not contain them.
class ConversationDigest {
public:
    explicit ConversationDigest(const cubepi::MessageList& messages);

    /// The messages that the text is made of; answers that broke off before their first word are not among them.
    std::size_t message_count() const noexcept { return parts_.size(); }
    /// False when there is only the user's first message: nothing would be lost.
    bool has_history() const noexcept { return has_history_; }
    /// The size of the whole text in bytes.
    std::size_t size() const noexcept;
    /// The text in at most `limit` bytes: the first message, which may be the summary of earlier ones, and the newest
    /// messages. States how many messages between them are omitted.
    std::string text(std::size_t limit) const;

private:
    std::vector<std::string> parts_;
    bool has_history_ = false;
};

/// At most `limit` bytes of valid UTF-8: beginning and end of a longer text, and how much is omitted between them.
std::string shortened_middle(std::string_view text, std::size_t limit);

}  // namespace bub::detail
