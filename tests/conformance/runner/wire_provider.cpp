#include "wire_provider.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

#include "support.hpp"

namespace conformance {

namespace {

using cubepi::CapabilityDescriptor;
using cubepi::ReasoningCapability;
using cubepi::TemperatureSpec;
using cubepi::UnsupportedModePolicy;

/// The enumerator of that name.
template <class E>
E named(const std::string& name, std::initializer_list<E> all, std::string_view where) {
    for (const E each : all) {
        if (cubepi::to_string(each) == name) return each;
    }
    throw BadFile(std::string(where) + ": unknown word \"" + name + "\"");
}

template <class E, class Read>
auto map_of(const JsonObject& form, std::string_view key, std::initializer_list<E> all, Read read) {
    std::map<E, decltype(read(std::declval<const Json&>()))> made;
    const Json* given = form.if_contains(key);
    if (!given || given->is_null()) return made;
    for (const auto& [name, value] : as_object(*given, key))
        made[named(std::string(name), all, key)] = read(value);
    return made;
}

std::optional<std::string> path_of(const JsonObject& form, std::string_view key) {
    const std::string path = text_or(form, key, "");
    if (path.empty()) return std::nullopt;
    return path;
}

ReasoningCapability read_reasoning(const JsonObject& form) {
    only_keys(form, "reasoning",
              {"mode_payloads", "effort_path", "effort_values", "summary_path", "summary_values",
               "include_payloads", "apply_effort_when_off", "unsupported_mode_policy"});
    const auto object = [](const Json& value) { return as_object(value, "payload"); };
    const auto as_it_is = [](const Json& value) { return value; };
    using cubepi::ReasoningEffort;
    using cubepi::ReasoningMode;
    using cubepi::ReasoningSummary;
    ReasoningCapability made;
    made.mode_payloads =
        map_of(form, "mode_payloads",
               {ReasoningMode::off, ReasoningMode::automatic, ReasoningMode::on}, object);
    made.effort_path = path_of(form, "effort_path");
    made.effort_values =
        map_of(form, "effort_values",
               {ReasoningEffort::minimal, ReasoningEffort::low, ReasoningEffort::medium,
                ReasoningEffort::high, ReasoningEffort::max},
               as_it_is);
    made.summary_path = path_of(form, "summary_path");
    made.summary_values = map_of(form, "summary_values",
                                 {ReasoningSummary::none, ReasoningSummary::automatic,
                                  ReasoningSummary::detailed, ReasoningSummary::summarized},
                                 as_it_is);
    if (const Json* include = form.if_contains("include_payloads")) {
        for (const auto& [name, value] : as_object(*include, "include_payloads"))
            made.include_payloads[std::string(name)] = as_object(value, name);
    }
    made.apply_effort_when_off = flag_or(form, "apply_effort_when_off", true);
    const std::string policy = text_or(form, "unsupported_mode_policy", "warn");
    if (policy == "skip") made.unsupported_mode_policy = UnsupportedModePolicy::skip;
    if (policy == "error") made.unsupported_mode_policy = UnsupportedModePolicy::error;
    return made;
}

double real_or(const JsonObject& form, std::string_view key, double other) {
    const Json* value = form.if_contains(key);
    return value && value->is_number() ? value->to_number<double>() : other;
}

TemperatureSpec read_temperature(const JsonObject& form) {
    only_keys(form, "temperature", {"mode", "min", "max", "default", "fixed_value"});
    TemperatureSpec made;
    const std::string mode = text_or(form, "mode", "free");
    made.mode = mode == "fixed"     ? TemperatureSpec::Mode::fixed
                : mode == "ignored" ? TemperatureSpec::Mode::ignored
                                    : TemperatureSpec::Mode::free;
    made.min = real_or(form, "min", 0.0);
    made.max = real_or(form, "max", 2.0);
    const Json* fixed = form.if_contains("fixed_value");
    if (fixed && fixed->is_number()) made.fixed_value = fixed->to_number<double>();
    return made;
}

/// Applies `constructor.capability`, if there is one, to the existing values.
void read_capability(const JsonObject& constructor, CapabilityDescriptor& into) {
    const Json* given = constructor.if_contains("capability");
    if (!given || given->is_null()) return;
    const JsonObject& form = as_object(*given, "capability");
    only_keys(form, "capability",
              {"reasoning", "temperature", "max_tokens_field", "supports_tools", "supports_images",
               "supports_streaming"});
    // A configured value replaces the built-in one: without reasoning none is requested.
    ReasoningCapability none;
    none.unsupported_mode_policy = UnsupportedModePolicy::skip;
    const Json* reasoning = form.if_contains("reasoning");
    into.reasoning = reasoning && !reasoning->is_null()
                         ? read_reasoning(as_object(*reasoning, "reasoning"))
                         : none;
    if (const Json* temperature = form.if_contains("temperature"))
        into.temperature = read_temperature(as_object(*temperature, "temperature"));
    into.max_tokens_field = path_of(form, "max_tokens_field");
}

/// Additions of a case to the requests of every provider.
template <class Options>
void read_extras(const JsonObject& constructor, Options& options) {
    if (const Json* body = constructor.if_contains("extra_body")) {
        options.extra_body = as_object(*body, "extra_body");
    }
    if (const Json* headers = constructor.if_contains("extra_headers")) {
        for (const auto& [name, value] : as_object(*headers, "extra_headers")) {
            options.extra_headers.emplace_back(name, as_text(value, name));
        }
    }
}

/// The answers of a policy to its three questions in a case.
class FixedPolicy final : public cubepi::CacheMarkerPolicy {
public:
    explicit FixedPolicy(const JsonObject& form)
        : system_(flag_or(form, "system", true)), last_tool_(flag_or(form, "last_tool", true)) {
        only_keys(form, "cache_policy", {"system", "last_tool", "messages"});
        if (const Json* indices = form.if_contains("messages")) {
            default_messages_ = false;
            for (const Json& index : as_array(*indices, "messages")) {
                const std::int64_t at = as_number(index, "messages");
                if (at >= 0) messages_.push_back(static_cast<std::size_t>(at));
            }
        }
    }
    bool mark_system() const override { return system_; }
    bool mark_last_tool() const override { return last_tool_; }
    std::vector<std::size_t> message_breakpoint_indices(
        const cubepi::MessageList& messages) const override {
        return default_messages_ ? CacheMarkerPolicy::message_breakpoint_indices(messages)
                                 : messages_;
    }

private:
    bool system_;
    bool last_tool_;
    bool default_messages_ = true;
    std::vector<std::size_t> messages_;
};

std::shared_ptr<cubepi::Provider> make_anthropic_provider(const JsonObject& constructor,
                                                          std::uint16_t port) {
    cubepi::AnthropicOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://127.0.0.1:" + std::to_string(port);
    only_keys(constructor, "constructor",
              {"cache_retention", "cache_policy", "capability", "extra_body", "extra_headers"});
    const std::string retention = text_or(constructor, "cache_retention", "short");
    if (retention == "long") made.cache_retention = cubepi::CacheRetention::one_hour;
    if (retention == "none") made.cache_retention = cubepi::CacheRetention::none;
    if (const Json* policy = constructor.if_contains("cache_policy")) {
        made.cache_policy = std::make_shared<const FixedPolicy>(as_object(*policy, "cache_policy"));
    }
    read_extras(constructor, made);
    read_capability(constructor, made.capability);
    return std::make_shared<cubepi::AnthropicProvider>(std::move(made));
}

std::shared_ptr<cubepi::Provider> make_chat_provider(const JsonObject& constructor,
                                                     std::uint16_t port) {
    cubepi::OpenAIOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://127.0.0.1:" + std::to_string(port) + "/v1";
    // The cases contain the original's words for effort, regardless of what a model accepts.
    made.capability.reasoning = cubepi::openai_chat_reasoning();
    only_keys(constructor, "constructor", {"extra_body", "extra_headers", "capability"});
    read_extras(constructor, made);
    read_capability(constructor, made.capability);
    return std::make_shared<cubepi::OpenAIProvider>(std::move(made));
}

std::shared_ptr<cubepi::Provider> make_responses_provider(const JsonObject& constructor,
                                                          std::uint16_t port) {
    cubepi::OpenAIResponsesOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://127.0.0.1:" + std::to_string(port) + "/v1";
    // The cases contain the original's words for effort, regardless of what a model accepts.
    made.capability.reasoning = cubepi::openai_responses_reasoning();
    only_keys(constructor, "constructor", {"extra_body", "extra_headers", "capability"});
    read_extras(constructor, made);
    read_capability(constructor, made.capability);
    return std::make_shared<cubepi::OpenAIResponsesProvider>(std::move(made));
}

HttpAnswer parse_answer(const JsonObject& form, std::string body) {
    HttpAnswer answer;
    only_keys(form, "response",
              {"status", "headers", "cut", "pause_after_bytes", "pause_ms", "body"});
    answer.status = static_cast<int>(number_or(form, "status", 200));
    answer.headers["content-type"] = "text/event-stream";
    if (const Json* headers = form.if_contains("headers")) {
        for (const auto& [name, value] : as_object(*headers, "headers")) {
            answer.headers[name] = as_text(value, name);
        }
    }
    answer.cut = flag_or(form, "cut", false);
    answer.pause_after_bytes = static_cast<std::size_t>(number_or(form, "pause_after_bytes", 0));
    answer.pause_ms = static_cast<int>(number_or(form, "pause_ms", 0));
    answer.body = text_or(form, "body", body);
    return answer;
}

}  // namespace

cubepi::Model parse_wire_model(std::string id, const JsonObject& form) {
    only_keys(form, "model", {"temperature", "max_tokens", "reasoning", "context_window"});
    cubepi::Model model;
    model.id = std::move(id);
    if (const Json* value = form.if_contains("temperature"))
        model.temperature = value->to_number<double>();
    if (const Json* value = form.if_contains("max_tokens"))
        model.max_tokens = as_number(*value, "max_tokens");
    if (const Json* value = form.if_contains("context_window"))
        model.context_window = as_number(*value, "context_window");
    model.reasoning = flag_or(form, "reasoning", false);
    return model;
}

std::vector<HttpAnswer> parse_answers(const JsonObject& file, std::size_t stride) {
    const std::string body = text_or(file, "response_sse", "");
    std::vector<HttpAnswer> answers;
    if (const Json* list = file.if_contains("answers")) {
        for (const Json& form : as_array(*list, "answers")) {
            answers.push_back(parse_answer(as_object(form, "answers"), body));
        }
    } else {
        const Json* form = file.if_contains("response");
        answers.push_back(parse_answer(form ? as_object(*form, "response") : JsonObject(), body));
    }
    for (HttpAnswer& answer : answers) answer.stride = stride;
    return answers;
}

std::shared_ptr<cubepi::Provider> make_wire_provider(const std::string& name,
                                                     const JsonObject& constructor,
                                                     std::uint16_t port) {
    if (name == "anthropic") return make_anthropic_provider(constructor, port);
    if (name == "openai-chat") return make_chat_provider(constructor, port);
    if (name == "openai-responses") return make_responses_provider(constructor, port);
    throw Unsupported("provider " + name);
}

}  // namespace conformance
