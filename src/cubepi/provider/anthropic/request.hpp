#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// Settings of the body in addition to the request.
struct AnthropicSettings {
    ModelProfile profile = {};
    CacheRetention cache_retention = CacheRetention::five_minutes;
    std::shared_ptr<const CacheMarkerPolicy> cache_policy = {};  ///< null: the default one
    JsonObject extra_body = {};
};

/// Builds the body of POST /v1/messages, with notices about changes.
WireProtocol::Built build_anthropic(const ModelRequest& request, const AnthropicSettings& settings);

/// An answer in the form of an unstreamed message.
JsonObject anthropic_message(const AssistantMessage& answer);

/// Returns whether a Claude model can enforce a JSON Schema (as of 2026-11).
bool claude_takes_response_format(const ModelProfile& profile, std::string_view model_id);

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
