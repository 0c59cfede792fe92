#include <cubepi/tracing/recorder/conventions.hpp>

#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/schema/json_text.hpp>

#include <array>
#include <optional>
#include <string>
#include <utility>

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

void add_text(Attributes& attributes, AttributeKey key, std::string_view text) {
    if (!text.empty()) attributes.set(std::move(key), SharedString(text));
}

void add_count(Attributes& attributes, AttributeKey key, const TokenCount& count, bool with_zero) {
    const std::int64_t value = count.value_or(0);
    if (value > 0 || with_zero) attributes.add(std::move(key), value);
}

std::string_view thinking_level(const JsonObject& payload) {
    if (const JsonObject* thinking = object_member(payload, "thinking");
        thinking && string_member(*thinking, "type") == "enabled") {
        return "on";
    }
    const JsonObject* reasoning = object_member(payload, "reasoning");
    return reasoning ? string_member(*reasoning, "effort") : std::string_view();
}

/// Adds the settings in the body of a request.
void add_settings(Attributes& attributes, const JsonObject& body) {
    add_integer(attributes, "gen_ai.request.max_tokens", body, "max_tokens");
    add_integer(attributes, "gen_ai.request.max_tokens", body, "max_completion_tokens");
    add_integer(attributes, "gen_ai.request.max_tokens", body, "max_output_tokens");
    if (const auto temperature = number_of(body, "temperature"))
        attributes.add("gen_ai.request.temperature", *temperature);
    if (const auto top_p = number_of(body, "top_p")) attributes.add("gen_ai.request.top_p", *top_p);
    add_text(attributes, "openai.request.service_tier", string_member(body, "service_tier"));
    add_text(attributes, "cubepi.llm.thinking_level", thinking_level(body));
    // Gemini has them in an object of their own.
    const Json* const config = body.if_contains("generationConfig");
    if (!config || !config->is_object()) return;
    const JsonObject& own = config->get_object();
    add_integer(attributes, "gen_ai.request.max_tokens", own, "maxOutputTokens");
    if (const auto temperature = number_of(own, "temperature"))
        attributes.add("gen_ai.request.temperature", *temperature);
    if (const auto top_p = number_of(own, "topP")) attributes.add("gen_ai.request.top_p", *top_p);
    const Json* const thinking = own.if_contains("thinkingConfig");
    if (thinking && thinking->is_object()) {
        add_text(attributes, "cubepi.llm.thinking_level",
                 string_member(thinking->get_object(), "thinkingLevel"));
    }
}

/// Returns the value as an attribute; empty if it has no form as one.
std::optional<AttributeValue> attribute_of(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::string: return SharedString(std::string_view(value.get_string()));
        case boost::json::kind::bool_: return value.get_bool();
        case boost::json::kind::int64: return value.get_int64();
        case boost::json::kind::double_: return value.get_double();
        case boost::json::kind::uint64: return static_cast<double>(value.get_uint64());
        case boost::json::kind::array: {
            std::vector<SharedString> list;
            for (const Json& item : value.get_array()) {
                list.emplace_back(item.is_string() ? std::string(item.get_string())
                                                   : json_text(item));
            }
            return list;
        }
        case boost::json::kind::object: return SharedString(json_text(value));
        case boost::json::kind::null: break;
    }
    return std::nullopt;
}

/// A random UUID, version 4.
std::string random_uuid() {
    TraceId id = TraceId::random();
    id.bytes[6] = static_cast<std::uint8_t>((id.bytes[6] & 0x0fU) | 0x40U);
    id.bytes[8] = static_cast<std::uint8_t>((id.bytes[8] & 0x3fU) | 0x80U);
    std::string text = id.hex();
    for (const std::size_t at : {20U, 16U, 12U, 8U}) text.insert(at, 1, '-');
    return text;
}

}  // namespace

AttributeValue provider_name(std::string_view provider_id) {
    for (const ProviderName& one : provider_names) {
        if (one.id == provider_id) return AttributeValue::of_literal(one.name);
    }
    if (provider_id.empty()) return "unknown";
    return "unknown:" + std::string(provider_id);
}

void add_request_attributes(Attributes& attributes, const ProviderCall& call,
                            const JsonObject* body) {
    attributes.add("gen_ai.operation.name", "chat");
    attributes.add("gen_ai.provider.name", provider_name(call.model().provider_id));
    attributes.add("gen_ai.request.model", shared_name(call.model().id));
    attributes.add("gen_ai.request.stream", true);
    if (!call.purpose().empty()) attributes.add("cubepi.llm.purpose", call.purpose());
    if (call.attempt() > 1)
        attributes.add("cubepi.llm.attempt", static_cast<std::int64_t>(call.attempt()));
    if (body) add_settings(attributes, *body);
}

