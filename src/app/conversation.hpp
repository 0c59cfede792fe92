#pragma once

#include <functional>

#include <cubepi/core/task.hpp>

#include "pipeline.hpp"
#include "terminal/screen.hpp"

namespace cubepi::app {

/// Runs one message of Pipeline::message() on the screen; Ctrl-C ends its turn, a second one the program. Gives the exit
/// status and says what went wrong.
Task<int> converse(Pipeline& pipeline, Screen& screen, bub::Envelope message);

/// Calls `interrupted` for each Ctrl-C while it exists. Used on one executor.
class InterruptWatch {
public:
    InterruptWatch(Executor executor, std::function<void()> interrupted);
    ~InterruptWatch();
    InterruptWatch(const InterruptWatch&) = delete;
    InterruptWatch& operator=(const InterruptWatch&) = delete;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi::app
