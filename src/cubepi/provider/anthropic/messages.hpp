#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi::detail {

/// The messages of a request in the form of the Messages API.
struct AnthropicMessages {
    /// The blocks of `wire[message].content` that a message of the request became.
    struct Place {
        std::size_t message = 0;
        std::size_t first = 0;
        std::size_t last = 0;
    };

    JsonArray wire = {};
    /// The messages that are sent: without failed answers at the end that have no content.
    MessageList source = {};
    /// Per message of `source`; empty for a message without content to send.
    std::vector<std::optional<Place>> places = {};
    std::vector<Notice> notices = {};
};

/// Converts the messages. Answers keep the signatures of the endpoint (D13); results follow their calls directly
/// (D1).
AnthropicMessages anthropic_messages(const ModelRequest& request);

/// Returns whether the signatures and encrypted parts of an answer may be sent to the model of the request: the
/// endpoint of another vendor cannot read them. Claude models are one family at all clouds.
bool same_anthropic_family(const AssistantMessage& answer, const Model& model);

/// An answer's content as the endpoint would send it unstreamed.
JsonArray anthropic_content(const AssistantMessage& answer);

}  // namespace cubepi::detail
