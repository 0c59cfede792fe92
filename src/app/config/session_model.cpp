#include "session_model.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/error_classification.hpp>

#include "model_list.hpp"
#include "turn_settings.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t listed_at_once = 30;

std::string force_hint(const std::string& id) {
    return "\n  To use it anyway: ,model " + id + " force=true";
}

/// True for the id itself and for an alias of a dated one: "claude-sonnet-4-5" of "claude-sonnet-4-5-20250929".
bool lists(const std::vector<OfferedModel>& models, const std::string& id) {
    return std::any_of(models.begin(), models.end(), [&](const OfferedModel& model) {
        return model.id == id || model.id.starts_with(id + "-20");
    });
}

std::string list_text(const std::vector<std::string>& ids, const std::string& current) {
    std::string text;
    const bool listed = std::find(ids.begin(), ids.end(), current) != ids.end();
    if (!listed && !current.empty()) text += "\n* " + current;
    std::size_t shown = 0;
    for (const std::string& id : ids) {
        // The current one is shown even if it comes after the last line.
        if (shown >= listed_at_once && id != current) continue;
        text += (id == current ? "\n* " : "\n  ") + id;
        ++shown;
    }
    if (shown < ids.size()) text += "\n  and " + std::to_string(ids.size() - shown) + " more";
    return text;
}

}  // namespace

SessionModel::SessionModel(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                           ModelChoice initial)
    : sources_(std::move(sources)),
      transport_(std::move(transport)),
      initial_(std::move(initial)),
      current_(initial_) {}

void SessionModel::use(ModelChoice choice) {
    const bool changed =
        choice.where != current_.where || choice.model.spec().id != current_.model.spec().id;
    current_ = std::move(choice);
    if (changed && on_change_) on_change_(current_);
}

std::string SessionModel::select(const JsonObject& stored) {
    problem_ = nullptr;
    selected_.clear();
    const StoredModel choice = StoredModel::of(stored);
    const bool chosen_here = here_ && *here_ == choice;
    if (choice.id.empty() || (sources_.flags.name_a_model() && !chosen_here)) {
        use(initial_);
        return {};
    }
    selected_ = choice.id;
    try {
        if (chosen_here) {
            use(choice_of(sources_, chosen_));
        } else {
            ModelSources sources = sources_;
            sources.session = choice;
            use(choice_of(sources, choose_endpoint(sources)));
        }
    } catch (const Error&) {
        problem_ =
            std::current_exception();  // find() throws it; a command of this turn may repair it
    }
    return selected_;
}

Endpoint SessionModel::endpoint_for(const std::string& id) const {
    if (current_.offline) {
        throw Error(ErrorCode::invalid_argument,
                    "the offline model cannot be switched; start without --offline and --script");
    }
    return endpoint_for_model(sources_, current_.endpoint, id);
}

BoundModel SessionModel::find(const std::string& id) const {
    if (id == selected_) {
        if (problem_) std::rethrow_exception(problem_);
        return current_.model;
    }
    return choice_of(sources_, endpoint_for(id)).model;
}

std::vector<std::string> SessionModel::configured_ids() const {
    std::vector<std::string> ids;
    const auto add = [&ids](const std::string& id) {
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    };
    for (const Endpoint& endpoint : configured_endpoints(sources_)) {
        if (!endpoint.model.empty()) add(endpoint.provider + "/" + endpoint.model);
    }
    for (const std::string& name : initial_.fallbacks) add(name);
    return ids;
}

bool SessionModel::is_configured(const Endpoint& endpoint) const {
    const std::vector<Endpoint> all = configured_endpoints(sources_);
    return std::any_of(all.begin(), all.end(), [&](const Endpoint& one) {
        return one.provider == endpoint.provider && one.base_url == endpoint.base_url &&
               one.model == endpoint.model;
    });
}

Task<std::string> SessionModel::list() const {
    if (current_.offline) co_return "* " + current_.where;
    const Endpoint& endpoint = current_.endpoint;
    const std::string place = endpoint.provider + " (" + endpoint.host() + ")";
    std::vector<std::string> ids;
    std::string problem;
    try {
        const std::vector<OfferedModel> models = co_await list_models(transport_, endpoint);
        for (const OfferedModel& model : models) ids.push_back(model.id);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        problem = error.what();
    }
    std::string text;
    if (problem.empty()) {
        text = "Models of " + place + ":" + list_text(ids, endpoint.model);
        if (ids.size() > listed_at_once)
            text += "; search them: cubepi models --provider " + endpoint.provider + " WORD";
    } else {
        text = "Configured models (cannot list those of " + place + ": " + problem +
               "):" + list_text(configured_ids(), endpoint.provider + "/" + endpoint.model);
    }
    text += "\nChoose one: ,model ID";
    std::string others;
    for (const Endpoint& other : configured_endpoints(sources_)) {
        if (other.provider != endpoint.provider)
            others += (others.empty() ? "" : ", ") + other.provider;
    }
    if (!others.empty()) text += "; of another provider (" + others + "): ,model PROVIDER/ID";
    co_return text;
}

Task<> SessionModel::check_listed(Endpoint endpoint, std::string id) const {
    std::vector<OfferedModel> models;
    std::string problem;
    try {
        models = co_await list_models(transport_, endpoint);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        problem = error.what();
    }
    const std::string place = endpoint.provider + " (" + endpoint.host() + ")";
    if (!problem.empty()) {
        throw Error(ErrorCode::invalid_argument, "cannot check model '" + id + "': " + place +
                                                     " does not list its models: " + problem +
                                                     force_hint(id));
    }
    if (lists(models, endpoint.model)) co_return;
    std::string text = "unknown model '" + endpoint.model + "': " + place + " does not list it";
    const std::size_t slash = id.find('/');
    if (slash != std::string::npos && endpoint.model == id)
        text += ", and '" + id.substr(0, slash) + "' is not a provider";
    throw Error(ErrorCode::invalid_argument, text + "\n  List the models: ,model" + force_hint(id));
}

Task<JsonObject> SessionModel::choose(std::string id, bool force) {
    Endpoint endpoint = endpoint_for(id);
    ModelChoice choice = choice_of(sources_, endpoint);  // throws if there is no key
    const bool known =
        force || endpoint.model == current_.endpoint.model || is_configured(endpoint);
    if (!known) co_await check_listed(endpoint, id);
    StoredModel stored;
    stored.id = std::move(id);
    stored.provider = endpoint.provider;
    stored.address = public_url(endpoint.base_url);
    JsonObject data = stored.to_json();
    here_ = std::move(stored);
    chosen_ = std::move(endpoint);
    use(std::move(choice));
    co_return data;
}

}  // namespace cubepi::app
