#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi::detail {

/// The messages of a request as the Messages API wants them.
struct AnthropicMessages {
    /// The blocks of `wire[message].content` that a message of the request became.
    struct Place {
        std::size_t message = 0;
        std::size_t first = 0;
        std::size_t last = 0;
    };

    JsonArray wire = {};
    /// The messages that count: without failed answers at the end, of which nothing came.
    MessageList source = {};
    /// Per message of `source`; empty for one of which nothing is sent.
    std::vector<std::optional<Place>> places = {};
    std::vector<Notice> notices = {};
};

/// Answers come with the signatures that the endpoint gave them (D13), results right after their calls (D1).
AnthropicMessages anthropic_messages(const ModelRequest& request);

/// Whether an answer's signatures and encrypted parts may go to the request's model: another vendor's endpoint cannot
/// read them. Claude is Claude at any cloud.
bool same_anthropic_family(const AssistantMessage& answer, const Model& model);

/// An answer's content as the endpoint would send it unstreamed.
JsonArray anthropic_content(const AssistantMessage& answer);

}  // namespace cubepi::detail
