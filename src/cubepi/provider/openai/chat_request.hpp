#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// What the body depends on besides the request.
struct OpenAIChatSettings {
    CapabilityDescriptor capability = {};  ///< what the provider was told for this model
    std::string_view base_url = {};        ///< tells compatible servers apart; outlives the call
    bool openai_endpoint = false;  ///< OpenAI's own, not a server that is compatible with it
    JsonObject extra_body = {};
};

/// The body of POST /chat/completions, and what had to be changed in it.
WireProtocol::Built build_openai_chat(const ModelRequest& request,
                                      const OpenAIChatSettings& settings);

/// The messages alone. `own_provider`: whose thinking may be sent back.
JsonArray openai_chat_messages(const ModelRequest& request, const CapabilityDescriptor& capability,
                               std::vector<Notice>& notices);

/// Whether OpenAI's endpoint can hold this model's answers to a JSON Schema (as of 2026-11: all but the oldest).
bool openai_takes_response_format(std::string_view model_id);

/// An answer in the form of an unstreamed chat.completion.
JsonObject openai_chat_completion(const AssistantMessage& message);

}  // namespace cubepi::detail
