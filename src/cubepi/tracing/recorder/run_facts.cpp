#include <cubepi/tracing/recorder/run_facts.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <variant>

#include <cubepi/provider/cost.hpp>

namespace cubepi::detail {

namespace {

struct ProviderName {
    std::string_view id;
    std::string_view name;
};

/// The well-known values of `gen_ai.provider.name`, and our own of the scripted model.
constexpr std::array provider_names{
    ProviderName{"anthropic", "anthropic"},
    ProviderName{"openai", "openai"},
    ProviderName{"cohere", "cohere"},
    ProviderName{"groq", "groq"},
    ProviderName{"deepseek", "deepseek"},
    ProviderName{"perplexity", "perplexity"},
    ProviderName{"faux", "faux"},
    ProviderName{"azure_openai", "azure.ai.openai"},
    ProviderName{"gemini", "gcp.gemini"},
    ProviderName{"vertex_ai", "gcp.vertex_ai"},
    ProviderName{"bedrock", "aws.bedrock"},
    ProviderName{"mistral", "mistral_ai"},
    ProviderName{"xai", "x_ai"},
    ProviderName{"watsonx", "ibm.watsonx.ai"},
};

std::string_view text_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

const JsonObject* object_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value ? value->if_object() : nullptr;
}

std::optional<double> number_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (!value || !value->is_number()) return std::nullopt;
    return value->to_number<double>();
}

void add_integer(Attributes& attributes, AttributeKey key, const JsonObject& payload,
                 std::string_view member) {
    const Json* value = payload.if_contains(member);
    if (!value) return;
    if (value->is_int64()) {
        attributes.set(std::move(key), value->get_int64());
    } else if (value->is_uint64()) {
        attributes.set(std::move(key), static_cast<std::int64_t>(value->get_uint64()));
    }
}

std::string_view thinking_level(const JsonObject& payload) {
    if (const JsonObject* thinking = object_of(payload, "thinking");
        thinking && text_of(*thinking, "type") == "enabled") {
        return "on";
    }
    const JsonObject* reasoning = object_of(payload, "reasoning");
    return reasoning ? text_of(*reasoning, "effort") : std::string_view();
}

void add_text(Attributes& attributes, AttributeKey key, std::string_view text) {
    if (!text.empty()) attributes.set(std::move(key), SharedString(text));
}

Attributes settings_of(const JsonObject& payload) {
    Attributes attributes;
    add_integer(attributes, "gen_ai.request.max_tokens", payload, "max_tokens");
    add_integer(attributes, "gen_ai.request.max_tokens", payload, "max_completion_tokens");
    add_integer(attributes, "gen_ai.request.max_tokens", payload, "max_output_tokens");
    if (const auto temperature = number_of(payload, "temperature"))
        attributes.add("gen_ai.request.temperature", *temperature);
    if (const auto top_p = number_of(payload, "top_p"))
        attributes.add("gen_ai.request.top_p", *top_p);
    add_text(attributes, "openai.request.service_tier", text_of(payload, "service_tier"));
    add_text(attributes, "cubepi.llm.thinking_level", thinking_level(payload));
    return attributes;
}

/// Returns the texts of a model. They are created only if the model is another one than at the last call on this thread.
const std::shared_ptr<const ModelTexts>& texts_of(const Model& model) {
    thread_local std::shared_ptr<const ModelTexts> recent;
    if (!recent || recent->model != model.id || recent->provider_id != model.provider_id) {
        ModelTexts texts;
        texts.provider_id = model.provider_id;
        texts.span_name = SharedString("chat " + model.id);
        texts.provider = provider_name(model.provider_id);
        texts.model = SharedString(model.id);
        recent = std::make_shared<const ModelTexts>(std::move(texts));
    }
    return recent;
}

bool is_empty(const ResponseDetails& details) {
    return details.model.empty() && details.finish_reason.empty() && details.api_type.empty() &&
           details.service_tier.empty() && details.system_fingerprint.empty();
}

double first_chunk_of(const ProviderOutcome& outcome) {
    if (!outcome.first_chunk) return -1;
    return std::chrono::duration<double>(*outcome.first_chunk - outcome.started).count();
}

}  // namespace

AttributeValue provider_name(std::string_view provider_id) {
    for (const ProviderName& one : provider_names) {
        if (one.id == provider_id) return AttributeValue::of_literal(one.name);
    }
    if (provider_id.empty()) return "unknown";
    return "unknown:" + std::string(provider_id);
}

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
