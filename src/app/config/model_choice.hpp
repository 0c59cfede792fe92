#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

#include "model_sources.hpp"

namespace bub {
struct BuiltinOptions;
}

namespace cubepi::app {

/// The model of a conversation.
struct ModelChoice {
    /// Includes the fallback models (FallbackBoundModel) and the limits.
    BoundModel model = {};
    std::string where = {};         ///< readable text: "gpt-5.1 at api.openai.com"
    std::string key_variable = {};  ///< the source of its key; empty: none
    Endpoint endpoint = {};         ///< with the model named; empty for the offline model
    std::optional<std::int64_t> context_window =
        {};  ///< configured, for the case that it is not known
    std::shared_ptr<const ListedWindows> windows = {};  ///< null: no lists are read
    bool found_locally =
        false;  ///< not configured: announced before the first prompt is sent to it
    bool offline = false;
    std::vector<std::string> fallbacks = {};  ///< their names, in order
    /// Problems that do not prevent the conversation: a fallback model without a key, an invalid file of Bub.
    std::vector<std::string> warnings = {};
};

/// Listing the models of an endpoint failed before the conversation began.
class EndpointFailed : public Error {
public:
    EndpointFailed(const Error& error, std::exception_ptr cause, Endpoint endpoint)
        : Error(error), cause_(std::move(cause)), endpoint_(std::move(endpoint)) {}
    const std::exception_ptr& cause() const noexcept { return cause_; }
    const Endpoint& endpoint() const noexcept { return endpoint_; }

private:
    std::exception_ptr cause_;
    Endpoint endpoint_;
};

/// Asks which of several models to use; returns an index. Only called if `interactive`.
using ChooseModel =
    std::function<Task<std::size_t>(std::string question, std::vector<std::string> models)>;
/// Shows what is being waited for; an empty text: nothing any more.
using ShowWork = std::function<void(const std::string& what)>;

/// `endpoint` with the model it names, with the limits of the settings and without fallbacks. Throws NoModelError if it has
/// no key, Error(invalid_argument) if its address cannot be one.
ModelChoice choice_of(const ModelSources& sources, Endpoint endpoint);

/// The endpoint that produced `answer`, for the continuation of its run (D86): that of `current`, of one of its fallback models,
/// or a configured one; of several with its provider id, one with its model. Without an address if it is none of these.
StoredModel endpoint_of_answer(const ModelSources& sources, const ModelChoice& current,
                               const AssistantMessage& answer);

/// The model that continues a run which was suspended at `stored`, without fallbacks: at the endpoint of `initial`, the model
/// with which the program started, if it has the stored address, else at the configured provider. Throws NoModelError, with what
/// to do, if flags name another endpoint, or the configuration does not have this one.
ModelChoice choice_to_continue(const ModelSources& sources, const ModelChoice& initial,
                               const StoredModel& stored);

/// The endpoint that the configuration has for a run which was suspended at `stored`. Throws NoModelError, with what to do, if it
/// has none, or another one.
Endpoint endpoint_to_continue(const ModelSources& sources, const StoredModel& stored);

/// The flags with which a command continues a run that was suspended at `stored`, quoted for the shell, each with a space before
/// it; empty: the configuration leads there.
std::string flags_to_continue(const ModelSources& sources, const StoredModel& stored);

/// Returns true if the configuration or a flag names the model `id`: as that of `primary` or of another provider, as a fallback model, or
/// for summaries. Throws Error(invalid_argument) for an unknown provider.
bool is_configured_model(const ModelSources& sources, const Endpoint& primary,
                         const std::string& id);

/// Returns the model `id` of a run that continues at `there`, for its sub-agents. Throws NoModelError if it is at another address
/// (D86).
BoundModel model_at_endpoint(const ModelSources& sources, const ModelChoice& there,
                             const std::string& id);

/// The properties of the model that the screen shows: its spec, with the context window of the profile table where the spec
/// has none, else the configured one, else that of its server's list, if that was read.
std::shared_ptr<const Model> shown_spec(const ModelChoice& choice);

/// Sets how turns compact their conversation: the window of each model, for which its server's list is read if nothing else has it,
/// and the settings of the configuration.
void set_compaction(bub::BuiltinOptions& options, const ModelSources& sources,
                    const ModelChoice& choice, std::shared_ptr<HttpTransport> transport);

/// Sets the limits of the agents that a model starts.
void set_subagents(bub::BuiltinOptions& options, const SubagentSettings& settings);

/// Throws Error(invalid_argument) for a flag that no configuration makes valid, before anything is read or created; Error(not_found) for
/// a script that cannot be read.
void check_model_flags(const ModelFlags& flags);

/// The model to use, by the precedence of ModelSources; a local server if no source names one. Throws NoModelError when
/// there is none, with what to do about it; Error(invalid_argument) when several could be meant. `show_work` is called while a
/// server is asked for its models.
Task<ModelChoice> choose_model(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                               ChooseModel choose, ShowWork show_work = ShowWork());

/// The model of a conversation while the program runs. choose_endpoint() decides the precedence of the sources; this
/// adds the choices made with `,model` in this process, which override the flags, since they are later. Used on one
/// executor.
class SessionModel {
public:
    /// `initial` is the choice of choose_model() for `sources`.
    SessionModel(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                 ModelChoice initial);

