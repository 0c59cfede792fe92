#pragma once

#include <memory>
#include <string>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

#include "style.hpp"

namespace cubepi::app {

/// A progress sign on standard error. Only at a terminal, and only in its foreground job. Used on one executor.
class Spinner {
public:
    /// `clock` outlives it.
    Spinner(Style style, Clock& clock, Executor executor);
    ~Spinner();
    void start(std::string what);
    void stop();

private:
    void tick();

    Style style_;
    std::unique_ptr<ClockTimer> timer_;
    std::string what_;
    std::size_t frame_ = 0;
    bool running_ = false;
    bool drawn_ = false;
};

}  // namespace cubepi::app
