#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/task_scope.hpp>

#include "scenario.hpp"

namespace conformance {

/// The objects that actions use and write to. Outlive the actor.
struct Stage {
    cubepi::Agent* agent = nullptr;
    cubepi::HitlChannel* channel = nullptr;  ///< of the agent; null: none
    std::stop_source* step_stop = nullptr;   ///< cancels the coroutine that awaits the current step
    cubepi::BackgroundScope* background = nullptr;
    JsonArray actions;
    JsonArray probes;
};

/// The second listener: performs the scenario's actions at events.
class Actor {
public:
    Actor(const std::vector<ActionRule>& rules, Stage& stage);
    /// Throws the error of a rule, after all other actions at this event.
    void on_event(const cubepi::AgentEvent& event);

private:
    struct Armed {
        const ActionRule& rule;
        std::int64_t matches = 0;
    };
    void perform(const Action& action);
    void start_waiting(const cubepi::AgentEvent& event, std::vector<Action> actions);

    std::vector<Armed> rules_;
    Stage& stage_;
};

}  // namespace conformance
