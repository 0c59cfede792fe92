#include "turn_settings.hpp"

#include <utility>

namespace cubepi::app {

namespace {

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

}  // namespace

TurnSettings turn_settings(const ModelSources& sources) {
    const ConfigFile& config = sources.config;
    const bub::Settings& bub = sources.bub;
    TurnSettings settings;
    settings.fallback_models = first_of(if_any(config.fallback_models), if_any(bub.fallback_models),
                                        bub.origin("fallback_models"));
    settings.model_timeout =
        first_of(config.model_timeout, bub.model_timeout, bub.origin("model_timeout"));
    settings.max_turns = first_of(config.max_turns, bub.max_steps, bub.origin("max_steps"));
    settings.max_tokens = first_of(config.max_tokens, bub.max_tokens, bub.origin("max_tokens"));
    return settings;
}

CallLimits TurnSettings::limits() const {
    CallLimits limits;
    limits.time = model_timeout.value;
    limits.max_tokens = max_tokens.value;
    return limits;
}

namespace {

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

}  // namespace cubepi::app
