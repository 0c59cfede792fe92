#pragma once

#include <memory>

#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// A flag that any thread sets and one coroutine at a time waits for. Copies share the flag.
class ThreadSignal {
public:
    ThreadSignal();

    /// Sets the flag and wakes the waiter through its executor. Thread-safe.
    void set() const;
    /// Waits until the flag is set, and clears it. Throws `operation_aborted` if the waiter is cancelled.
    Task<> wait() const;

private:
    struct State;
    struct Waiting;
    static Task<> wait_for(std::shared_ptr<State> state);

    std::shared_ptr<State> state_;
};

}  // namespace cubepi::detail
