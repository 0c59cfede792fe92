#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/provider/faux.hpp>

#include "points.hpp"

namespace cubepi::abort_tests {

/// One way to use an agent, to be aborted everywhere.
struct Situation {
    std::string name;
    /// What the model says until it is asked the second time.
    std::function<std::vector<FauxStep>()> script;
    /// What the user says.
    std::function<PromptInput()> input = [] { return PromptInput("hi"); };
    /// Adds what the situation has beside the model. `points` outlives the agent.
    std::function<void(AgentOptions&, Points&)> equip = [](AgentOptions&, Points&) {};
    /// Called at each event, before the point of the event.
    std::function<void(Agent&, const AgentEvent&)> at_event = [](Agent&, const AgentEvent&) {};
    /// Makes the model; absent: Faux with the script, waiting before each event.
    std::function<BoundModel(Points&)> model = {};
    /// Makes the store; absent: one in memory.
    std::function<std::shared_ptr<Checkpointer>(Points&)> store = {};
};

/// How the run is ended.
enum class Way { abort, abort_from_thread, cancel };

/// What a round was like.
struct Round {
    std::size_t points = 0;
};

/// Runs the situation and ends it at point `target` (0: lets it run), checks what must hold after an abort anywhere (D1, D7), and
/// prompts again. Failures are gtest failures.
Round play_round(const Situation& situation, std::size_t target, Way way);

/// A round for every point, in every way; nothing is left behind by any.
void abort_everywhere(const Situation& situation);

/// Waits before each event of a model, so that there is a point between any two.
BoundModel waiting_model(FauxProvider faux, Points& points);

}  // namespace cubepi::abort_tests
