#include "model_choice.hpp"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/env.hpp>

#include "model_list.hpp"
#include "offline_model.hpp"
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
};

/// "anthropic/claude-sonnet-4-5": what stands before the slash counts when it is a provider's name, since model ids have
/// slashes, too.
NamedModel split_model(const ConfigFile& config, const std::string& text) {
    NamedModel named;
    named.id = text;
    const std::size_t slash = text.find('/');
    if (slash == std::string::npos) return named;
    const std::string name = text.substr(0, slash);
    if (!configured(config, name) && !known_provider(name)) return named;
    named.provider = name;
    named.id = text.substr(slash + 1);
    return named;
}

/// What the top of the configuration file says: provider and model. The file's other members there belong to it.
NamedModel file_default(const ConfigFile& config) {
    NamedModel named;
    named.provider = config.provider;
    named.id = config.model;
    if (named.provider.empty() && config.base_url.empty())
        named = split_model(config, config.model);
    return named;
}

bool same_service(std::string_view one, std::string_view other) {
    if (one == other) return true;
    const KnownProvider* a = known_provider(one);
    const KnownProvider* b = known_provider(other);
    return a && b && !a->key_variable.empty() && a->key_variable == b->key_variable;
}

/// Puts on what the top of the file says about `endpoint`.
void apply_file(const ModelSources& sources, Endpoint& endpoint) {
    const ConfigFile& config = sources.config;
    const NamedModel top = file_default(config);
    const std::string owner = top.provider.empty() ? "openai" : top.provider;
    if (!same_service(owner, endpoint.provider)) return;
    if (!configured(config, endpoint.provider)) {
        const KnownProvider& known = *known_provider(endpoint.provider);
        const bool from_environment =
            !variable(sources, std::string(known.base_url_variable)).empty();
        if (!config.base_url.empty() && !from_environment) endpoint.redirect(config.base_url);
        if (endpoint.api_key.empty()) endpoint.api_key = config.api_key;
        if (endpoint.api_key.empty() && !config.api_key_env.empty()) {
            endpoint.key_variable = config.api_key_env;
            endpoint.api_key = variable(sources, config.api_key_env);
        }
    }
    endpoint.name_model(top.id);
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

/// Which provider is meant when neither flags nor the top of the file name one; empty: none.
std::string provider_by_keys(const ModelSources& sources) {
    const ConfigFile& config = sources.config;
    const bool file_has_one =
        !config.base_url.empty() || !config.api_key.empty() ||
        (!config.api_key_env.empty() && !variable(sources, config.api_key_env).empty());
    if (!variable(sources, "OPENAI_BASE_URL").empty()) return "openai";
    if (file_has_one) return "openai";
    for (const KnownProvider& known : known_providers()) {
        if (!variable(sources, std::string(known.key_variable)).empty())
            return std::string(known.name);
    }
    return config.providers.empty() ? std::string() : config.providers.front().name;
}

void require_key(const Endpoint& endpoint) {
    if (!endpoint.needs_key || !endpoint.api_key.empty()) return;
    throw Error(ErrorCode::not_found, "no model: there is no key for " + endpoint.provider +
                                          ", since " + endpoint.key_variable +
                                          " is not set.\n  export " + endpoint.key_variable +
                                          "=...");
}

std::string place_of(const Endpoint& endpoint) {
    return endpoint.title.empty() ? endpoint.host() : endpoint.title;
}

Task<std::string> pick(std::vector<OfferedModel> offered, std::string where, bool interactive,
                       ChooseModel choose) {
    std::vector<std::string> models;
    for (OfferedModel& model : offered) models.push_back(std::move(model.id));
    if (models.empty())
        throw Error(ErrorCode::not_found,
                    where + " offers no model; load one there, or name one with --model");
    if (models.size() == 1) co_return models.front();
    if (!interactive) {
        std::string list;
        for (const std::string& id : models) list += "\n  " + id;
        throw Error(ErrorCode::invalid_argument,
                    where + " offers several models; name one with --model:" + list);
    }
    const std::size_t index = co_await choose("Which model of " + where + "?", models);
    co_return models.at(index);
}

ModelChoice bound(const Endpoint& endpoint, const std::string& id) {
    ModelChoice choice;
    choice.model = endpoint.bind(id);
    choice.where =
        id + " at " +
        (endpoint.title.empty() ? endpoint.host() : endpoint.title + " (" + endpoint.host() + ")");
    choice.key_variable = endpoint.key_variable;
    return choice;
}

Task<ModelChoice> choose_on_this_machine(ModelSources sources,
                                         std::shared_ptr<HttpTransport> transport,
                                         ChooseModel choose) {
    std::vector<LocalServer> servers = co_await find_local_servers(transport);
    if (servers.empty()) {
        throw Error(
            ErrorCode::not_found,
            "no model: there is no OPENAI_API_KEY and no ANTHROPIC_API_KEY, nothing in the "
            "configuration, and no local server answers.\n"
            "  export OPENAI_API_KEY=...            use OpenAI\n"
            "  export ANTHROPIC_API_KEY=...         use Anthropic\n"
            "  cubepi chat --base-url URL --model M any OpenAI-compatible server\n"
            "  ollama serve                         or a server on this machine\n"
            "  cubepi chat --offline                or the scripted offline model, to look around");
    }
    LocalServer& server = servers.front();
    std::string id = sources.flags.model.empty() ? sources.config.model : sources.flags.model;
    if (id.empty()) {
        id = co_await pick(std::move(server.models), server.endpoint.title, sources.interactive,
                           std::move(choose));
    }
    ModelChoice choice = bound(server.endpoint, id);
    choice.found_locally = true;
    co_return choice;
}

}  // namespace

