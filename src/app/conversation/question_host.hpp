#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/outcome.hpp>

#include "../terminal/prompter.hpp"
#include "../terminal/terminal_stream.hpp"
#include "approval_dialog.hpp"

namespace cubepi::app {

/// Asks the questions of a conversation's turns. A question waits until all events that the agent emitted before it are shown: the
/// agent runs ahead of the display by up to a queue of events. Measures how long the user takes to answer. Used on one
/// executor.
class TurnPrompter final : public Prompter {
public:
    /// `before_question` ends the output that is shown in part. `on_accepted`, which may be null, is called by note_accepted(). `clock`
    /// outlives the object.
    using OnAccepted = std::function<void(std::string_view path, std::string_view diff)>;
    TurnPrompter(std::shared_ptr<Prompter> prompter, Clock& clock, Executor executor,
                 std::function<void()> before_question, OnAccepted on_accepted = {});
    ~TurnPrompter() override;

    /// The agent has emitted `event`.
    void emitted(const AgentEvent& event);
    /// `event` has been shown.
    void shown(const AgentEvent& event);
    /// How long questions have waited for their answers up to now, in total; two questions at once count once.
    std::chrono::steady_clock::duration waited() const;

    bool can_ask() const override { return prompter_->can_ask(); }
    Task<> prepare() override;
    void print(TerminalView text) override { prompter_->print(text); }
    void set_question(std::function<TerminalText(ScreenSize)> text) override {
        prompter_->set_question(std::move(text));
    }
    void note_accepted(std::string_view path, std::string_view diff) override {
        if (on_accepted_) on_accepted_(path, diff);
    }
    void withdraw() override { prompter_->withdraw(); }
    ScreenSize size() const override { return prompter_->size(); }
    Task<std::optional<std::string>> read(TerminalText prompt, std::string prefill = {}) override;
    Task<std::optional<std::string>> edit(TerminalText prompt, std::string text) override;
    Task<std::optional<Chosen>> choose(Choices choices) override;
    Task<std::optional<std::size_t>> pick(PickList list) override;

private:
    /// Adds the time that it takes to waited().
    template <class Answer>
    Task<Answer> measured(Task<Answer> question);
    /// A place in the events of a run.
    struct Position {
        std::shared_ptr<const RunInfo> run = {};
        std::uint64_t seq = 0;
    };
    bool has_shown(const Position& position) const;

    std::shared_ptr<Prompter> prompter_;
    Clock& clock_;
    Executor executor_;
    std::function<void()> before_question_;
    OnAccepted on_accepted_;
    Position emitted_;
    Position shown_;
    AsyncEvent progress_;
    std::size_t open_ = 0;
    std::chrono::steady_clock::time_point open_since_ = {};
    std::chrono::steady_clock::duration waited_{0};
};

/// The reading of a typed answer.
struct TypedAnswer {
    Json value =
        nullptr;  ///< a text, or a list of texts for several choices; null: skipped, or not accepted
    std::string problem = {};  ///< why it was not accepted; empty: it was
};

/// Reads an answer: free text, or for a question with options the number, label or value of an option (several, separated
/// by commas, if the question allows it), or any text if an option allows input. An optional question is skipped by an
/// empty answer.
TypedAnswer read_typed_answer(const HitlQuestion& question, std::string_view text);

/// Asks the user the questions of the tool ask_user, and yes/no questions. Used on one executor.
class AskDialog {
public:
    /// `prompter` outlives the object.
    AskDialog(Prompter& prompter, Style style) : prompter_(prompter), style_(style) {}

    /// Returns the answers by key; empty if the input has ended. `asker` begins the question: "The model".
    Task<std::optional<JsonObject>> ask(AskRequest request, std::string asker = "The model");
    /// Returns the answer; empty if the input has ended.
    Task<std::optional<bool>> confirm(ConfirmRequest request);

private:
    Task<std::optional<Json>> ask_one(const HitlQuestion& question);
    void show(const HitlQuestion& question) const;
    void show_title(TerminalView title, std::string_view text) const;

    Prompter& prompter_;
    Style style_;
    std::string asker_;
};

/// Shows the requests of a channel to the user, one after another, and answers them. Works with any channel; requests that
/// wait already are shown first. Used on one executor.
class QuestionHost {
public:
    /// `approval` receives the rules that the user adds.
    QuestionHost(std::shared_ptr<HitlChannel> channel, std::shared_ptr<Prompter> prompter,
                 Style style, std::shared_ptr<ToolApproval> approval,
                 ApprovalDialog::SaveRule save_rule);

    /// Adds the channel of sub-agents in the background, before run(). Questions of both are asked one after another.
    void also_serve(std::shared_ptr<HitlChannel> channel) { background_ = std::move(channel); }

    /// Answers requests until it is cancelled.
    Task<> run();

    /// Shows a request that no channel of this process has, and returns the answer; null if the input has ended.
    Task<Json> ask(HitlRequest request);

    /// Runs a dialog of the program itself, when no other question is on the screen.
    template <class T>
    Task<T> alone(Task<T> dialog) {
        co_await begin_question();
        Outcome<T> answered = co_await outcome_of(std::move(dialog));
        end_question();
        co_return std::move(answered).value();
    }

    /// Withdraws the question on the screen if its request does not wait any more (aborted, timed out, or answered
    /// elsewhere). Must be called after the events of the agent.
    void refresh();

    /// Refuses the question on the screen if a sub-agent in the background has asked it, and returns whether it has.
    bool dismiss_background();

private:
    Task<> serve_channel(std::shared_ptr<HitlChannel> channel);
    Task<> serve(std::shared_ptr<HitlChannel> channel, HitlRequest request);
    Task<> serve_now(std::shared_ptr<HitlChannel> channel, HitlRequest request);
    Task<> ask_and_answer(std::shared_ptr<HitlChannel> channel, HitlRequest request);
    Task<> refuse(std::shared_ptr<HitlChannel> channel, std::string id, bool approves,
                  std::string reason);
    Task<Json> ask_now(HitlRequest request);
    Task<> begin_question();
    void end_question();

    std::shared_ptr<HitlChannel> channel_;
    std::shared_ptr<HitlChannel> background_;
    std::shared_ptr<Prompter> prompter_;
    std::shared_ptr<ToolApproval> approval_;
    ApprovalDialog approvals_;
    AskDialog questions_;
    bool asking_ = false;  // dialogs of two questions would mix
    AsyncEvent asked_;
    std::shared_ptr<HitlChannel> open_channel_;  // of the question on the screen
    std::string open_;                           // the id of that question; empty: none
    std::stop_source withdrawal_;
    bool dismissed_ = false;  // by the user, not withdrawn
};

}  // namespace cubepi::app
