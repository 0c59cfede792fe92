#pragma once

#include <functional>

#include <cubepi/core/task.hpp>

#include "session.hpp"
#include "terminal/screen.hpp"

namespace cubepi::app {

/// Runs one prompt of a session on the screen; Ctrl-C aborts it. Gives the exit status and says what went wrong.
Task<int> converse(Session& session, Screen& screen, std::string prompt);

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
