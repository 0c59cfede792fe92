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

/// The resources of a process: open files and sockets, threads, children.
struct Holdings {
    std::size_t files = 0;
    std::size_t threads = 0;
    std::size_t children = 0;
    friend bool operator==(const Holdings&, const Holdings&) = default;
};

Holdings holdings();
std::string describe(const Holdings& holdings);

/// True when the process holds no more resources than `before`; waits a while for threads and children that are exiting.
bool back_to(const Holdings& before);

/// One use of an agent, to be aborted at every point.
struct Situation {
    std::string name;
    /// The answer of the model to the first prompt.
    std::function<std::vector<FauxStep>()> script;
    /// The message of the user.
    std::function<PromptInput()> input = [] { return PromptInput("hi"); };
    /// Adds the parts of the situation other than the model. `points` outlives the agent.
    std::function<void(AgentOptions&, Points&)> equip = [](AgentOptions&, Points&) {};
    /// Called at each event, before the point of the event.
    std::function<void(Agent&, const AgentEvent&)> at_event = [](Agent&, const AgentEvent&) {};
    /// Creates the model; absent: Faux with the script, waiting before each event.
    std::function<BoundModel(Points&)> model = {};
    /// Creates the store; absent: one in memory.
    std::function<std::shared_ptr<Checkpointer>(Points&)> store = {};
};

/// The way to end the run.
enum class Way { abort, abort_from_thread, cancel };

/// The result of a round.
struct Round {
    std::size_t points = 0;
};

/// Runs the situation and ends it at point `target` (0: lets it run), checks the guarantees after an abort (D1, D7), and prompts
/// again. Failures are gtest failures.
Round play_round(const Situation& situation, std::size_t target, Way way);

/// Runs a round for every point and every way; checks that none leaks resources.
void abort_everywhere(const Situation& situation);

/// Waits before each event of a model, so that there is a point between any two.
BoundModel waiting_model(FauxProvider faux, Points& points);

}  // namespace cubepi::abort_tests
