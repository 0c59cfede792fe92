#include "provider_kinds.hpp"

#include <algorithm>
#include <array>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/gemini.hpp>
#include <cubepi/provider/gemini/generate_api.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

#include "endpoint.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::minutes local_timeout(30);

template <class Provider, class Options>
BoundModel bound(const Endpoint& endpoint, const std::string& id, const CallLimits& limits) {
    Options options;
    options.api_key = endpoint.api_key;
    options.base_url = endpoint.base_url;
    options.provider_id = endpoint.provider_id();
    if (!endpoint.is_elsewhere()) {
        // A server on this machine may load the model first, and reads a long prompt for many minutes.
        options.first_byte_timeout = local_timeout;
        options.idle_timeout = local_timeout;
    }
    if (limits.first_byte) options.first_byte_timeout = *limits.first_byte;
    if (limits.idle) options.idle_timeout = *limits.idle;
    if (limits.time) options.total_timeout = *limits.time;
    if (limits.has_fallbacks) options.retry.rate_limit_time = std::chrono::milliseconds(0);
    if constexpr (requires { options.thinking_tag; }) options.thinking_tag = endpoint.thinking_tag;
    const Provider provider(std::move(options));
    if (!limits.max_tokens) return provider.model(id);
    Model spec = provider.model(id).spec();
    spec.max_tokens = limits.max_tokens;
    return provider.model(std::move(spec));
}

std::string one_page(const JsonObject& /*page*/) { return {}; }

std::string anthropic_page(const JsonObject& page) {
    if (!detail::flag_member(page, "has_more")) return {};
    const std::string_view last = detail::string_member(page, "last_id");
    return last.empty() ? std::string() : "after_id=" + detail::percent_encoded(last);
}

std::string gemini_page(const JsonObject& page) {
    const std::string_view token = detail::string_member(page, "nextPageToken");
    return token.empty() ? std::string() : "pageToken=" + detail::percent_encoded(token);
}

bool is_gemini(const JsonObject& body, std::string_view /*provider*/) {
    return body.contains("contents");
}

bool is_responses(const JsonObject& body, std::string_view /*provider*/) {
    return body.contains("input");
}

bool is_anthropic(const JsonObject& body, std::string_view provider) {
    return body.contains("messages") && (provider == "anthropic" || body.contains("system"));
}

/// The scripted model has a form of its own.
bool is_chat(const JsonObject& body, std::string_view provider) {
    return body.contains("messages") && provider != "faux";
}

std::string responses_path(std::string_view /*model*/) { return "/responses"; }
std::string messages_path(std::string_view /*model*/) { return "/v1/messages"; }
std::string chat_path(std::string_view /*model*/) { return "/chat/completions"; }

constexpr std::string_view bearer = "Authorization: Bearer ";

// `wrote` is asked in this order.
constexpr std::array kinds{
    ProviderKind{ModelApi::openai_responses, "openai-responses", "Responses API", responses_path,
                 "/models", "", bearer, "", is_responses, one_page,
                 bound<OpenAIResponsesProvider, OpenAIResponsesOptions>},
    ProviderKind{ModelApi::anthropic_messages, "anthropic", "", messages_path, "/v1/models",
                 "limit=1000", "x-api-key: ", "anthropic-version: 2023-06-01", is_anthropic,
                 anthropic_page, bound<AnthropicProvider, AnthropicOptions>},
    ProviderKind{ModelApi::gemini, "gemini", "", detail::gemini_path, "/v1beta/models",
                 "pageSize=1000", "x-goog-api-key: ", "", is_gemini, gemini_page,
                 bound<GeminiProvider, GeminiOptions>},
    ProviderKind{ModelApi::openai_chat, "openai", "", chat_path, "/models", "", bearer, "", is_chat,
                 one_page, bound<OpenAIProvider, OpenAIOptions>}};

using enum ModelApi;
constexpr std::array known{
    KnownProvider{"openai", "OpenAI", openai_chat, "https://api.openai.com/v1", "OPENAI_API_KEY",
                  "OPENAI_BASE_URL", "gpt-5.1", false},
    KnownProvider{"openai-responses", "OpenAI", openai_responses, "https://api.openai.com/v1",
                  "OPENAI_API_KEY", "OPENAI_BASE_URL", "gpt-5.1", false},
    KnownProvider{"anthropic", "Anthropic", anthropic_messages, "https://api.anthropic.com",
                  "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "claude-sonnet-4-5", false},
    KnownProvider{"gemini", "Google Gemini", gemini, "https://generativelanguage.googleapis.com",
                  "GEMINI_API_KEY", "GEMINI_BASE_URL", "gemini-3.8-flash", false},
    KnownProvider{"openrouter", "OpenRouter", openai_chat, "https://openrouter.ai/api/v1",
                  "OPENROUTER_API_KEY", "", "", false},
    KnownProvider{"ollama", "Ollama", openai_chat, "http://127.0.0.1:11434/v1", "", "", "", true},
    KnownProvider{"llama.cpp", "llama.cpp", openai_chat, "http://127.0.0.1:8080/v1", "", "", "",
                  true},
    KnownProvider{"vllm", "vLLM", openai_chat, "http://127.0.0.1:8000/v1", "", "", "", true},
    KnownProvider{"lmstudio", "LM Studio", openai_chat, "http://127.0.0.1:1234/v1", "", "", "",
                  true}};

}  // namespace

std::span<const ProviderKind> provider_kinds() noexcept { return kinds; }

const ProviderKind& provider_kind(ModelApi api) noexcept {
    return *std::find_if(kinds.begin(), kinds.end(),
                         [api](const ProviderKind& kind) { return kind.api == api; });
}

std::optional<ModelApi> provider_type(std::string_view name) noexcept {
    for (const ProviderKind& kind : kinds) {
        if (kind.name == name) return kind.api;
    }
    return std::nullopt;
}

std::span<const KnownProvider> known_providers() noexcept { return known; }

const KnownProvider* known_provider(std::string_view name) noexcept {
    for (const KnownProvider& one : known) {
        if (one.name == name) return &one;
    }
    return nullptr;
}

std::string_view service_of(std::string_view name) noexcept {
    const KnownProvider* const asked = known_provider(name);
    if (!asked || asked->key_variable.empty()) return name;
    for (const KnownProvider& one : known) {
        if (one.key_variable == asked->key_variable) return one.name;
    }
    return name;
}

}  // namespace cubepi::app
