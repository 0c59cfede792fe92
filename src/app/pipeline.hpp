#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/framework.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/event_signal.hpp>

#include "failure.hpp"
#include "session.hpp"

namespace cubepi::app {

/// What came of a prompt.
struct Answer {
    std::optional<RunResult> result =
        {};                ///< of the agent's run; absent when it did not get so far
    Failure failure = {};  ///< its exit code is exit_ok when there was none
};

/// The pipeline of a conversation, made in this one place for `run` and `chat`: the framework with the builtin plugin, which
/// has the plan's model, tools, approvals, limits and tape. Used on one executor.
class Pipeline {
public:
    struct Parts {
        std::function<void(std::string text)> on_warning = {};
        /// The session was created and has a name now.
        std::function<void(const std::string& name)> on_session = {};
        /// Sees the agent's events before they are shown by ask().
        std::function<void(const AgentEvent& event)> on_event = {};
        std::function<std::vector<std::shared_ptr<bub::Channel>>(bub::ProvideChannelsCall& call)>
            channels = {};
        AddPlugins plugins = {};
    };
    Pipeline(SessionPlan plan, Parts parts);
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;

    bub::Framework& framework() noexcept { return framework_; }
    const SessionPlan& plan() const noexcept { return plan_; }
    /// The model of the session.
    const ModelChoice& model() const { return plan_.models->current(); }

    /// The next messages belong to another session. Not while a turn is in progress.
    void move_to(SessionPlace place);

    /// What the person says, as a message of the channel `cli`. Comma commands are taken from an operator only (B11).
    bub::Envelope message(std::string text, bool from_operator) const;

    /// `message` for the session, which is created and named after its first message if it is new. Throws what the store
    /// throws; the next message tries again.
    Task<bub::Envelope> for_session(bub::Envelope message);

    /// `message` is the one that the event answers; its kind tells commands from the rest.
    using Show = std::function<void(const bub::StreamEvent& event, const bub::Envelope& message)>;
    /// One turn, shown event by event. `message` is one of message().
    Task<Answer> ask(bub::Envelope message, Show show);
    /// Ends the turn of ask(); does nothing when there is none. What the agent has to say about that is still shown.
    void stop();

    /// To be called after `event` has been shown, where that is not done by ask().
    void note_shown(const bub::StreamEvent& event);
    /// How long questions have waited for the user so far.
    std::chrono::steady_clock::duration waited_for_user() const;

    Failure explain(const std::exception_ptr& failure) const;
    /// The model of the agent that runs now; null: none runs.
    std::shared_ptr<const Model> running_model() const;

private:
    bub::FrameworkOptions framework_options(const Parts& parts) const;
    bub::BuiltinOptions builtin_options(const Parts& parts);
    FailureContext context() const;
    Failure failure_of(const Answer& answer, const std::exception_ptr& thrown,
                       const std::string& complaint) const;

    SessionPlan plan_;
    bub::Framework framework_;
    std::function<void(const AgentEvent& event)> on_event_;
    std::function<void(const std::string& name)> on_session_;
    bool creating_session_ = false;
    AsyncEvent session_created_;  // or not: then the next message tries it
    std::weak_ptr<Agent> agent_;  // of the turn under way
    std::optional<std::stop_source> turn_;
    std::optional<RunResult> result_;
};

}  // namespace cubepi::app
