#include "endpoint.hpp"

#include <algorithm>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/net/curl/request_url.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

namespace cubepi::app {

namespace {

std::string value_of(const Environment& environment, std::string_view variable) {
    if (variable.empty()) return {};
    const auto found = environment.find(std::string(variable));
    return found == environment.end() ? std::string() : found->second;
}

}  // namespace

std::string_view name_of(ProviderType type) noexcept {
    switch (type) {
        case ProviderType::openai: return "openai";
        case ProviderType::openai_responses: return "openai-responses";
        case ProviderType::anthropic: return "anthropic";
    }
    return {};
}

std::optional<ProviderType> provider_type(std::string_view name) noexcept {
    for (const ProviderType type :
         {ProviderType::openai, ProviderType::openai_responses, ProviderType::anthropic}) {
        if (name == name_of(type)) return type;
    }
    return std::nullopt;
}

const std::vector<KnownProvider>& known_providers() {
    using enum ProviderType;
    static const std::vector<KnownProvider> all{
        {"openai", "OpenAI", openai, "https://api.openai.com/v1", "OPENAI_API_KEY",
         "OPENAI_BASE_URL", "gpt-5.1", false},
        {"openai-responses", "OpenAI", openai_responses, "https://api.openai.com/v1",
         "OPENAI_API_KEY", "OPENAI_BASE_URL", "gpt-5.1", false},
        {"anthropic", "Anthropic", anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY",
         "ANTHROPIC_BASE_URL", "claude-sonnet-4-5", false},
        {"openrouter", "OpenRouter", openai, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY",
         "", "", false},
        {"ollama", "Ollama", openai, "http://127.0.0.1:11434/v1", "", "", "", true},
        {"llama.cpp", "llama.cpp", openai, "http://127.0.0.1:8080/v1", "", "", "", true},
        {"vllm", "vLLM", openai, "http://127.0.0.1:8000/v1", "", "", "", true},
        {"lmstudio", "LM Studio", openai, "http://127.0.0.1:1234/v1", "", "", "", true},
    };
    return all;
}

const KnownProvider* known_provider(std::string_view name) noexcept {
    for (const KnownProvider& known : known_providers()) {
        if (known.name == name) return &known;
    }
    return nullptr;
}

bool same_service(std::string_view one, std::string_view other) {
    if (one == other) return true;
    const KnownProvider* a = known_provider(one);
    const KnownProvider* b = known_provider(other);
    return a && b && !a->key_variable.empty() && a->key_variable == b->key_variable;
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

namespace {

constexpr std::chrono::minutes local_timeout(30);

template <class Options>
Options options_of(const Endpoint& endpoint, const CallLimits& limits) {
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
    return options;
}

template <class Provider, class Options>
BoundModel bound(const Endpoint& endpoint, const std::string& id, const CallLimits& limits) {
    const Provider provider(options_of<Options>(endpoint, limits));
    if (!limits.max_tokens) return provider.model(id);
    Model spec = provider.model(id).spec();
    spec.max_tokens = limits.max_tokens;
    return provider.model(std::move(spec));
}

}  // namespace

void Endpoint::check_address() const {
    const std::string scheme = base_url.substr(0, base_url.find("://") + 3);
    if (scheme == "http://" || scheme == "https://") return;
    throw Error(ErrorCode::invalid_argument,
                "'" + public_url(base_url) + "' is not a server address" +
                    (from.base_url.empty() ? "" : " (" + from.base_url + ")") +
                    "; write the full URL, such as http://localhost:11434/v1");
}

BoundModel Endpoint::bind(const std::string& id, const CallLimits& limits) const {
    check_address();
    switch (type) {
        case ProviderType::anthropic:
            return bound<AnthropicProvider, AnthropicOptions>(*this, id, limits);
        case ProviderType::openai_responses:
            return bound<OpenAIResponsesProvider, OpenAIResponsesOptions>(*this, id, limits);
        case ProviderType::openai: break;
    }
    return bound<OpenAIProvider, OpenAIOptions>(*this, id, limits);
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
    ProviderType type = known ? known->type : ProviderType::openai;
    if (config.type) type = *config.type;
    const KnownProvider& base = known ? *known : *known_provider(name_of(type));
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
