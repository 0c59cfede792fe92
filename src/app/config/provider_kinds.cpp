#include "provider_kinds.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/net/curl/request_route.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/gemini.hpp>
#include <cubepi/provider/gemini/generate_api.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

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
    if (limits.has_fallbacks) {
        options.retry.rate_limit_time = std::chrono::milliseconds(0);
    } else {
        options.retry.outage_time = options.retry.rate_limit_time;
    }
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

std::string value_of(const Environment& environment, std::string_view variable) {
    if (variable.empty()) return {};
    const auto found = environment.find(std::string(variable));
    return found == environment.end() ? std::string() : found->second;
}

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

bool same_origin(const std::string& one, const std::string& other) {
    try {
        return detail::same_origin(detail::parse_url(one), detail::parse_url(other));
    } catch (const Error&) {
        return false;
    }
}

bool is_sent_in_clear(const std::string& url) {
    try {
        const detail::RequestUrl parsed = detail::parse_url(url);
        return parsed.scheme == "http" && !detail::is_this_machine(parsed);
    } catch (const Error&) {
        return false;  // nothing is sent to an invalid address
    }
}

void Endpoint::offer_key(OfferedKey key) {
    if (!key.key.empty()) offered_keys.push_back(std::move(key));
}

void Endpoint::bind_key() {
    api_key.clear();
    from.api_key.clear();
    withheld_key.clear();
    for (const OfferedKey& offered : offered_keys) {
        const bool meant = std::any_of(
            offered.addresses.begin(), offered.addresses.end(),
            [this](const std::string& address) { return same_origin(address, base_url); });
        if (meant) {
            api_key = offered.key;
            from.api_key = offered.from;
            if (!offered.variable.empty()) key_variable = offered.variable;
            withheld_key.clear();
            return;
        }
        if (withheld_key.empty()) withheld_key = offered.from;
    }
}

std::string Endpoint::key_note() const {
    if (!api_key.empty() && is_sent_in_clear(base_url)) {
        return "the key (" + from.api_key + ") is sent to " + host() +
               " in plain text, since the address begins with http://; others on the network can "
               "read "
               "it";
    }
    if (withheld_key.empty() || !is_elsewhere()) return {};
    return "the key (" + withheld_key + ") is for another address and is not sent to " + host() +
           "; name one for it with --api-key-env NAME, or with api_key_env next to the base_url in "
           "the configuration";
}

bool Endpoint::is_elsewhere() const {
    try {
        return !detail::is_this_machine(detail::parse_url(base_url));
    } catch (const Error&) {
        return true;
    }
}

std::string Endpoint::variable_of_the_key() const {
    return from.api_key == config_origin ? std::string() : key_variable;
}

std::string Endpoint::host() const {
    const std::string url = public_url(base_url);
    const std::size_t begin = url.find("://");
    const std::string rest = begin == std::string::npos ? url : url.substr(begin + 3);
    return rest.substr(0, rest.find('/'));
}

void Endpoint::redirect(const std::string& url, std::string source) {
    from.base_url = std::move(source);
    if (url == base_url) return;
    base_url = url;
    title.clear();
    if (!model_named) model.clear();
    needs_key = false;
}

void Endpoint::name_model(const std::string& id, std::string source) {
    if (id.empty()) return;
    model = id;
    from.model = std::move(source);
    model_named = true;
}

std::string Endpoint::provider_id() const {
    const KnownProvider* known = known_provider(provider);
    // List prices are those of the vendor's own endpoint.
    return known && known->base_url != base_url ? host() : provider;
}

void Endpoint::check_address() const {
    const std::size_t host = base_url.find("://") + 3;
    const std::string scheme = base_url.substr(0, host);
    const bool has_host = host < base_url.size() && base_url[host] != '/';
    if (has_host && (scheme == "http://" || scheme == "https://")) return;
    throw Error(ErrorCode::invalid_argument,
                "'" + public_url(base_url) + "' is not a server address" +
                    (from.base_url.empty() ? "" : " (" + from.base_url + ")") +
                    "; write the full URL, such as http://localhost:11434/v1");
}

BoundModel Endpoint::bind(const std::string& id, const CallLimits& limits) const {
    check_address();
    return provider_kind(type).bind(*this, id, limits);
}

Endpoint endpoint_of(const KnownProvider& known, const Environment& environment) {
    Endpoint endpoint;
    endpoint.provider = known.name;
    if (known.local) endpoint.title = known.title;
    endpoint.type = known.type;
    endpoint.base_url = value_of(environment, known.base_url_variable);
    endpoint.key_variable = known.key_variable;
    OfferedKey key;
    key.key = value_of(environment, known.key_variable);
    key.from = key.variable = known.key_variable;
    key.addresses.emplace_back(known.base_url);
    if (!endpoint.base_url.empty()) {
        endpoint.from.base_url = known.base_url_variable;
        key.addresses.push_back(endpoint.base_url);
    }
    endpoint.offer_key(std::move(key));
    // Another server has other models and may need no key.
    if (endpoint.base_url.empty() || endpoint.base_url == known.base_url) {
        endpoint.base_url = known.base_url;
        endpoint.model = known.model;
        endpoint.needs_key = !known.key_variable.empty();
    }
    endpoint.bind_key();
    return endpoint;
}

Endpoint endpoint_of(const ProviderConfig& config, const Environment& environment) {
    const KnownProvider* known = known_provider(config.name);
    if (known && config.type && *config.type != known->type) known = nullptr;
    ModelApi type = known ? known->type : ModelApi::openai_chat;
    if (config.type) type = *config.type;
    const KnownProvider& base = known ? *known : *known_provider(provider_kind(type).name);
    // An address in the environment is for the provider of that name, not for others with the same protocol.
    Endpoint endpoint = endpoint_of(base, known ? environment : Environment());
    endpoint.provider = config.name;
    if (config.base_url.empty()) {
        // The address of the type, and therefore its key.
        if (!known) endpoint.offered_keys = endpoint_of(base, environment).offered_keys;
    } else {
        endpoint.redirect(config.base_url, config_origin);
        // The same applies to a key.
        if (!known) endpoint.key_variable.clear();
    }
    const std::string address(config.base_url.empty() ? base.base_url : config.base_url);
    std::vector<OfferedKey> behind = std::move(endpoint.offered_keys);
    endpoint.offered_keys.clear();
    endpoint.offer_key({config.api_key, config_origin, {}, {address}});
    if (!config.api_key_env.empty()) {
        endpoint.key_variable = config.api_key_env;
        endpoint.offer_key({value_of(environment, config.api_key_env),
                            config.api_key_env,
                            config.api_key_env,
                            {address}});
        endpoint.needs_key = true;
        behind.clear();
    }
    for (OfferedKey& key : behind) endpoint.offer_key(std::move(key));
    endpoint.bind_key();
    endpoint.name_model(config.model, config_origin);
    endpoint.thinking_tag = config.thinking_tag;
    return endpoint;
}

}  // namespace cubepi::app
