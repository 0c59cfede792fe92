#include "model_sources.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/http_provider.hpp>

#include "../models.hpp"
#include "paths.hpp"

namespace cubepi::app {

namespace {

const ProviderConfig* configured(const ConfigFile& config, std::string_view name) {
    for (const ProviderConfig& provider : config.providers) {
        if (provider.name == name) return &provider;
    }
    return nullptr;
}

std::string variable(const ModelSources& sources, const std::string& name) {
    const auto found = sources.environment.find(name);
    return found == sources.environment.end() ? std::string() : found->second;
}

struct NamedModel {
    std::string provider = {};
    std::string id = {};
    std::string provider_from = {};
};

/// "anthropic/claude-sonnet-4-5": the part before the slash is the provider only if it names one, since model ids
/// have slashes, too.
NamedModel split_model(const ConfigFile& config, const std::string& text, char separator = '/') {
    NamedModel named;
    named.id = text;
    const std::size_t end = text.find(separator);
    if (end == std::string::npos) return named;
    const std::string name = text.substr(0, end);
    if (!configured(config, name) && !known_provider(name)) return named;
    named.provider = name;
    named.id = text.substr(end + 1);
    return named;
}

/// Provider and model of the top level of the configuration file. The other members there belong to that provider.
NamedModel file_default(const ConfigFile& config) {
    NamedModel named;
    named.provider = config.provider;
    named.id = config.model;
    if (named.provider.empty() && config.base_url.empty())
        named = split_model(config, config.model);
    named.provider_from = named.provider.empty() ? std::string() : config_origin;
    return named;
}

/// Applies the top level of the file to `endpoint`.
void apply_file(const ModelSources& sources, Endpoint& endpoint) {
    const ConfigFile& config = sources.config;
    const NamedModel top = file_default(config);
    const std::string owner = top.provider.empty() ? "openai" : top.provider;
    if (!same_service(owner, endpoint.provider)) return;
    if (!configured(config, endpoint.provider)) {
        const KnownProvider& known = *known_provider(endpoint.provider);
        const bool from_environment =
            !variable(sources, std::string(known.base_url_variable)).empty();
        if (!config.base_url.empty() && !from_environment)
            endpoint.redirect(config.base_url, config_origin);
        const std::string address(config.base_url.empty() ? known.base_url
                                                          : std::string_view(config.base_url));
        endpoint.offer_key({config.api_key, config_origin, {}, {address}});
        if (!config.api_key_env.empty()) {
            if (endpoint.offered_keys.empty()) endpoint.key_variable = config.api_key_env;
            endpoint.offer_key({variable(sources, config.api_key_env),
                                config.api_key_env,
                                config.api_key_env,
                                {address}});
        }
    }
    endpoint.name_model(top.id, config_origin);
    if (!config.thinking_tag.empty()) endpoint.thinking_tag = config.thinking_tag;
}

/// The model of Bub's settings. Without one they apply to the provider that has a key or an address there.
NamedModel bub_default(const ModelSources& sources) {
    const bub::Settings& bub = sources.bub;
    NamedModel named;
    std::tie(named.provider, named.id) = bub.provider_and_model();
    named.provider_from = bub.origin("model");
    const auto owner = [&](std::string provider, const std::string& member) {
        if (!named.provider.empty() || bub.origin(member).empty()) return;
        named.provider = std::move(provider);
        named.provider_from = bub.origin(member);
    };
    for (const auto& [name, url] : bub.api_bases) owner(name, "api_bases." + name);
    for (const auto& [name, key] : bub.api_keys) {
        if (known_provider(name) || configured(sources.config, name))
            owner(name, "api_keys." + name);
    }
    owner("openai", "api_base");
    owner(named.id.empty() ? "openrouter" : "openai", "api_key");
    if (named.provider.empty() && !named.id.empty()) named.provider = "openai";
    for (char& c : named.provider)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return named;
}

/// A setting of Bub for one provider; the common one is for the provider of its model.
Sourced<std::string> bub_value(const ModelSources& sources, const std::string& member,
                               const std::string& provider) {
    const bub::Settings& bub = sources.bub;
    const bool keys = member == "api_key";
    const std::string name(service_of(provider));
    const auto& own = keys ? bub.api_keys : bub.api_bases;
    Sourced<std::string> setting;
    if (const auto found = own.find(name); found != own.end()) {
        setting.value = found->second;
        setting.by = bub.origin(member + "s." + name);
    } else if (same_service(bub_default(sources).provider, provider)) {
        setting.value = keys ? bub.api_key : bub.api_base;
        setting.by = bub.origin(member);
    }
    if (setting.value && setting.value->empty()) setting.value.reset();
    return setting;
}

/// Applies Bub's settings where no other source has a value. Their key is sent only to their address.
void apply_bub(const ModelSources& sources, Endpoint& endpoint) {
    const Sourced<std::string> base = bub_value(sources, "api_base", endpoint.provider);
    const bool silent = endpoint.from.base_url.empty();
    if (silent && base.value) endpoint.redirect(*base.value, base.by);
    const Sourced<std::string> key = bub_value(sources, "api_key", endpoint.provider);
    if (key.value) {
        const KnownProvider* known = known_provider(endpoint.provider);
        const std::string address =
            base.value ? *base.value : std::string(known ? known->base_url : std::string_view());
        const bool of_a_file = key.by.find('/') != std::string::npos;
        endpoint.offer_key({*key.value, key.by, of_a_file ? std::string() : key.by, {address}});
    }
    if (!silent && (!base.value || *base.value != endpoint.base_url)) return;
    const NamedModel top = bub_default(sources);
    if (!endpoint.model_named && same_service(top.provider, endpoint.provider))
        endpoint.name_model(top.id, sources.bub.origin("model"));
}

std::string known_names(const ConfigFile& config) {
    std::string names;
    for (const KnownProvider& known : known_providers())
        names += (names.empty() ? "" : ", ") + std::string(known.name);
    for (const ProviderConfig& provider : config.providers) {
        if (!known_provider(provider.name)) names += ", " + provider.name;
    }
    return names;
}

/// The provider if neither flags nor the top level of the file name one; empty: none.
NamedModel provider_by_keys(const ModelSources& sources) {
    const ConfigFile& config = sources.config;
    const bool file_has_one =
        !config.base_url.empty() || !config.api_key.empty() ||
        (!config.api_key_env.empty() && !variable(sources, config.api_key_env).empty());
    NamedModel named;
    const auto found = [&named](std::string_view provider, std::string_view from) {
        named.provider = provider;
        named.provider_from = from;
        return named;
    };
    if (!variable(sources, "OPENAI_BASE_URL").empty()) return found("openai", "OPENAI_BASE_URL");
    if (file_has_one) return found("openai", config_origin);
    for (const KnownProvider& known : known_providers()) {
        if (!variable(sources, std::string(known.key_variable)).empty())
            return found(known.name, known.key_variable);
    }
    if (!config.providers.empty()) return found(config.providers.front().name, config_origin);
    return named;
}

[[noreturn]] void throw_unknown_provider(const ModelSources& sources, const std::string& name) {
    const bool of_bub = bub_default(sources).provider == name;
    std::string text = "unknown provider '" + name + "'";
    if (of_bub) text += " (of " + bub_default(sources).provider_from + ")";
    text += "; known providers: " + known_names(sources.config) +
            ". Define others under 'providers' in " + config_path().string();
    if (of_bub) {
        for (const std::string& problem : sources.bub.problems) text += "\n" + problem;
    }
    throw Error(ErrorCode::invalid_argument, text);
}

bool has_provider(const ModelSources& sources, const std::string& name) {
    return configured(sources.config, name) || known_provider(name) ||
           bub_value(sources, "api_base", name).value;
}

/// The endpoint of that name without Bub's settings.
Endpoint own_endpoint(const ModelSources& sources, const std::string& name) {
    Endpoint endpoint;
    if (const ProviderConfig* own = configured(sources.config, name)) {
        endpoint = endpoint_of(*own, sources.environment);
    } else if (const KnownProvider* known = known_provider(name)) {
        endpoint = endpoint_of(*known, sources.environment);
    } else if (bub_value(sources, "api_base", name).value) {
        // A server from Bub's settings: assume the most common protocol.
        endpoint.provider = name;
        return endpoint;
    } else {
        throw_unknown_provider(sources, name);
    }
    apply_file(sources, endpoint);
    return endpoint;
}

constexpr const char* session_origin = "the session";

[[noreturn]] void throw_stored_model_gone(const StoredModel& stored, const std::string& why) {
    throw NoModelError("no model: the session uses '" + stored.id + "', but " + why +
                       "\n  Name one for this run: --model ID, --provider NAME or --base-url URL; "
                       "permanently: ,model ID in a chat");
}

void check_stored_address(const StoredModel& stored, const Endpoint& endpoint) {
    const std::string address = public_url(endpoint.base_url);
    if (stored.address.empty() || stored.address == address) return;
    throw_stored_model_gone(stored, "provider '" + endpoint.provider + "' was at " +
                                        stored.address +
                                        " when the session chose it and is now at " + address);
}

/// The choice of the session with its provider. Text for one provider is never sent to another.
NamedModel stored_model(const StoredModel& stored) {
    NamedModel named;
    named.id = stored.id;
    named.provider = stored.provider;
    named.provider_from = session_origin;
    if (named.provider.empty()) {
        const std::size_t end = stored.id.find_first_of("/:");
        if (end != std::string::npos) named.provider = stored.id.substr(0, end);
    }
    const std::size_t length = named.provider.size();
    const bool prefixed = length > 0 && stored.id.size() > length &&
                          stored.id.starts_with(named.provider) &&
                          (stored.id[length] == '/' || stored.id[length] == ':');
    if (prefixed) named.id = stored.id.substr(length + 1);
    return named;
}

/// A key that the user names for the address of this invocation.
void apply_key_flag(const ModelSources& sources, Endpoint& endpoint) {
    const std::string& name = sources.flags.api_key_env;
    if (name.empty()) return;
    endpoint.key_variable = name;
    endpoint.api_key = variable(sources, name);
    endpoint.from.api_key = name;
    endpoint.withheld_key.clear();
    if (!endpoint.api_key.empty()) return;
    throw Error(ErrorCode::invalid_argument,
                "--api-key-env: the variable " + name + " is not set\n  export " + name + "=...");
}

NamedModel named_by_flags(const ModelSources& sources) {
    const ModelFlags& flags = sources.flags;
    NamedModel named;
    named.provider = flags.provider;
    named.id = flags.model;
    named.provider_from = "--provider";
    if (!named.provider.empty()) return named;
    if (!flags.base_url.empty()) {
        // If a server is given, the id is used unchanged.
        named.provider = "openai";
        named.provider_from = "--base-url";
        return named;
    }
    named = split_model(sources.config, flags.model);
    named.provider_from = "--model";
    return named;
}

/// Selects the provider and the model. This is the only place that decides the precedence of ModelSources.
NamedModel meant(const ModelSources& sources) {
    NamedModel named =
        uses_session(sources) ? stored_model(sources.session) : named_by_flags(sources);
    if (!named.provider.empty()) return named;
    NamedModel other = file_default(sources.config);
    if (other.provider.empty()) other = provider_by_keys(sources);
    if (other.provider.empty()) other = bub_default(sources);
    named.provider = other.provider;
    named.provider_from = other.provider_from;
    return named;
}

/// Returns the value of the file, else that of Bub's settings.
template <class T, class B>
Sourced<T> first_of(const std::optional<T>& file, const std::optional<B>& bub,
                    std::string bub_origin) {
    Sourced<T> result;
    if (file) {
        result.value = file;
        result.by = config_origin;
    } else if (bub) {
        result.value = static_cast<T>(*bub);
        result.by = std::move(bub_origin);
    }
    return result;
}

std::optional<std::vector<std::string>> if_any(const std::vector<std::string>& list) {
    if (list.empty()) return std::nullopt;
    return list;
}

/// A model in Bub's form: the part before the colon is always a provider.
Endpoint endpoint_for_bub(const ModelSources& sources, const Endpoint& primary,
                          const std::string& text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return endpoint_for_model(sources, primary, text);
    Endpoint endpoint = find_endpoint(sources, text.substr(0, colon));
    endpoint.name_model(text.substr(colon + 1), {});
    return endpoint;
}

}  // namespace

bool uses_session(const ModelSources& sources) {
    return !sources.flags.name_a_model() && !sources.session.id.empty();
}

StoredModel StoredModel::of(const JsonObject& data) {
    const auto text = [&data](std::string_view key) { return detail::text_member(data, key); };
    StoredModel stored;
    stored.id = text("model");
    stored.provider = text("provider");
    stored.address = text("address");
    return stored;
}

std::string StoredModel::model() const { return stored_model(*this).id; }

JsonObject StoredModel::to_json() const {
    return JsonObject{{"model", id}, {"provider", provider}, {"address", address}};
}

ModelSources model_sources(const ModelFlags& flags, const ConfigFile& config, bool interactive) {
    ModelSources sources;
    sources.flags = flags;
    sources.config = config;
    sources.interactive = interactive;
    sources.bub = bub::read_settings();
    std::vector<std::string> names = key_variables(config);
    for (const KnownProvider& known : known_providers())
        names.emplace_back(known.base_url_variable);
    names.push_back(flags.api_key_env);
    for (const std::string& name : names) {
        const std::string value = name.empty() ? std::string() : env(name.c_str());
        if (!value.empty()) sources.environment[name] = value;
    }
    return sources;
}

std::vector<std::string> key_variables(const ConfigFile& config) {
    std::vector<std::string> names;
    for (const KnownProvider& known : known_providers()) names.emplace_back(known.key_variable);
    for (const ProviderConfig& provider : config.providers) names.push_back(provider.api_key_env);
    names.push_back(config.api_key_env);
    std::erase(names, std::string());
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

EnvironmentPolicy command_environment(const ConfigFile& config, const ModelFlags& flags) {
    EnvironmentPolicy policy = config.environment;
    policy.hidden = key_variables(config);
    if (!flags.api_key_env.empty()) policy.hidden.push_back(flags.api_key_env);
    policy.hidden.emplace_back("BUB_*API_KEY*");
    return policy;
}

Endpoint find_endpoint(const ModelSources& sources, const std::string& name) {
    Endpoint endpoint = own_endpoint(sources, name);
    apply_bub(sources, endpoint);
    endpoint.bind_key();
    return endpoint;
}

Endpoint choose_endpoint(const ModelSources& sources) {
    const ModelFlags& flags = sources.flags;
    const NamedModel named = meant(sources);
    if (named.provider.empty()) return Endpoint();
    const bool stored = uses_session(sources);
    if (stored && !has_provider(sources, named.provider))
        throw_stored_model_gone(sources.session,
                                "provider '" + named.provider + "' is not configured");
    Endpoint endpoint = own_endpoint(sources, named.provider);
    endpoint.from.provider = named.provider_from;
    if (!flags.base_url.empty()) endpoint.redirect(flags.base_url, "--base-url");
    apply_bub(sources, endpoint);
    endpoint.bind_key();
    apply_key_flag(sources, endpoint);
    endpoint.name_model(named.id, stored ? session_origin : "--model");
    if (stored) check_stored_address(sources.session, endpoint);
    return endpoint;
}

Endpoint endpoint_for_model(const ModelSources& sources, const Endpoint& primary,
                            const std::string& text) {
    NamedModel named = split_model(sources.config, text);
    if (named.provider.empty()) named = split_model(sources.config, text, ':');
    // Bub has providers whose address is only in its own settings.
    const std::size_t colon = text.find(':');
    if (named.provider.empty() && colon != std::string::npos &&
        bub_value(sources, "api_base", text.substr(0, colon)).value) {
        named.provider = text.substr(0, colon);
        named.id = text.substr(colon + 1);
    }
    Endpoint endpoint = named.provider.empty() || named.provider == primary.provider
                            ? primary
                            : find_endpoint(sources, named.provider);
    endpoint.name_model(named.id, {});
    return endpoint;
}

std::vector<Endpoint> configured_endpoints(const ModelSources& sources) {
    std::vector<Endpoint> endpoints;
    const auto there = [&](std::string_view name) {
        return std::any_of(endpoints.begin(), endpoints.end(),
                           [&](const Endpoint& one) { return same_service(one.provider, name); });
    };
    const auto named = [&](const std::string& name) {
        return std::any_of(endpoints.begin(), endpoints.end(),
                           [&](const Endpoint& one) { return one.provider == name; });
    };
    Endpoint first = choose_endpoint(sources);
    if (!first.provider.empty()) endpoints.push_back(std::move(first));
    for (const ProviderConfig& provider : sources.config.providers) {
        if (!named(provider.name)) endpoints.push_back(find_endpoint(sources, provider.name));
    }
    for (const KnownProvider& known : known_providers()) {
        if (!there(known.name) && !variable(sources, std::string(known.key_variable)).empty())
            endpoints.push_back(find_endpoint(sources, std::string(known.name)));
    }
    return endpoints;
}

TurnSettings turn_settings(const ModelSources& sources) {
    const ConfigFile& config = sources.config;
    const bub::Settings& bub = sources.bub;
    TurnSettings settings;
    settings.fallback_models = first_of(if_any(config.fallback_models), if_any(bub.fallback_models),
                                        bub.origin("fallback_models"));
    settings.model_timeout =
        first_of(config.model_timeout, bub.model_timeout, bub.origin("model_timeout"));
    settings.first_byte_timeout = config.first_byte_timeout;
    settings.idle_timeout = config.idle_timeout;
    settings.max_turns = first_of(config.max_turns, bub.max_steps, bub.origin("max_steps"));
    settings.max_tokens = first_of(config.max_tokens, bub.max_tokens, bub.origin("max_tokens"));
    return settings;
}

CallLimits TurnSettings::limits() const {
    CallLimits limits;
    limits.time = model_timeout.value;
    limits.first_byte = first_byte_timeout;
    limits.idle = idle_timeout;
    limits.max_tokens = max_tokens.value;
    return limits;
}

std::vector<FallbackModel> fallback_models(const ModelSources& sources, const Endpoint& primary) {
    std::vector<FallbackModel> models;
    if (sources.flags.name_a_model() || uses_session(sources)) return models;
    const TurnSettings settings = turn_settings(sources);
    if (!settings.fallback_models.value) return models;
    const bool bubs = settings.fallback_models.by != config_origin;
    for (const std::string& name : *settings.fallback_models.value) {
        FallbackModel model;
        model.name = name;
        try {
            model.endpoint = bubs ? endpoint_for_bub(sources, primary, name)
                                  : endpoint_for_model(sources, primary, name);
        } catch (const Error& error) {
            model.problem = error.what();
        }
        const Endpoint& endpoint = model.endpoint;
        if (model.problem.empty() && endpoint.needs_key && endpoint.api_key.empty()) {
            model.problem = "there is no key for " + endpoint.provider + ", since " +
                            endpoint.key_variable + " is not set";
        }
        models.push_back(std::move(model));
    }
    return models;
}

std::optional<std::int64_t> ListedWindows::find(const Endpoint& endpoint) const {
    const std::lock_guard lock(mutex_);
    const auto list = windows_.find(endpoint.base_url);
    if (list == windows_.end()) return std::nullopt;
    const auto found = list->second.find(endpoint.model);
    if (found != list->second.end()) return found->second;
    // The alias of a dated model: "claude-sonnet-4-5" of "claude-sonnet-4-5-20250929".
    const std::string dated = endpoint.model + "-20";
    const auto other = list->second.lower_bound(dated);
    if (other == list->second.end() || !other->first.starts_with(dated)) return std::nullopt;
    return other->second;
}

void ListedWindows::note(const Endpoint& endpoint, const std::vector<OfferedModel>& models) {
    const std::lock_guard lock(mutex_);
    for (const OfferedModel& model : models) {
        if (model.context_window && *model.context_window > 0)
            windows_[endpoint.base_url][model.id] = *model.context_window;
    }
}

bool ListedWindows::begin_asking(const Endpoint& endpoint) {
    const std::lock_guard lock(mutex_);
    return asked_.insert(endpoint.base_url).second;
}

Task<std::optional<std::int64_t>> listed_window(std::shared_ptr<ListedWindows> windows,
                                                std::shared_ptr<HttpTransport> transport,
                                                Endpoint endpoint) {
    if (!windows->find(endpoint) && windows->begin_asking(endpoint)) {
        try {
            const std::vector<OfferedModel> models = co_await list_models(transport, endpoint);
            windows->note(endpoint, models);
        } catch (const Error& error) {
            if (error.code() == ErrorCode::cancelled) throw;
        }
    }
    co_return windows->find(endpoint);
}

}  // namespace cubepi::app
