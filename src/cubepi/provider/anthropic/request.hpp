#pragma once

#include <memory>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/cache_policy.hpp>
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

}  // namespace cubepi::detail