    /// The model of the next turn: the one to show.
    const ModelChoice& current() const noexcept { return current_; }
    /// Called after current() has changed; may be empty.
    void on_change(std::function<void(const ModelChoice&)> callback) {
        on_change_ = std::move(callback);
    }

    /// Selects the model of the turn that begins. `stored` is the data of the tape's last `model_switch` event. Returns
    /// the id for find(); empty: the initial model.
    std::string select(const JsonObject& stored);
    /// The model for an id: that of select(), or another one (a sub-agent's). Throws Error if the id cannot be used, also
    /// when select() could not use the stored one.
    BoundModel find(const std::string& id) const;

    /// Describes the endpoint of an answer, for the case that its run is suspended (D86).
    JsonObject describe(const AssistantMessage& answer);
    /// Returns the fallback model that an answer is of, if it is not of the current model.
    std::optional<ModelChoice> fallback_of(const AssistantMessage& answer) const;
    /// Returns the model for the turn that continues a run at the described endpoint, and makes it current. `id` names another
    /// model, of a subagent. Throws as choice_to_continue().
    BoundModel continue_at(const JsonObject& described, const std::string& id);
    /// As the function of this name, for the last endpoint that was described here or before.
    std::string flags_to_continue() const;
    /// Returns the flags with which a later command uses the current model in this session, each with a space before it; empty: the
    /// configuration or the session leads there.
    std::string flags_to_resume() const;
    /// Sets the endpoint of a run that another process has suspended.
    void set_suspended(StoredModel stored) { suspended_ = std::move(stored); }

    /// Returns the ids for choose() of the configured models, the current one first.
    std::vector<std::string> configured() const;
    /// The models of the current endpoint, or the configured ones if it does not list them.
    struct Offer {
        std::string problem = {};  ///< why the endpoint's list is missing; empty: it is not
        std::string heading = {};
        std::vector<std::string> ids = {};  ///< as `,model ID` takes them
        std::string current = {};           ///< may be missing in `ids`
        std::string providers = {};         ///< the other ones, "a, b"; empty: none
    };
    Task<Offer> offer() const;
    /// For `,model` without an argument: the models of the current endpoint, the current one marked, at most 30; without
    /// the endpoint's list the configured ones.
    Task<std::string> list() const;
    /// For `,model ID`: checks the id, makes it current, and returns the data of the event to store. `force` accepts an id
    /// that the endpoint's list does not confirm. Throws Error with the reason if the id is refused; the current model stays.
    Task<JsonObject> choose(std::string id, bool force);

private:
    void use(ModelChoice choice);
    Endpoint endpoint_for(const std::string& id) const;
    std::vector<std::string> configured_ids() const;
    bool is_configured(const Endpoint& endpoint) const;
    Task<> check_listed(Endpoint endpoint, std::string id) const;

    ModelSources sources_;
    std::shared_ptr<HttpTransport> transport_;
    ModelChoice initial_;
    ModelChoice current_;
    std::function<void(const ModelChoice&)> on_change_;
    StoredModel suspended_;            // the endpoint of the suspended run
    std::string selected_;             // the id of the last select()
    std::exception_ptr problem_;       // why it cannot be used
    std::optional<StoredModel> here_;  // what `,model` chose in this process
    Endpoint chosen_;                  // and where it is
};

}  // namespace cubepi::app
