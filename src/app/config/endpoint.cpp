#include "endpoint.hpp"

#include <algorithm>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/net/curl/request_route.hpp>
#include <cubepi/provider/error_classification.hpp>

namespace cubepi::app {

namespace {

std::string value_of(const Environment& environment, std::string_view variable) {
    if (variable.empty()) return {};
    const auto found = environment.find(std::string(variable));
    return found == environment.end() ? std::string() : found->second;
}

}  // namespace

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
    const std::string scheme = base_url.substr(0, base_url.find("://") + 3);
    if (scheme == "http://" || scheme == "https://") return;
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
