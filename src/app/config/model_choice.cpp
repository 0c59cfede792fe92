#include "model_choice.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/prompt_context.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/provider.hpp>

#include "../models.hpp"
#include "../shell_quoting.hpp"
#include "model_sources.hpp"

namespace cubepi::app {

namespace {

constexpr const char* offline_provider = "offline";
constexpr const char* script_id = "script";

FauxOptions typing_speed(double tokens_per_second) {
    FauxOptions options;
    options.provider_id = offline_provider;
    if (tokens_per_second > 0) options.tokens_per_second = tokens_per_second;
    return options;
}

bool mentions(const std::string& text, std::initializer_list<const char*> words) {
    for (const char* word : words) {
        if (text.find(word) != std::string::npos) return true;
    }
    return false;
}

/// The answer of the offline model without a script.
AssistantMessage improvise(const ModelRequest& request) {
    const Message& last = request.messages.back();
    if (last.role() == Role::tool_result) {
        return faux_assistant_message(
            "That is what the tool found. I am the **offline model**: a script, not a mind. "
            "Everything around me (tools, "
            "approvals, sessions, this terminal) is real.");
    }
    const bool has_tools = request.tools && !request.tools->empty();
    const std::string text(bub::without_context(last.text()));
    if (has_tools && mentions(text, {"file", "directory", "list", "project"})) {
        ContentList<AssistantContent> blocks;
        blocks.emplace_back(faux_text("Let me look."));
        blocks.emplace_back(faux_tool_call("list", {{"path", "."}}));
        return faux_assistant_message(std::move(blocks), stop_reason::tool_use);
    }
    return faux_assistant_message(
        "You wrote: *" + text +
        "*\n\nI am the **offline model**: a script, not a mind. Ask me about the files of this "
        "directory to see a tool run, or set `OPENAI_API_KEY` to talk to a real model.");
}

/// A script without an end.
class OfflineProvider final : public Provider {
public:
    OfflineProvider() : faux_(typing_speed(200)) {}
    MessageStream stream(ModelRequest request) override {
        faux_.append_responses(
            {FauxStep([](const ModelRequest& seen) { return improvise(seen); })});
        return faux_.stream(std::move(request));
    }
    std::shared_ptr<ObserverRegistry> observer_registry() const override {
        return faux_.observer_registry();
    }

private:
    FauxProvider faux_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
    throw Error(ErrorCode::invalid_argument,
                path + ": " + what + "; 'man cubepi' describes the format of a script");
}

FauxStep step_from_json(const std::string& path, const Json& json) {
    if (json.is_string()) return faux_assistant_message(std::string(json.get_string()));
    if (!json.is_object()) refuse(path, "an answer must be a string or an object");
    JsonObject message = json.get_object();
    if (const Json* error = message.if_contains("error"); error && error->is_string()) {
        return faux_failure(std::string(error->get_string()));
    }
    if (Json* content = message.if_contains("content"); content && content->is_string()) {
        const JsonObject block{{"type", "text"}, {"text", content->get_string()}};
        *content = JsonArray{block};
    }
    message["role"] = "assistant";
    try {
        return assistant_message_from_json(message);
    } catch (const Error& error) {
        refuse(path, error.what());
    }
}

BoundModel scripted_model(const std::string& path) {
    std::ifstream file(path);
    if (!file || std::filesystem::is_directory(path)) {
        throw Error(ErrorCode::not_found,
                    "cannot read the script " + path +
                        "; --script takes a JSON file in the format that 'man cubepi' describes");
    }
    std::stringstream text;
    text << file.rdbuf();
    boost::system::error_code failed;
    const Json json = boost::json::parse(text.str(), failed);
    if (failed) refuse(path, "is not valid JSON");
    double speed = 0;
    const Json* answers = &json;
    if (json.is_object()) {
        if (const Json* rate = json.get_object().if_contains("tokens_per_second"))
            speed = rate->to_number<double>();
        answers = json.get_object().if_contains("answers");
    }
    if (!answers || !answers->is_array()) refuse(path, "expected a list of answers");
    std::vector<FauxStep> steps;
    for (const Json& answer : answers->get_array()) steps.push_back(step_from_json(path, answer));
    FauxProvider faux(typing_speed(speed));
    faux.set_responses(std::move(steps));
    return faux.model(script_id);
}

/// The scripted model of --offline: identifies itself as one, and uses the tools for prompts about files. With a
/// script (a JSON file, docs/cli.md) it returns the answers of the script in order. Throws Error for a script that
/// cannot be read.
BoundModel offline_model(const std::string& script_path) {
    if (!script_path.empty()) return scripted_model(script_path);
    Model model;
    model.id = "offline";
    model.provider_id = offline_provider;
    return BoundModel(std::make_shared<OfflineProvider>(), std::move(model));
}

void require_key(const Endpoint& endpoint) {
    if (!endpoint.needs_key || !endpoint.api_key.empty()) return;
    throw NoModelError("no model: there is no key for " + endpoint.provider + ", since " +
                       endpoint.key_variable + " is not set.\n  export " + endpoint.key_variable +
                       "=..., or save one: cubepi onboard --provider " +
                       shell_word(endpoint.provider));
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
    if (chain.size() == 1) return;
    // A model with another one behind it does not wait for the end of a rate limit.
    CallLimits limits = turn_settings(sources).limits();
    limits.has_fallbacks = true;
    chain.front() = primary.bind(primary.model, limits);
    choice.model = FallbackBoundModel(std::move(chain));
}

[[noreturn]] void throw_no_model(const ModelSources& sources) {
    std::string text =
        "no model: there is no OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or "
        "OPENROUTER_API_KEY, nothing in the "
        "configuration, and no local server answers.\n"
        "  cubepi onboard                       choose one, step by step\n"
        "  export OPENAI_API_KEY=...            use OpenAI\n"
        "  export ANTHROPIC_API_KEY=...         use Anthropic\n"
        "  export GEMINI_API_KEY=...            use Gemini\n"
        "  cubepi chat --base-url URL --model M any OpenAI-compatible server\n"
        "  ollama serve                         or a server on this machine\n"
        "  cubepi chat --offline                or the scripted model, to try it out";
    for (const std::string& problem : sources.bub.problems) text += "\n" + problem;
    throw NoConfiguredModel(text);
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
    sources.windows->note(server.endpoint, server.models);
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

ModelChoice choice_of(const ModelSources& sources, Endpoint endpoint) {
    require_key(endpoint);
    ModelChoice choice;
    choice.model = endpoint.bind(endpoint.model, turn_settings(sources).limits());
    choice.where =
        endpoint.model + " at " +
        (endpoint.title.empty() ? endpoint.host() : endpoint.title + " (" + endpoint.host() + ")");
    choice.key_variable = endpoint.variable_of_the_key();
    choice.context_window = sources.config.context_window;
    choice.windows = sources.windows;
    choice.endpoint = std::move(endpoint);
    return choice;
}

namespace {

[[noreturn]] void throw_elsewhere(const ModelSources& sources, const StoredModel& stored,
                                  const std::string& why) {
    const std::string place = stored.address.empty() ? stored.provider : stored.address;
    const std::string flags = flags_to_continue(sources, stored);
    throw NoModelError("the run of this session was suspended at " + place + " (model '" +
                       stored.model() + "'), and its conversation is not sent elsewhere: " + why +
                       (flags.empty()
                            ? "\n  To continue it there, leave out the flags that name another"
                            : "\n  To continue it there, add these flags to the command:" + flags) +
                       "\n  To end it instead: ,abandon in its chat, or cubepi inbox cancel ID");
}

/// Returns the configured endpoint of the run. Throws Error if there is none, or it has another address.
Endpoint resolved_endpoint(const ModelSources& sources, const StoredModel& stored) {
    ModelSources plain = sources;
    plain.flags = ModelFlags();
    plain.flags.api_key_env = sources.flags.api_key_env;
    plain.session = stored;
    return choose_endpoint(plain);
}

/// Returns the sources for a continuation. A key that a flag names is for the address of the process's own model only.
ModelSources sources_at(const ModelSources& sources, const ModelChoice& initial,
                        const StoredModel& stored) {
    ModelSources own = sources;
    if (public_url(initial.endpoint.base_url) != stored.address) own.flags.api_key_env.clear();
    return own;
}

/// The endpoint of `current`, of one of its fallback models, or a configured one, that returned an answer.
std::optional<Endpoint> endpoint_of_provider(const ModelSources& sources,
                                             const ModelChoice& current,
                                             const AssistantMessage& answer) {
    std::vector<Endpoint> candidates;
    if (!current.offline) {
        candidates.push_back(current.endpoint);
        for (FallbackModel& model : fallback_models(sources, current.endpoint))
            candidates.push_back(std::move(model.endpoint));
        for (Endpoint& endpoint : configured_endpoints(sources))
            candidates.push_back(std::move(endpoint));
    }
    std::erase_if(candidates, [&](const Endpoint& endpoint) {
        return endpoint.provider.empty() || endpoint.provider_id() != answer.provider_id.str();
    });
    if (candidates.empty()) return std::nullopt;
    // Several providers may be at one host, which is their id then.
    const auto found = std::find_if(
        candidates.begin(), candidates.end(),
        [&](const Endpoint& endpoint) { return endpoint.model == answer.model_id.str(); });
    return found == candidates.end() ? std::move(candidates.front()) : std::move(*found);
}

}  // namespace

StoredModel endpoint_of_answer(const ModelSources& sources, const ModelChoice& current,
                               const AssistantMessage& answer) {
    StoredModel stored;
    stored.provider = answer.provider_id.str();
    if (const auto endpoint = endpoint_of_provider(sources, current, answer)) {
        stored.provider = endpoint->provider;
        stored.address = public_url(endpoint->base_url);
    }
    // With its provider, because an id may begin with the name of one.
    stored.id = stored.provider + "/" + answer.model_id.str();
    return stored;
}

std::string flags_to_continue(const ModelSources& sources, const StoredModel& stored) {
    if (stored.id.empty()) return {};
    if (stored.provider == offline_provider) {
        const std::string& script = sources.flags.script;
        if (!script.empty()) return " --script " + shell_word(script);
        return stored.model() == script_id ? " --script FILE" : " --offline";
    }
    const std::string& key = sources.flags.api_key_env;
    try {
        (void)resolved_endpoint(sources, stored);
        if (key.empty()) return {};
    } catch (const Error&) {
        // The flags lead there.
    }
    std::string flags = " --provider " + shell_word(stored.provider);
    if (!stored.address.empty()) flags += " --base-url " + shell_word(stored.address);
    flags += " --model " + shell_word(stored.model());
    if (!key.empty()) flags += " --api-key-env " + shell_word(key);
    return flags;
}

Endpoint endpoint_to_continue(const ModelSources& sources, const StoredModel& stored) {
    try {
        return resolved_endpoint(sources, stored);
    } catch (const Error&) {
        throw_elsewhere(
            sources, stored,
            "the configuration does not have this address for provider '" + stored.provider + "'");
    }
}

ModelChoice choice_to_continue(const ModelSources& given, const ModelChoice& initial,
                               const StoredModel& stored) {
    if (initial.offline) return initial;  // it sends nothing
    const ModelSources sources = sources_at(given, initial, stored);
    const bool by_flags = sources.flags.name_a_model();
    const std::string address = public_url(initial.endpoint.base_url);
    if (address == stored.address && (by_flags || initial.endpoint.provider == stored.provider)) {
        Endpoint endpoint = initial.endpoint;
        if (sources.flags.model.empty()) endpoint.name_model(stored.model(), {});
        return choice_of(sources, std::move(endpoint));
    }
    if (by_flags) throw_elsewhere(sources, stored, "the flags name " + address);
    return choice_of(sources, endpoint_to_continue(sources, stored));
}

bool is_configured_model(const ModelSources& sources, const Endpoint& primary,
                         const std::string& id) {
    std::vector<Endpoint> models = configured_endpoints(sources);
    // A provider that is known by its key has a default model.
    std::erase_if(models, [](const Endpoint& one) { return !one.model_named; });
    models.push_back(primary);
    for (FallbackModel& model : fallback_models(sources, primary))
        if (model.problem.empty()) models.push_back(std::move(model.endpoint));
    const std::string& summaries = sources.config.compact_model;
    if (!summaries.empty() && summaries != compacted_by_provider)
        models.push_back(endpoint_for_model(sources, primary, summaries));
    const Endpoint named = endpoint_for_model(sources, primary, id);
    return std::any_of(models.begin(), models.end(), [&](const Endpoint& one) {
        return one.provider == named.provider && one.base_url == named.base_url &&
               one.model == named.model;
    });
}

BoundModel model_at_endpoint(const ModelSources& sources, const ModelChoice& there,
                             const std::string& id) {
    Endpoint endpoint = endpoint_for_model(sources, there.endpoint, id);
    if (public_url(endpoint.base_url) != public_url(there.endpoint.base_url)) {
        throw NoModelError("the run of this session continues at " + there.endpoint.host() +
                           " only, and '" + id + "' is a model of " + endpoint.host());
    }
    return choice_of(sources, std::move(endpoint)).model;
}

std::shared_ptr<const Model> shown_spec(const ModelChoice& choice) {
    Model spec = choice.model.spec();
    if (!spec.context_window && !choice.offline) {
        spec.context_window =
            model_profile(choice.endpoint.type, spec.id, choice.endpoint.base_url).context_window;
    }
    if (!spec.context_window) spec.context_window = choice.context_window;
    if (!spec.context_window && choice.windows)
        spec.context_window = choice.windows->find(choice.endpoint);
    return std::make_shared<const Model>(std::move(spec));
}

void set_subagents(bub::BuiltinOptions& options, const SubagentSettings& settings) {
    options.subagents.max_background = settings.max_background;
    options.subagents.max_spend = settings.max_spend.value_or(0.0);
    options.max_subagent_steps = settings.max_turns.value_or(0);
}

namespace {

/// The endpoint of a model of the session: another one than the first may be at another endpoint, which offers it with another window.
/// Nothing for a provider without a name.
std::optional<Endpoint> endpoint_of(const ModelSources& sources, const ModelChoice& choice,
                                    const BoundModel& model) {
    if (!model.provider()) return std::nullopt;
    AssistantMessage answer;
    answer.provider_id = model.provider()->provider_id();
    answer.model_id = model.spec().id;
    std::optional<Endpoint> endpoint = endpoint_of_provider(sources, choice, answer);
    try {
        const std::string id = answer.provider_id.str() + "/" + answer.model_id.str();
        if (!endpoint) endpoint = endpoint_for_model(sources, choice.endpoint, id);
    } catch (const Error&) {
        return std::nullopt;
    }
    return endpoint;
}

Task<std::optional<std::int64_t>> find_window(std::shared_ptr<ListedWindows> windows,
                                              std::shared_ptr<HttpTransport> transport,
                                              std::optional<Endpoint> endpoint) {
    if (!endpoint) co_return std::nullopt;
    co_return co_await listed_window(std::move(windows), std::move(transport),
                                     std::move(*endpoint));
}

}  // namespace

void set_compaction(bub::BuiltinOptions& options, const ModelSources& sources,
                    const ModelChoice& choice, std::shared_ptr<HttpTransport> transport) {
    const ConfigFile& config = sources.config;
    options.compaction.emplace();
    if (config.compact_at) options.compaction->window_share = *config.compact_at;
    const std::string& id = config.compact_model;
    if (id == compacted_by_provider) {
        // Our compaction serves endpoints that do not compact themselves, so its limit is higher.
        const double share = options.compaction->window_share;
        options.compaction->provider_share = share;
        options.compaction->window_share = (1 + share) / 2;
    } else if (!id.empty() && !choice.offline) {
        try {
            options.compaction->summary_model =
                choice_of(sources, endpoint_for_model(sources, choice.endpoint, id)).model;
        } catch (const Error& error) {
            throw NoModelError("compact_model: " + std::string(error.what()));
        }
    }
    options.context_window = [sources, choice](const BoundModel& model) {
        if (!model.provider()) return model.spec().context_window;
        ModelChoice other = choice;
        other.model = model;
        if (auto endpoint = endpoint_of(sources, choice, model))
            other.endpoint = std::move(*endpoint);
        return shown_spec(other)->context_window;
    };
    if (choice.offline) return;
    options.find_context_window = [sources, choice,
                                   transport = std::move(transport)](const BoundModel& model) {
        return find_window(sources.windows, transport, endpoint_of(sources, choice, model));
    };
}

void check_model_flags(const ModelFlags& flags) {
    if (!flags.base_url.empty()) {
        Endpoint endpoint;
        endpoint.redirect(flags.base_url, "--base-url");
        endpoint.check_address();
    }
    const bool is_name =
        std::all_of(flags.api_key_env.begin(), flags.api_key_env.end(),
                    [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    // The text may be the key itself, which must not be printed.
    if (!is_name)
        throw Error(ErrorCode::invalid_argument,
                    "--api-key-env takes the name of an environment variable, such as MY_KEY; its "
                    "value is not a name");
    // A pipe can be read once.
    if (!flags.script.empty() && detail::kind_if_not_regular(flags.script).empty())
        (void)scripted_model(flags.script);
}

Task<ModelChoice> choose_model(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                               ChooseModel choose, ShowWork show_work) {
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
        if (show_work) show_work("asking " + endpoint.host() + " for its models");
        Task<std::vector<OfferedModel>> asking = offered_by(endpoint, transport);
        Outcome<std::vector<OfferedModel>> offered = co_await outcome_of(std::move(asking));
        if (show_work) show_work({});
        std::vector<OfferedModel> models = std::move(offered).value();
        sources.windows->note(endpoint, models);
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

JsonObject SessionModel::describe(const AssistantMessage& answer) {
    suspended_ = endpoint_of_answer(sources_, current_, answer);
    if (suspended_.address.empty()) suspended_ = endpoint_of_answer(sources_, initial_, answer);
    return suspended_.to_json();
}

std::optional<ModelChoice> SessionModel::fallback_of(const AssistantMessage& answer) const {
    const std::string& own = current_.model.provider()->provider_id();
    if (current_.fallbacks.empty() ||
        (answer.provider_id == own && answer.model_id == current_.endpoint.model))
        return std::nullopt;
    std::optional<Endpoint> endpoint = endpoint_of_provider(sources_, current_, answer);
    if (!endpoint) return std::nullopt;
    endpoint->model = answer.model_id.str();
    return choice_of(sources_, std::move(*endpoint));
}

BoundModel SessionModel::continue_at(const JsonObject& described, const std::string& id) {
    if (initial_.offline && !id.empty()) return find(id);
    ModelChoice choice = choice_to_continue(sources_, initial_, StoredModel::of(described));
    if (!id.empty()) return model_at_endpoint(sources_, choice, id);
    BoundModel model = choice.model;
    use(std::move(choice));
    return model;
}

std::string SessionModel::flags_to_continue() const {
    return app::flags_to_continue(sources_at(sources_, initial_, suspended_), suspended_);
}

std::string SessionModel::flags_to_resume() const {
    const ModelFlags& given = sources_.flags;
    const Endpoint& current = current_.endpoint;
    if (here_ && current.base_url == chosen_.base_url && current.model == chosen_.model)
        return app::flags_to_continue(sources_at(sources_, initial_, *here_), *here_);
    std::string flags;
    const auto add = [&flags](const char* flag, const std::string& value) {
        if (!value.empty()) flags += " " + std::string(flag) + " " + shell_word(value);
    };
    add("--provider", given.provider);
    add("--base-url", given.base_url);
    add("--model", given.model);
    add("--api-key-env", given.api_key_env);
    return flags;
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

std::vector<std::string> SessionModel::configured() const {
    if (current_.offline) return {current_.where};
    const std::string current = current_.endpoint.provider + "/" + current_.endpoint.model;
    std::vector<std::string> ids{current};
    for (std::string& id : configured_ids()) {
        if (id != current) ids.push_back(std::move(id));
    }
    return ids;
}

bool SessionModel::is_configured(const Endpoint& endpoint) const {
    const std::vector<Endpoint> all = configured_endpoints(sources_);
    return std::any_of(all.begin(), all.end(), [&](const Endpoint& one) {
        return one.provider == endpoint.provider && one.base_url == endpoint.base_url &&
               one.model == endpoint.model;
    });
}

Task<SessionModel::Offer> SessionModel::offer() const {
    Offer made;
    if (current_.offline) {
        made.heading = "The model";
        made.current = current_.where;
        co_return made;
    }
    const Endpoint endpoint = current_.endpoint;
    // The provider of a server that was named by its address is only the protocol.
    const bool is_own = endpoint.provider_id() == endpoint.provider;
    const std::string place =
        is_own ? endpoint.provider + " (" + endpoint.host() + ")" : endpoint.host();
    try {
        const std::vector<OfferedModel> models = co_await list_models(transport_, endpoint);
        sources_.windows->note(endpoint, models);
        for (const OfferedModel& model : models) made.ids.push_back(model.id);
        made.heading = "Models of " + place;
        made.current = endpoint.model;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        made.problem = "cannot list the models of " + place + ": " + error.what();
        made.heading = "Configured models";
        made.ids = configured_ids();
        made.current = endpoint.provider + "/" + endpoint.model;
    }
    for (const Endpoint& other : configured_endpoints(sources_)) {
        if (other.provider != endpoint.provider)
            made.providers += (made.providers.empty() ? "" : ", ") + other.provider;
    }
    co_return made;
}

Task<std::string> SessionModel::list() const {
    if (current_.offline) co_return "* " + current_.where;
    const Offer offered = co_await offer();
    std::string text = offered.problem.empty() ? std::string() : offered.problem + "\n";
    text += offered.heading + ":" + list_text(offered.ids, offered.current);
    if (offered.ids.size() > listed_at_once)
        text += "; search them: cubepi models --provider " +
                shell_word(current_.endpoint.provider) + " WORD";
    text += "\nChoose one: /model ID";
    if (!offered.providers.empty())
        text += "; of another provider (" + offered.providers + "): /model PROVIDER/ID";
    co_return text;
}

Task<> SessionModel::check_listed(Endpoint endpoint, std::string id) const {
    std::vector<OfferedModel> models;
    std::string problem;
    try {
        models = co_await list_models(transport_, endpoint);
        sources_.windows->note(endpoint, models);
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
