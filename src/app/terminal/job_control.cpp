#include "job_control.hpp"

#include <csignal>

#include <unistd.h>

#include <cubepi/core/runtime.hpp>

namespace cubepi::app {

bool in_foreground(int terminal) noexcept {
    const pid_t foreground = tcgetpgrp(terminal);
    return foreground < 0 || foreground == getpgrp();
}

bool stop_in_background() noexcept {
    struct sigaction action = {};
    if (sigaction(SIGTTIN, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) return false;
    // A shell that can continue the job is the parent, in the same session.
    if (getsid(getppid()) != getsid(0)) return false;
    return kill(0, SIGTTIN) == 0;
}

Task<bool> wait_for_foreground(int terminal) {
    while (!in_foreground(terminal)) {
        // A signal that has arrived already is handled first: a shell does not continue a job that stops after it was killed.
        co_await Runtime::standard()->clock->sleep_for(pause_between_stops);
        if (!in_foreground(terminal) && !stop_in_background()) co_return false;
    }
    co_return true;
}

}  // namespace cubepi::app
