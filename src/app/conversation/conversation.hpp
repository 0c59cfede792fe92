#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

#include "../chat_actions.hpp"
#include "../chat_changes.hpp"
#include "../render/renderer.hpp"
#include "../terminal/prompter.hpp"
#include "pipeline.hpp"

namespace cubepi::app {

/// The conversation of `run` and of both chats: a pipeline and the renderer that shows its turns. Turns are either run one
/// after another by run_turn(), or by a channel of the pipeline that calls begin_turn(), show() and end_turn(). Used on one
/// executor.
class Conversation {
public:
    struct Parts {
        AddPlugins plugins = {};
        /// The channels of the pipeline; null: run_turn() is used instead.
        std::function<std::vector<std::shared_ptr<bub::Channel>>(bub::ProvideChannelsCall& call)>
            channels = {};
        /// Called with each event before it is shown.
        std::function<void(const AgentEvent& event)> on_event = {};
        std::function<void()> on_tasks = {};                              ///< of Pipeline::Parts
        std::function<void(bub::Envelope message)> deliver_results = {};  ///< of Pipeline::Parts
        /// Called at the end of run_turn(), after the end is shown.
        std::function<void(const TurnEnd& end)> on_end = {};
    };
    /// `renderer` outlives the object.
    Conversation(SessionPlan plan, Renderer& renderer, Parts parts);
    /// Exports the traces that are left, and shows whether any were lost.
    ~Conversation();
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    Pipeline& pipeline() noexcept { return pipeline_; }
    const SessionPlan& plan() const noexcept { return pipeline_.plan(); }

    /// Announces the conversation and shows the end of a resumed session, and, unless the first message answers one, the
    /// questions that it waits for if the user cannot be asked now.
    Task<> begin(bool shows_questions = true);
    /// Returns true if the session is suspended: it takes no message, only answers.
    bool waits_for_answer() const noexcept { return waits_for_answer_; }
    /// Asks the user the first question of a suspended session. Returns the message that answers it; empty if nothing
    /// waits, or if the user does not answer, in which case the question stays open.
    Task<std::optional<bub::Envelope>> ask_open_question();
    /// Shows how the open questions can be answered later.
    Task<> show_open_questions();

    /// Changes the mode of the tools to the next one.
    void next_mode();
    /// After a turn in the mode `plan`: asks whether the plan is to be carried out. If so, changes the mode and returns the
    /// prompt that tells the model; empty: the mode stays.
    Task<std::optional<std::string>> ask_to_carry_out();

    /// Runs the turn of a message of Pipeline::message(), and returns the exit status: 128 + the signal if another signal
    /// than that of Ctrl-C is to end the program. Ctrl-C stops the turn; a second one ends the program.
    Task<int> run_turn(bub::Envelope message);

    /// Runs `work`, and shows and answers the requests of the agents until it ends.
    Task<> answer_requests_during(Task<> work);

    void begin_turn();
    /// Shows an event of the turn that answers `message`.
    void show(const bub::StreamEvent& event, const bub::Envelope& message);
    /// Shows the end of a turn that was not run by run_turn().
    void end_turn(const std::exception_ptr& failure);

    /// Shows a failure that is not the end of a turn.
    void report(const std::exception_ptr& failure);

    /// Answers a side question, which does not become a part of the session. Failures are shown; returns false then. `during_turn`: the answer must not be
    /// mixed with that of the turn.
    Task<bool> ask_aside(std::string question, std::function<bool()> during_turn);

    /// Performs a command of the chat that concerns the session or prints help; failures are shown. `is_idle` as in
    /// ChangeActions; null: no turn can begin meanwhile.
    Task<> perform(ChatAction action, std::string argument, ChatAbilities abilities,
                   std::function<bool()> is_idle = {});
    /// ChangeActions::choose(); failures are shown.
    Task<std::optional<RewindChoice>> choose_rewind(std::string number);
    /// ChangeActions::rewind(); failures are shown.
    Task<std::string> rewind(RewindChoice choice, std::function<bool()> is_idle = {});

private:
    Pipeline::Parts pipeline_parts(Parts& parts);
    void show_telemetry();
    void show_problems_of_changes();
    void show_help(std::string text);
    Task<> change(ChatAction action, std::string argument, std::function<bool()> is_idle);
    Task<> replay();
    Task<std::vector<HitlRequest>> open_questions();
    Task<> ask_pipeline(bub::Envelope message, Answer& answer);

    Renderer& renderer_;
    std::function<void(const AgentEvent& event)> on_event_;
    std::function<void(const TurnEnd& end)> on_end_;
    std::string answer_;  ///< the text of the turn since its last tool call
    Pipeline pipeline_;
    ChatActions actions_;
    ChangeActions changes_;
    bool waits_for_answer_ = false;
    bool explained_all_ = false;  ///< the mode that asks nothing
};

/// Returns the front end of a session: the style, and the questions that `prompter` asks between the output of
/// `renderer`. `prompter` null: the user cannot be asked.
SessionParts session_parts(Renderer& renderer, std::shared_ptr<Prompter> prompter,
                           Executor executor);

}  // namespace cubepi::app
