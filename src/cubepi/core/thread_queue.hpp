#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <boost/asio/post.hpp>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// A bounded queue from any thread to a coroutine: for engines and libraries that call back on threads of their own. The queue
/// belongs to the coroutine that reads it; threads write through copies of its Writer, which may outlive it.
///
///     ThreadQueue<std::string> tokens(co_await this_executor, 64);
///     engine.generate(prompt, [writer = tokens.writer()](std::string token) { return writer.push(std::move(token)); });
///     while (auto token = co_await tokens.next()) ...
template <class T>
class ThreadQueue {
    struct State;

public:
    /// The thread-safe end of the queue.
    class Writer {
    public:
        /// Appends an item; blocks the thread while the queue is full. Returns false, also while it blocks, as soon as the
        /// queue is closed or destroyed: nothing is read any more, so the thread may stop. Must not be called on the
        /// executor of the reader.
        bool push(T item) const { return state_->push(item, true); }
        /// Appends an item if there is space. Returns false if there is none, or if the queue is closed or destroyed.
        bool try_push(T item) const { return state_->push(item, false); }
        /// Ends the queue: next() returns the remaining items, then throws `failure`, or returns nothing.
        void close(std::exception_ptr failure = nullptr) const {
            state_->close(std::move(failure));
        }

    private:
        friend class ThreadQueue;
        explicit Writer(std::shared_ptr<State> state) : state_(std::move(state)) {}
        std::shared_ptr<State> state_;
    };

    /// `executor` is that of the reader: `co_await this_executor`.
    ThreadQueue(Executor executor, std::size_t capacity)
        : state_(std::make_shared<State>(std::move(executor), capacity)) {}
    ~ThreadQueue() { state_->abandon(); }
    ThreadQueue(const ThreadQueue&) = delete;
    ThreadQueue& operator=(const ThreadQueue&) = delete;

    Writer writer() const { return Writer(state_); }
    /// Returns the next item; empty after the last one if the queue was closed. Cancelling the awaiting coroutine ends the wait.
    Task<std::optional<T>> next() {
        const std::shared_ptr<State> state = state_;
        for (;;) {
            std::optional<T> item;
            if (state->take(item)) co_return item;
            co_await state->arrival.wait();
        }
    }

private:
    struct State : std::enable_shared_from_this<State> {
        State(Executor where, std::size_t most)
            : executor(std::move(where)), capacity(most == 0 ? 1 : most) {}

        bool push(T& item, bool wait) {
            std::unique_lock lock(mutex);
            if (wait) space.wait(lock, [this] { return closed || items.size() < capacity; });
            if (closed || items.size() >= capacity) return false;
            items.push_back(std::move(item));
            wake_reader();
            return true;
        }
        void close(std::exception_ptr reason) {
            const std::lock_guard lock(mutex);
            if (closed) return;
            closed = true;
            failure = std::move(reason);
            wake_reader();
            space.notify_all();
        }
        /// The reader is gone, and its executor may be too.
        void abandon() {
            const std::lock_guard lock(mutex);
            closed = true;
            abandoned = true;
            woken = true;
            items.clear();
            space.notify_all();
        }
        /// Returns true if `item` is the answer of next().
        bool take(std::optional<T>& item) {
            const std::lock_guard lock(mutex);
            arrival.reset();
            if (!items.empty()) {
                item.emplace(std::move(items.front()));
                items.pop_front();
                space.notify_one();
                return true;
            }
            if (closed && failure) std::rethrow_exception(failure);
            return closed;
        }
        /// With the lock, so that the reader, which keeps the executor alive, cannot go meanwhile.
        void wake_reader() {
            if (std::exchange(woken, true)) return;
            boost::asio::post(executor, [self = this->shared_from_this()] {
                {
                    const std::lock_guard lock(self->mutex);
                    if (!self->abandoned) self->woken = false;
                }
                self->arrival.set();
            });
        }

        const Executor executor;
        const std::size_t capacity;
        std::mutex mutex;
        std::condition_variable space;
        std::deque<T> items;
        std::exception_ptr failure;
        bool closed = false;
        bool abandoned = false;
        bool woken = false;  // a wake-up is on its way, or none may be sent
        AsyncEvent arrival;  // used on the executor
    };

    std::shared_ptr<State> state_;
};

}  // namespace cubepi

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