ModelSources model_sources(const ModelFlags& flags, const ConfigFile& config, bool interactive) {
    ModelSources sources;
    sources.flags = flags;
    sources.config = config;
    sources.interactive = interactive;
    std::vector<std::string> names = key_variables(config);
    for (const KnownProvider& known : known_providers())
        names.emplace_back(known.base_url_variable);
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

Endpoint find_endpoint(const ModelSources& sources, const std::string& name) {
    Endpoint endpoint;
    if (const ProviderConfig* own = configured(sources.config, name)) {
        endpoint = endpoint_of(*own, sources.environment);
    } else if (const KnownProvider* known = known_provider(name)) {
        endpoint = endpoint_of(*known, sources.environment);
    } else {
        throw Error(ErrorCode::invalid_argument,
                    "unknown provider '" + name + "'; known are: " + known_names(sources.config) +
                        ". Others are named under 'providers' in " + config_path().string());
    }
    apply_file(sources, endpoint);
    return endpoint;
}

Endpoint choose_endpoint(const ModelSources& sources) {
    const ModelFlags& flags = sources.flags;
    NamedModel named;
    named.provider = flags.provider;
    named.id = flags.model;
    // Whoever names the server means the id as it stands.
    if (named.provider.empty() && flags.base_url.empty())
        named = split_model(sources.config, flags.model);
    if (named.provider.empty() && flags.base_url.empty()) {
        named.provider = file_default(sources.config).provider;
        if (named.provider.empty()) named.provider = provider_by_keys(sources);
    }
    if (named.provider.empty() && !flags.base_url.empty()) named.provider = "openai";
    if (named.provider.empty()) return Endpoint();
    Endpoint endpoint = find_endpoint(sources, named.provider);
    if (!flags.base_url.empty()) endpoint.redirect(flags.base_url);
    endpoint.name_model(named.id);
    return endpoint;
}

std::vector<Endpoint> configured_endpoints(const ModelSources& sources) {
    std::vector<Endpoint> endpoints;
    const auto add = [&](const std::string& name) {
        const bool there = std::any_of(endpoints.begin(), endpoints.end(),
                                       [&](const Endpoint& one) { return one.provider == name; });
        if (!name.empty() && !there) endpoints.push_back(find_endpoint(sources, name));
    };
    add(choose_endpoint(sources).provider);
    for (const ProviderConfig& provider : sources.config.providers) add(provider.name);
    for (const KnownProvider& known : known_providers()) {
        const bool twin = std::any_of(endpoints.begin(), endpoints.end(), [&](const Endpoint& one) {
            return same_service(one.provider, known.name);
        });
        if (!twin && !variable(sources, std::string(known.key_variable)).empty())
            add(std::string(known.name));
    }
    return endpoints;
}

Task<ModelChoice> choose_model(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                               ChooseModel choose) {
    const ModelFlags& flags = sources.flags;
    if (flags.offline || !flags.script.empty()) {
        ModelChoice choice;
        choice.model = offline_model(flags.script);
        choice.where = "the offline model (scripted, no network)";
        choice.offline = true;
        co_return choice;
    }
    Endpoint endpoint = choose_endpoint(sources);
    if (endpoint.provider.empty()) {
        co_return co_await choose_on_this_machine(std::move(sources), std::move(transport),
                                                  std::move(choose));
    }
    require_key(endpoint);
    std::string id = endpoint.model;
    if (id.empty()) {
        std::vector<OfferedModel> models = co_await list_models(transport, endpoint);
        id = co_await pick(std::move(models), place_of(endpoint), sources.interactive,
                           std::move(choose));
    }
    co_return bound(endpoint, id);
}

}  // namespace cubepi::app
