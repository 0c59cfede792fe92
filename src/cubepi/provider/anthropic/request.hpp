#pragma once

#include <memory>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/cache_policy.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// What the body depends on besides the request.
struct AnthropicSettings {
    ModelProfile profile = {};
    CacheRetention cache_retention = CacheRetention::five_minutes;
    std::shared_ptr<const CacheMarkerPolicy> cache_policy = {};  ///< null: the default one
    JsonObject extra_body = {};
};

/// The body of POST /v1/messages, and what had to be changed in it.
WireProtocol::Built build_anthropic(const ModelRequest& request, const AnthropicSettings& settings);

/// An answer in the form of an unstreamed message.
JsonObject anthropic_message(const AssistantMessage& answer);

/// Whether a Claude model can be held to a JSON Schema (as of 2026-11).
bool claude_takes_response_format(const ModelProfile& profile, std::string_view model_id);

}  // namespace cubepi::detail
