#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

// The body of POST /responses (platform.openai.com/docs/api-reference/responses/create). The extra keys of a block
// store what later requests must return (D13):
//   text      "item_id", "phase", "annotations"; "refusal": true for a refusal
//   thinking  "reasoning_item": the item as received, with its encrypted content
//   call      none: its id is "<call id>|<item id>", as in CubePi
//   message   "server_items": [{"at": number of blocks before it, "item": {...}}], items of server tools

namespace cubepi::detail {

/// Settings of the body in addition to the request.
struct OpenAIResponsesSettings {
    ModelProfile profile = {};
    bool store = false;
    /// The system prompt is sent as `instructions`, which the endpoint does not store with the conversation.
    bool prompt_as_instructions = false;
    JsonObject extra_body = {};
};

/// A conversation as input items.
struct ResponsesInput {
    JsonArray items = {};
    /// The items of the last answer are [answer_begin, answer_end); both are the size if there is no answer.
    std::size_t answer_begin = 0;
    std::size_t answer_end = 0;
    /// The items differ from the messages: something was missing or was omitted.
    bool repaired = false;
};

/// `encrypted`: false omits reasoning items.
ResponsesInput responses_input(const ModelRequest& request, bool encrypted,
                               std::vector<Notice>& notices);

/// One answer as items. `own`: it is from the same family of providers, so that its ids and reasoning may be
/// returned.
JsonArray responses_items(const AssistantMessage& message, bool own, bool encrypted = true);
/// Returns whether an answer is from the same family as the provider of `model`.
bool is_own_answer(const AssistantMessage& message, std::string_view provider_id);

/// Builds the body around `input`, with notices about changes.
WireProtocol::Built build_openai_responses(const ModelRequest& request,
                                           const OpenAIResponsesSettings& settings,
                                           JsonArray input);

/// An answer in the form of an unstreamed response.
JsonObject openai_response(const AssistantMessage& message);

}  // namespace cubepi::detail
