#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

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

/// Blocks SIGPIPE on this thread, and discards the one that a write to a closed pipe or socket has caused. Changes errno.
class NoSigpipe {
public:
    NoSigpipe() noexcept {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~NoSigpipe() {
        const timespec now{};
        if (sigismember(&before_, SIGPIPE) == 1) return;
        (void)sigtimedwait(&pipe_, nullptr, &now);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoSigpipe(const NoSigpipe&) = delete;
    NoSigpipe& operator=(const NoSigpipe&) = delete;

private:
    sigset_t pipe_;
    sigset_t before_;
};

}  // namespace cubepi::detail
