#pragma once

#include <csignal>
#include <functional>
#include <initializer_list>
#include <memory>

#include <cubepi/core/task.hpp>

#include "pipeline.hpp"
#include "terminal/screen.hpp"

namespace cubepi::app {

/// Runs one message of Pipeline::message() on the screen; Ctrl-C ends its turn, a second one the program. Gives the exit
/// status and says what went wrong; 128 + the signal when another signal than Ctrl-C's is to end the program.
Task<int> converse(Pipeline& pipeline, Screen& screen, bub::Envelope message);

/// Calls `signalled` for each of `signals` (Ctrl-C is SIGINT; SIGPIPE: nobody reads the output any more) while it exists;
/// not for those that the program was started to ignore (nohup). Used on one executor.
class SignalWatch {
public:
    SignalWatch(Executor executor, std::function<void(int signal)> signalled,
                std::initializer_list<int> signals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE});
    ~SignalWatch();
    SignalWatch(const SignalWatch&) = delete;
    SignalWatch& operator=(const SignalWatch&) = delete;

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// What the signals of a turn mean: each ends the turn, and a second one the program at once. Used on one executor.
class TurnSignals {
public:
    TurnSignals(Executor executor, Pipeline& pipeline);
    /// The signal after which the program is to end; 0: none. Ctrl-C only ends the turn.
    int ended_by() const noexcept { return ended_by_; }

private:
    int ended_by_ = 0;
    bool stopped_ = false;
    SignalWatch watch_;
};

}  // namespace cubepi::app
