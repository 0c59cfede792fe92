#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/detail/wire_protocol.hpp>

namespace cubepi::detail {

/// What an OpenAI model of a known family wants, by its id (as of 2026-11).
struct OpenAIModelTraits {
    bool reasons = false;                     ///< an o-series or GPT-5 model
    bool refuses_temperature = false;         ///< whatever its effort
    bool temperature_without_effort = false;  ///< takes one only when its effort is "none"
};
OpenAIModelTraits openai_model_traits(std::string_view model_id);

/// What the body depends on besides the request.
struct OpenAIChatSettings {
    CapabilityDescriptor capability = {};
    bool openai_endpoint = false;  ///< OpenAI's own, not a server that is compatible with it
    JsonObject extra_body = {};
};

/// The body of POST /chat/completions, and what had to be changed in it.
WireProtocol::Built build_openai_chat(const ModelRequest& request,
                                      const OpenAIChatSettings& settings);

/// The messages alone. `own_provider`: whose thinking may be sent back.
JsonArray openai_chat_messages(const ModelRequest& request, const CapabilityDescriptor& capability,
                               std::vector<Notice>& notices);

/// An answer in the form of an unstreamed chat.completion.
JsonObject openai_chat_completion(const AssistantMessage& message);

}  // namespace cubepi::detail
