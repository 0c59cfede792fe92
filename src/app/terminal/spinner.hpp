#pragma once

#include <memory>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

#include "style.hpp"

namespace cubepi::app {

/// A progress sign on standard error. Only at a terminal, and only in its foreground job. Used on one executor.
class Spinner {
public:
    /// `clock` must outlive the object.
    Spinner(Style style, Clock& clock, Executor executor);
    ~Spinner();
    void start(TerminalText what);
    void stop();

private:
    void tick();

    Style style_;
    std::unique_ptr<ClockTimer> timer_;
    TerminalText what_;
    std::size_t frame_ = 0;
    bool running_ = false;
    bool drawn_ = false;
};

}  // namespace cubepi::app
