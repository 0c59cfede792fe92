#pragma once

#include <pthread.h>
#include <signal.h>

namespace cubepi::detail {

/// Blocks all signals of this thread until it is destroyed. A thread inherits the mask of the thread that starts it, and signals
/// are for the program's own threads.
class BlockedSignals {
public:
    BlockedSignals() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

private:
    sigset_t before_;
};

}  // namespace cubepi::detail
