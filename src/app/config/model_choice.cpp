#include "model_choice.hpp"

#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/model_profile.hpp>

#include "model_list.hpp"
#include "offline_model.hpp"
#include "turn_settings.hpp"

namespace cubepi::app {

namespace {

void require_key(const Endpoint& endpoint) {
    if (!endpoint.needs_key || !endpoint.api_key.empty()) return;
    throw NoModelError("no model: there is no key for " + endpoint.provider + ", since " +
                       endpoint.key_variable + " is not set.\n  export " + endpoint.key_variable +
                       "=..., or save one: cubepi onboard --provider " + endpoint.provider);
}

ModelApi model_api(ProviderType type) {
    switch (type) {
        case ProviderType::openai_responses: return ModelApi::openai_responses;
        case ProviderType::anthropic: return ModelApi::anthropic_messages;
        case ProviderType::openai: break;
    }
    return ModelApi::openai_chat;
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

/// Appends the fallback models to the selected one. One that cannot be used is omitted with a warning.
void add_fallbacks(const ModelSources& sources, const Endpoint& primary, ModelChoice& choice) {
    std::vector<BoundModel> chain{choice.model};
    for (const FallbackModel& model : fallback_models(sources, primary)) {
        if (!model.problem.empty()) {
            choice.warnings.push_back("the fallback model " + model.name +
                                      " is not used: " + model.problem);
            continue;
        }
        const Endpoint& endpoint = model.endpoint;
        if (const std::string note = endpoint.key_note(); !note.empty())
            choice.warnings.push_back("the fallback model " + model.name + ": " + note);
        chain.push_back(endpoint.bind(endpoint.model, turn_settings(sources).limits()));
        choice.fallbacks.push_back(model.name);
    }
    if (chain.size() > 1) choice.model = FallbackBoundModel(std::move(chain));
}

[[noreturn]] void throw_no_model(const ModelSources& sources) {
    std::string text =
        "no model: there is no OPENAI_API_KEY and no ANTHROPIC_API_KEY, nothing in the "
        "configuration, and no local server answers.\n"
        "  cubepi onboard                       choose one, step by step\n"
        "  export OPENAI_API_KEY=...            use OpenAI\n"
        "  export ANTHROPIC_API_KEY=...         use Anthropic\n"
        "  cubepi chat --base-url URL --model M any OpenAI-compatible server\n"
        "  ollama serve                         or a server on this machine\n"
        "  cubepi chat --offline                or the scripted offline model, to try it out";
    for (const std::string& problem : sources.bub.problems) text += "\n" + problem;
    throw NoModelError(text);
}

Task<std::vector<OfferedModel>> offered_by(Endpoint endpoint,
                                           std::shared_ptr<HttpTransport> transport) {
    try {
        std::vector<OfferedModel> models = co_await list_models(transport, endpoint);
        co_return models;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        throw EndpointFailed(error, std::current_exception(), std::move(endpoint));
    }
}

Task<ModelChoice> choose_on_this_machine(ModelSources sources,
                                         std::shared_ptr<HttpTransport> transport,
                                         ChooseModel choose) {
    std::vector<LocalServer> servers = co_await find_local_servers(transport);
    if (servers.empty()) throw_no_model(sources);
    LocalServer& server = servers.front();
    std::string id = uses_session(sources) ? sources.session.id : sources.flags.model;
    if (id.empty()) id = sources.config.model;
    if (id.empty()) {
        id = co_await pick(std::move(server.models), server.endpoint.title, sources.interactive,
                           std::move(choose));
    }
    server.endpoint.name_model(id, {});
    ModelChoice choice = choice_of(sources, std::move(server.endpoint));
    choice.found_locally = true;
    choice.warnings = sources.bub.problems;
    co_return choice;
}

}  // namespace

ModelChoice choice_of(const ModelSources& sources, Endpoint endpoint) {
    require_key(endpoint);
    ModelChoice choice;
    choice.model = endpoint.bind(endpoint.model, turn_settings(sources).limits());
    choice.where =
        endpoint.model + " at " +
        (endpoint.title.empty() ? endpoint.host() : endpoint.title + " (" + endpoint.host() + ")");
    choice.key_variable = endpoint.variable_of_the_key();
    choice.endpoint = std::move(endpoint);
    return choice;
}

std::shared_ptr<const Model> shown_spec(const ModelChoice& choice) {
    Model spec = choice.model.spec();
    if (!spec.context_window && !choice.offline) {
        spec.context_window =
            model_profile(model_api(choice.endpoint.type), spec.id, choice.endpoint.base_url)
                .context_window;
    }
    return std::make_shared<const Model>(std::move(spec));
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
    if (endpoint.model.empty()) {
        std::vector<OfferedModel> models = co_await offered_by(endpoint, transport);
        const std::string id = co_await pick(std::move(models), place_of(endpoint),
                                             sources.interactive, std::move(choose));
        endpoint.name_model(id, {});
    }
    ModelChoice choice = choice_of(sources, endpoint);
    choice.warnings = sources.bub.problems;
    if (std::string note = endpoint.key_note(); !note.empty())
        choice.warnings.push_back(std::move(note));
    add_fallbacks(sources, endpoint, choice);
    co_return choice;
}

}  // namespace cubepi::app
