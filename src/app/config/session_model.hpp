#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

#include "model_choice.hpp"

namespace cubepi::app {

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
    std::string selected_;             // the id of the last select()
    std::exception_ptr problem_;       // why it cannot be used
    std::optional<StoredModel> here_;  // what `,model` chose in this process
    Endpoint chosen_;                  // and where it is
};

}  // namespace cubepi::app
