#include <cubepi/core/thread_queue.hpp>

#include <mutex>
#include <optional>
#include <utility>

namespace cubepi::detail {

struct ThreadSignal::State {
    std::mutex mutex;
    bool set = false;
    std::optional<Executor> waiter;  // the executor of the coroutine that waits
    AsyncEvent* woken = nullptr;     // the waiter's; used on its executor only
};

/// Registers the waiter, and removes it however its frame ends.
struct ThreadSignal::Waiting {
    Waiting(State& shared, AsyncEvent& event) : state(shared) { state.woken = &event; }
    ~Waiting() {
        const std::lock_guard lock(state.mutex);
        state.waiter.reset();
        state.woken = nullptr;
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    /// Returns true, and clears the flag, if it is set. Otherwise set() wakes the waiter from now on.
    bool take(const Executor& executor) {
        const std::lock_guard lock(state.mutex);
        state.waiter = executor;
        return std::exchange(state.set, false);
    }

    State& state;
};

ThreadSignal::ThreadSignal() : state_(std::make_shared<State>()) {}

void ThreadSignal::set() const {
    // Posts under the lock: the waiter's event loop may be destroyed as soon as the waiter is gone.
    const std::lock_guard lock(state_->mutex);
    state_->set = true;
    if (!state_->waiter) return;
    boost::asio::post(*state_->waiter, [state = state_] {
        if (state->woken) state->woken->set();
    });
}

Task<> ThreadSignal::wait() const { return wait_for(state_); }

Task<> ThreadSignal::wait_for(std::shared_ptr<State> state) {
    const Executor executor = co_await this_executor;
    AsyncEvent woken;
    Waiting waiting(*state, woken);
    while (!waiting.take(executor)) {
        co_await woken.wait();
        woken.reset();
    }
}

}  // namespace cubepi::detail
