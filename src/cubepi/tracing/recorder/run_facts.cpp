#include <cubepi/tracing/recorder/run_facts.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/recorder/chat_attributes.hpp>

namespace cubepi::detail {

namespace {

bool is_empty(const ResponseDetails& details) {
    return details.model.empty() && details.finish_reason.empty() && details.api_type.empty() &&
           details.service_tier.empty() && details.system_fingerprint.empty();
}

double first_chunk_of(const ProviderOutcome& outcome) {
    if (!outcome.first_chunk) return -1;
    return std::chrono::duration<double>(*outcome.first_chunk - outcome.started).count();
}

}  // namespace

ChatStart start_of(const ProviderCall& call, const RequestPayload& payload) {
    const JsonObject* body = payload.built();
    return ChatStart{
        .call = &call,
        .texts = texts_of(call.model()),
        .purpose = call.purpose(),
        .tool_call_id = call.request.options.tool_call_id(),
        .system_prompt = call.request.system_prompt,
        .tools = call.request.tools,
        .settings = body ? std::make_unique<const Attributes>(settings_of(*body)) : nullptr,
        .attempt = call.attempt()};
}

ChatEnd end_of(const ProviderCall& call, const ProviderOutcome& outcome) {
    const AssistantMessage* answer = outcome.message ? outcome.message.assistant() : nullptr;
    return answer ? ChatEnd(call, outcome, *answer) : ChatEnd(call, outcome);
}

ChatEnd::ChatEnd(const ProviderCall& ended, const ProviderOutcome& outcome)
    : call(&ended), first_chunk(first_chunk_of(outcome)), rare(std::make_unique<Rare>()) {
    rare->model = ended.model();
}

ChatEnd::ChatEnd(const ProviderCall& ended, const ProviderOutcome& outcome,
                 const AssistantMessage& message)
    : call(&ended),
      answer(message),
      cost(cost_of(message, ended.model())),
      first_chunk(first_chunk_of(outcome)),
      has_answer(true) {
    if (!outcome.error && is_empty(outcome.details)) return;
    rare = std::make_unique<Rare>();
    rare->error = outcome.error;
    rare->details = outcome.details;
}

TurnEnd end_of(const TurnEndEvent& event, bool with_answer) {
    TurnEnd turn;
    const AssistantMessage* answer = event.message ? event.message.assistant() : nullptr;
    if (!answer) return turn;
    turn.has_answer = true;
    turn.stop_reason = answer->stop_reason;
    turn.error = answer->error;
    turn.tool_calls = static_cast<std::uint32_t>(
        std::count_if(answer->content.begin(), answer->content.end(),
                      [](const auto& block) { return std::holds_alternative<ToolCall>(block); }));
    if (with_answer) turn.partial = event.message;
    return turn;
}

}  // namespace cubepi::detail
