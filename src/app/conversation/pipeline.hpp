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
#include <cubepi/provider/provider.hpp>

#include "../failure.hpp"
#include "session.hpp"

namespace cubepi::app {

/// The outcome of a prompt.
struct Answer {
    std::optional<RunResult> result = {};  ///< of the agent's run; absent if it did not begin
    Failure failure = {};                  ///< its exit code is exit_ok if the turn succeeded
};

/// The pipeline of a conversation: the framework with the builtin plugin, which has the plan's model, tools, approvals,
/// limits and tape. Used on one executor.
class Pipeline {
public:
    struct Parts {
        std::function<void(std::string text)> on_warning = {};
        /// The session was created and has a name now.
        std::function<void(const std::string& name)> on_session = {};
        std::function<std::vector<std::shared_ptr<bub::Channel>>(bub::ProvideChannelsCall& call)>
            channels = {};
        AddPlugins plugins = {};
        /// Called with the agent of a turn before it runs.
        std::function<void(const std::shared_ptr<Agent>& agent)> on_agent = {};
        /// Called when a sub-agent in the background has started, made progress, or ended.
        std::function<void()> on_tasks = {};
        /// Receives the message whose turn reports results of sub-agents in the background. Null: the next turn does.
        std::function<void(bub::Envelope message)> deliver_results = {};
    };
    Pipeline(SessionPlan plan, Parts parts);
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;

    bub::Framework& framework() noexcept { return framework_; }
    const SessionPlan& plan() const noexcept { return plan_; }
    /// The model of the session.
    const ModelChoice& model() const { return plan_.models->current(); }

    /// The commands of the session that were moved to the background, oldest first.
    std::vector<ShellSessions::Summary> background_commands() const;
    /// Null: there is none with this id.
    std::shared_ptr<ShellSessions::Command> background_command(const std::string& id) const;

    /// The sub-agents in the background, oldest first: those that run, and those whose result is not in the conversation.
    std::vector<SubagentTask> tasks() const { return agents_->list(plan_.session_id); }
    /// Returns false if no sub-agent in the background with this id runs.
    bool cancel_task(std::string_view id) { return agents_->cancel(plan_.session_id, id); }
    /// Ends the sub-agents in the background, and waits until they have ended. Called before the object is destroyed, unless a channel
    /// manager has run its turns.
    Task<> close() { return agents_->close(); }

    /// The work in the background that has ended with its session.
    struct Ended {
        std::size_t commands = 0;
        std::size_t agents = 0;
    };
    /// The next messages belong to another session. Not while a turn is in progress. Ends the background work of the current one.
    Ended move_to(SessionLocation place);

    /// Returns an input of the user as a message of the channel `cli`. Comma commands are accepted from an operator only
    /// (B11).
    bub::Envelope message(std::string text, bool from_operator);
    /// Adds a note for the model to the next prompt.
    void add_note_for_model(std::string text);

    /// Addresses `message` to the session, which is created and named after its first prompt if it is new. Throws what the
    /// store throws; the next message tries again.
    Task<bub::Envelope> for_session(bub::Envelope message);

    /// `message` is the one that the event answers; its kind distinguishes commands.
    using Show = std::function<void(const bub::StreamEvent& event, const bub::Envelope& message)>;
    /// Runs one turn and passes its events to `show`. `message` is one of message().
    Task<Answer> ask(bub::Envelope message, Show show);
    /// Stops the turn of ask(), if there is one. The remaining events of the agent are still shown.
    void stop();

    /// Offers a message to the run of ask(), which takes it after its next answer and after the hooks of the user have seen it. Returns
    /// the id that it will have in the conversation; nothing: no run would take it.
    Task<std::optional<std::string>> steer(bub::Envelope message);
    /// Withdraws it if the run has not taken it.
    void withdraw(const std::string& id);

    /// Must be called after `event` has been shown.
    void note_shown(const bub::StreamEvent& event);
    /// Returns how long questions have waited for the user so far.
    std::chrono::steady_clock::duration waited_for_user() const;

    /// The circumstances of a failure now.
    FailureContext context() const;
    Failure explain(const std::exception_ptr& failure) const;
    /// The model of the current agent; null: none runs.
    std::shared_ptr<const Model> running_model() const;

private:
    bub::FrameworkOptions framework_options(const Parts& parts) const;
    bub::BuiltinOptions builtin_options(const Parts& parts);
    void note_result(const RunResult& result);
    bool saves_failed(const Answer& answer) const;
    Task<> save_failed(std::string prompt, Failure& failure);
    Task<> save(std::string prompt);
    Failure waiting(const std::vector<HitlRequest>& requests) const;
    Failure unread(const std::vector<HitlRequest>& requests) const;
    Failure failure_of(const Answer& answer, const std::exception_ptr& thrown,
                       const std::string& reported) const;

    SessionPlan plan_;
    const std::shared_ptr<bub::SessionCommands> commands_ =
        std::make_shared<bub::SessionCommands>();
    const std::shared_ptr<bub::SessionAgents> agents_ = std::make_shared<bub::SessionAgents>();
    bub::Framework framework_;
    std::function<void(const std::string& name)> on_session_;
    Task<> add_git_state(bub::Envelope& message);
    Task<> name_session(std::string prompt);
    std::optional<std::string> branch_;  ///< that the model was told; absent: nothing yet
    std::string for_model_;              // of add_note_for_model(), until the next prompt
    bool creating_session_ = false;
    bool names_after_prompt_ = false;         // the session was created for a command
    std::weak_ptr<const void> last_command_;  // its turn
    AsyncEvent session_created_;  // or creating it failed, and the next message tries again
    std::weak_ptr<Agent> agent_;  // of the current turn
    std::optional<std::stop_source> turn_;
    std::shared_ptr<bub::SteeringInbox> inbox_;  // null: nothing was offered yet
    std::optional<RunResult> result_;
    std::optional<ModelChoice> failed_fallback_;  // the fallback model that failed last in the run
};

/// Returns indented lines: each question and the command that answers it, and the command that opens the session.
std::string ways_to_answer(const std::vector<HitlRequest>& requests, const SessionPlan& plan);

// Turns on a copy of a session, in memory. They see the conversation, and the session does not get them.

/// The answer to a side question.
struct AsideAnswer {
    std::string text = {};
    Answer answer = {};
};

/// Asks the model of the session a question with the context of the session, also while a turn runs; what that turn has done so far is
/// not in the context. The request has the tools of the session, so that the provider's cache of its beginning is used, but calls are
/// refused. `pipeline` must outlive the task.
Task<AsideAnswer> ask_aside(Pipeline& pipeline, std::string question);

struct NextRequest {
    std::optional<ModelRequest> request =
        {};                ///< absent: the turn ended before the model was called
    Failure failure = {};  ///< how the turn ended
};

/// Returns the request that a prompt would cause now, without sending anything.
Task<NextRequest> request_for(Pipeline& pipeline, std::string prompt);

}  // namespace cubepi::app
