#include "endpoint.hpp"

#include <utility>

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

std::string Endpoint::variable_of_the_key() const {
    return from.api_key == config_origin ? std::string() : key_variable;
}

std::string Endpoint::host() const {
    const std::string url = public_url(base_url);
    const std::size_t begin = url.find("://");
    const std::string rest = begin == std::string::npos ? url : url.substr(begin + 3);
    return rest.substr(0, rest.find('/'));
}

void Endpoint::redirect(const std::string& url, std::string said_by) {
    from.base_url = std::move(said_by);
    if (url == base_url) return;
    base_url = url;
    title.clear();
    if (!model_named) model.clear();
    needs_key = false;
}

void Endpoint::name_model(const std::string& id, std::string said_by) {
    if (id.empty()) return;
    model = id;
    from.model = std::move(said_by);
    model_named = true;
}

std::string Endpoint::provider_id() const {
    const KnownProvider* known = known_provider(provider);
    // List prices are those of the vendor's own endpoint.
    return known && known->base_url != base_url ? host() : provider;
}

namespace {

template <class Options>
Options options_of(const Endpoint& endpoint, const CallLimits& limits) {
    Options options;
    options.api_key = endpoint.api_key;
    options.base_url = endpoint.base_url;
    options.provider_id = endpoint.provider_id();
    if (limits.time) options.total_timeout = *limits.time;
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
                "'" + public_url(base_url) + "' is no address of a server" +
                    (from.base_url.empty() ? "" : " (" + from.base_url + ")") +
                    "; write all of it, such as http://localhost:11434/v1");
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
    endpoint.api_key = value_of(environment, known.key_variable);
    endpoint.key_variable = known.key_variable;
    if (!endpoint.base_url.empty()) endpoint.from.base_url = known.base_url_variable;
    if (!endpoint.api_key.empty()) endpoint.from.api_key = known.key_variable;
    // Another server has other models, and may want no key.
    if (endpoint.base_url.empty() || endpoint.base_url == known.base_url) {
        endpoint.base_url = known.base_url;
        endpoint.model = known.model;
        endpoint.needs_key = !known.key_variable.empty();
    }
    return endpoint;
}

Endpoint endpoint_of(const ProviderConfig& config, const Environment& environment) {
    const KnownProvider* known = known_provider(config.name);
    if (known && config.type && *config.type != known->type) known = nullptr;
    ProviderType type = known ? known->type : ProviderType::openai;
    if (config.type) type = *config.type;
    const KnownProvider& base = known ? *known : *known_provider(name_of(type));
    // An address in the environment is meant for the provider of that name, not for each one that speaks alike.
    Endpoint endpoint = endpoint_of(base, known ? environment : Environment());
    endpoint.provider = config.name;
    if (config.base_url.empty()) {
        if (!known) endpoint.api_key = value_of(environment, base.key_variable);
        if (!endpoint.api_key.empty()) endpoint.from.api_key = base.key_variable;
    } else {
        endpoint.redirect(config.base_url, config_origin);
        // Neither is a key.
        if (!known) endpoint.key_variable.clear();
    }
    if (!config.api_key_env.empty()) {
        endpoint.key_variable = config.api_key_env;
        endpoint.api_key = value_of(environment, config.api_key_env);
        endpoint.from.api_key = endpoint.api_key.empty() ? std::string() : config.api_key_env;
        endpoint.needs_key = true;
    }
    if (!config.api_key.empty()) {
        endpoint.api_key = config.api_key;
        endpoint.from.api_key = config_origin;
    }
    endpoint.name_model(config.model, config_origin);
    return endpoint;
}

}  // namespace cubepi::app
