#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// Settings of the body in addition to the request.
struct OpenAIChatSettings {
    CapabilityDescriptor capability = {};  ///< the provider's settings for this model
    std::string_view base_url = {};        ///< tells compatible servers apart; outlives the call
    bool openai_endpoint = false;  ///< OpenAI's own, not a server that is compatible with it
    JsonObject extra_body = {};
};

/// Builds the body of POST /chat/completions, with notices about changes.
WireProtocol::Built build_openai_chat(const ModelRequest& request,
                                      const OpenAIChatSettings& settings);

/// Converts only the messages. `own_provider`: the provider whose thinking may be returned.
JsonArray openai_chat_messages(const ModelRequest& request, const CapabilityDescriptor& capability,
                               std::vector<Notice>& notices);

/// Returns whether OpenAI's endpoint can enforce a JSON Schema for this model's answers (as of 2026-11: all but the
/// oldest).
bool openai_takes_response_format(std::string_view model_id);

/// An answer in the form of an unstreamed chat.completion.
JsonObject openai_chat_completion(const AssistantMessage& message);

}  // namespace cubepi::detail
