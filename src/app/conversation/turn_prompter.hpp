#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>

#include "../terminal/prompter.hpp"

namespace cubepi::app {

/// Asks the questions of a conversation's turns. A question waits until all events that the agent emitted before it are shown: the
/// agent runs ahead of the display by up to a queue of events. Measures how long the user takes to answer. Used on one
/// executor.
class TurnPrompter final : public Prompter {
public:
    /// `before_question` ends the output that is shown in part. `clock` outlives the object.
    TurnPrompter(std::shared_ptr<Prompter> prompter, Clock& clock, Executor executor,
                 std::function<void()> before_question);
    ~TurnPrompter() override;

    /// The agent has emitted `event`.
    void emitted(const AgentEvent& event);
    /// `event` has been shown.
    void shown(const AgentEvent& event);
    /// How long questions have waited for their answers up to now, in total; two questions at once count once.
    std::chrono::steady_clock::duration waited() const;

    bool can_ask() const override { return prompter_->can_ask(); }
    Task<> prepare() override;
    void say(TerminalView text) override { prompter_->say(text); }
    void withdraw() override { prompter_->withdraw(); }
    ScreenSize size() const override { return prompter_->size(); }
    Task<std::optional<std::string>> read(TerminalText prompt, std::string prefill = {}) override;

private:
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
    Position emitted_;
    Position shown_;
    AsyncEvent progress_;
    std::size_t open_ = 0;
    std::chrono::steady_clock::time_point open_since_ = {};
    std::chrono::steady_clock::duration waited_{0};
};

}  // namespace cubepi::app
