#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <bub/builtin/detail/core.hpp>
#include <bub/event_stream.hpp>
#include <bub/tape/tape_fork.hpp>

namespace bub::detail {

/// One turn of the agent on the session's tape, as a stream: the answer of the builtin plugin. What the turn writes is
/// merged into the tape by close(), whatever became of it (B9). A request that does not fit the model's window hands
/// the tape off and is tried once more.
class AgentTurn final : public EventSource {
public:
    AgentTurn(std::shared_ptr<BuiltinCore> core, Prompt prompt, std::string session_id,
              TurnState& state);
    ~AgentTurn() override;

    Task<std::optional<StreamEvent>> next() override;
    std::optional<StreamEvent> ready() override;
    Task<> close() override;

private:
    Task<> begin();
    Task<> start_agent();
    Task<std::string> system_prompt();
    Task<> finish();
    Task<> on_agent_event(cubepi::AgentEvent event);
    void translate(const cubepi::AgentEvent& event);
    void push(std::string_view kind, JsonObject data,
              const std::shared_ptr<const cubepi::AgentEvent>& source);

    std::shared_ptr<BuiltinCore> core_;
    Prompt prompt_;
    std::string session_id_;
    TurnState& state_;
    std::optional<Tape> tape_;
    std::shared_ptr<TapeFork> fork_;
    std::shared_ptr<cubepi::ShellSessions> shells_;
    std::unique_ptr<cubepi::Agent> agent_;
    std::optional<cubepi::AgentRun> run_;
    std::deque<StreamEvent> events_;
    TurnStatus status_ = TurnStatus::cancelled;
    bool begun_ = false;
    bool over_ = false;
    bool said_something_ = false;  ///< text of a step before this one
    bool step_has_text_ = false;
    bool handed_off_ = false;
};

/// What a person or the tools may do with a session, as tools for the model and as comma commands.
std::vector<cubepi::AgentTool> session_tools(std::shared_ptr<BuiltinCore> core, Tape tape,
                                             std::string session_id, TurnState& state);

/// The prompt as the user's message; images of data URLs become images.
cubepi::Message user_message_of(const Prompt& prompt);

}  // namespace bub::detail