void add_response_attributes(Attributes& attributes, const AssistantMessage& answer,
                             const ResponseDetails& details, std::optional<double> cost) {
    add_text(attributes, "openai.api.type", details.api_type);
    add_text(attributes, "openai.response.system_fingerprint", details.system_fingerprint);
    add_text(attributes, "openai.response.service_tier", details.service_tier);
    if (!answer.response_id.empty()) attributes.add("gen_ai.response.id", answer.response_id);
    std::vector<SharedString> finish_reasons{
        details.finish_reason.empty() ? answer.stop_reason : shared_name(details.finish_reason)};
    attributes.add("gen_ai.response.finish_reasons", std::move(finish_reasons));
    SharedString answering = details.model.empty() ? answer.model_id : shared_name(details.model);
    if (!answering.empty()) attributes.add("gen_ai.response.model", std::move(answering));
    if (!answer.usage) return;
    const Usage& usage = *answer.usage;
    // The conventions count cached tokens as input.
    const std::int64_t input = usage.input_tokens.value_or(0) +
                               usage.cache_read_tokens.value_or(0) +
                               usage.cache_write_tokens.value_or(0);
    attributes.add("gen_ai.usage.input_tokens", input);
    add_count(attributes, "gen_ai.usage.output_tokens", usage.output_tokens, true);
    add_count(attributes, "gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens, false);
    add_count(attributes, "gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens,
              false);
    add_count(attributes, "gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens, false);
    if (cost) attributes.add("cubepi.usage.cost", *cost);
}

std::string error_type_of_call(const ErrorInfo& error) {
    if (error.code == ErrorCode::timeout) return "timeout";
    return "cubepi.errors." + (error.type.empty() ? std::string("ProviderError") : error.type);
}

std::string error_type_of_run(const Error& error) {
    if (const auto* of_provider = dynamic_cast<const ProviderError*>(&error))
        return error_type_of_call(of_provider->info());
    if (error.code() == ErrorCode::timeout) return "timeout";
    if (error.code() == ErrorCode::unknown) return "cubepi.error";
    return "cubepi." + std::string(to_string(error.code()));
}

SharedString prompt_digest(std::string_view prompt) {
    return SharedString(sha256_hex(prompt).substr(0, 16));
}

std::string_view question_kind(const HitlRequest& request) {
    if (std::holds_alternative<ApproveRequest>(request.payload)) return "approve";
    return std::holds_alternative<ConfirmRequest>(request.payload) ? "confirm" : "ask";
}

std::string_view answer_outcome(std::string_view kind, const HitlAnswerEvent& event) {
    if (event.cancelled) return "cancelled";
    if (kind == "confirm") {
        const bool* yes = event.answer.if_bool();
        if (!yes) return "answered";
        return *yes ? "approved" : "denied";
    }
    const JsonObject* answer = event.answer.if_object();
    if (kind != "approve" || !answer) return "answered";
    const std::string_view decision = string_member(*answer, "decision");
    if (decision == "approve") return "approved";
    if (decision == "deny") return "denied";
    return decision == "edit" ? "edited" : "answered";
}

std::optional<QuestionEnd> question_end(const Notice& notice) {
    if (notice.code != "hitl_request_ended") return std::nullopt;
    return QuestionEnd{string_member(notice.details, "question_id"),
                       string_member(notice.details, "outcome")};
}

std::vector<Attribute> attributes_of(const TraceContext& context) {
    std::vector<Attribute> found;
    if (!context.tags.empty()) {
        std::vector<SharedString> tags(context.tags.begin(), context.tags.end());
        found.push_back(Attribute{"cubepi.tags", std::move(tags)});
    }
    for (const auto& [key, value] : context.metadata) {
        std::optional<AttributeValue> attribute = attribute_of(value);
        if (!attribute) continue;
        found.push_back(Attribute{"cubepi.metadata." + std::string(key), std::move(*attribute)});
    }
    return found;
}

Resource resource_of(const TracerOptions& options) {
    Resource resource;
    resource.attributes = options.resource_attributes;
    const auto set = [&resource](AttributeKey key, const std::string& value) {
        if (!value.empty()) resource.attributes.set(std::move(key), SharedString(value));
    };
    set("telemetry.sdk.language", "cpp");
    set("telemetry.sdk.name", "cubepi");
    set("telemetry.sdk.version", std::string(version()));
    set("service.instance.id", options.service_instance_id);
    set("service.name", options.service_name);
    set("service.namespace", options.service_namespace);
    set("service.version", options.service_version);
    set("deployment.environment.name", options.deployment_environment);
    set("gen_ai.agent.name", options.agent_name);
    set("gen_ai.agent.id", options.agent_id);
    set("gen_ai.agent.description", options.agent_description);
    set("gen_ai.agent.version", options.agent_version);
    const Attributes& all = resource.attributes;
    if (!all.find("service.instance.id")) set("service.instance.id", random_uuid());
    if (!all.find("service.name")) set("service.name", "unknown_service");
    return resource;
}

}  // namespace cubepi::detail
