#pragma once

#include <csignal>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <cubepi/core/cancellation.hpp>
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

/// The process ends because of a signal, with the exit status 128 + signal.
class EndedBySignal final : public std::exception {
public:
    explicit EndedBySignal(int signal) : signal_(signal) {}
    int signal() const noexcept { return signal_; }
    const char* what() const noexcept override { return "ended by a signal"; }

private:
    int signal_;
};

/// Requests a stop of `stop` at the first signal that ends the process; a second one ends it at once. Used on one executor.
class StopAtSignal {
public:
    StopAtSignal(Executor executor, std::stop_source stop);
    /// The signal; 0: none.
    int signal() const noexcept { return signal_; }

private:
    int signal_ = 0;
    SignalWatch watch_;
};

/// Runs `work`. SIGINT, SIGTERM, SIGHUP and SIGPIPE cancel it; EndedBySignal is thrown when it has ended.
template <class T>
Task<T> until_signal(Task<T> work) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    const StopAtSignal signals(executor, stop);
    std::optional<T> result;
    std::exception_ptr failure;
    try {
        result = co_await cancel_on(stop.get_token(), std::move(work));
    } catch (...) {
        failure = std::current_exception();
    }
    if (signals.signal() != 0) throw EndedBySignal(signals.signal());
    if (failure) std::rethrow_exception(failure);
    co_return std::move(*result);
}

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
