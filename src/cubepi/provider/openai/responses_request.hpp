#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

// The body of POST /responses (platform.openai.com/docs/api-reference/responses/create). What a block keeps for its way
// back (D13) is in its extra keys:
//   text      "item_id", "phase", "annotations"; "refusal": true when it is one
//   thinking  "reasoning_item": the item as the endpoint gave it, with its encrypted content
//   call      none: its id is "<call id>|<item id>", as CubePi has it
//   message   "server_items": [{"at": number of blocks before it, "item": {...}}], what the endpoint's own tools did

namespace cubepi::detail {

/// What the body depends on besides the request.
struct OpenAIResponsesSettings {
    ModelProfile profile = {};
    bool store = false;
    /// The system prompt goes to `instructions`, which the endpoint does not keep with the conversation.
    bool prompt_as_instructions = false;
    JsonObject extra_body = {};
};

/// A conversation as input items.
struct ResponsesInput {
    JsonArray items = {};
    /// The last answer's items are those in [answer_begin, answer_end); both the size when there is no answer.
    std::size_t answer_begin = 0;
    std::size_t answer_end = 0;
    /// The items are not what the messages say: something was missing, or had to be left out.
    bool repaired = false;
};

/// `encrypted`: false leaves reasoning items out.
ResponsesInput responses_input(const ModelRequest& request, bool encrypted,
                               std::vector<Notice>& notices);

/// One answer as items. `own`: it came from the same family of providers, so that its ids and reasoning may go back.
JsonArray responses_items(const AssistantMessage& message, bool own, bool encrypted = true);
/// Whether an answer came from the same family as `model`'s provider.
bool is_own_answer(const AssistantMessage& message, std::string_view provider_id);

/// The body around `input`, and what had to be changed in it.
WireProtocol::Built build_openai_responses(const ModelRequest& request,
                                           const OpenAIResponsesSettings& settings,
                                           JsonArray input);

/// Whether OpenAI's strict mode takes a schema: every object closed, every property required.
bool is_strict_schema(const Json& schema);

/// An answer in the form of an unstreamed response.
JsonObject openai_response(const AssistantMessage& message);

}  // namespace cubepi::detail
