#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include <cubepi/core/detail/wait_list.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// A flag that coroutines wait for. All members are used on one serial executor, the waiters' own.
///
/// Waiters continue in the order in which they came, through the executor's queue and never from
/// inside set(). A waiter that was woken continues even if the flag is reset before its turn.
/// Waiting ends with `operation_aborted` when the waiter is cancelled or the event is destroyed.
class AsyncEvent {
public:
    explicit AsyncEvent(bool set = false) noexcept : set_(set) {}

    bool is_set() const noexcept { return set_; }
    std::size_t waiters() const noexcept { return waiters_.size(); }

    void set() {
        set_ = true;
        waiters_.wake_all();
    }

    void reset() noexcept { set_ = false; }

    /// Wakes who waits now and leaves the flag as it is.
    void pulse() { waiters_.wake_all(); }

    /// Returns at once when the flag is set.
    Task<> wait();

private:
    detail::WaitList waiters_;
    bool set_;
};

/// A queue between coroutines of one serial executor. `capacity` bounds it: push() waits while it
/// is full.
template <class T>
class AsyncQueue {
public:
    explicit AsyncQueue(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

    /// Appends, after waiting for room. False (and the item is gone) when the queue is closed.
    Task<bool> push(T item) {
        while (!closed_ && items_.size() >= capacity_) co_await room_.wait();
        co_return put(std::move(item));
    }

    /// Appends if there is room. False, with `item` untouched, when it is full or closed.
    bool try_push(T& item) { return items_.size() < capacity_ && put(std::move(item)); }
    bool try_push(T&& item) { return try_push(item); }

    /// Appends whether there is room or not. False when the queue is closed.
    bool force_push(T item) { return put(std::move(item)); }

    /// The next item; empty when the queue is closed and drained. Throws what close() was given,
    /// once everything before it is taken.
    Task<std::optional<T>> next() {
        while (items_.empty() && !closed_) co_await arrival_.wait();
        co_return take();
    }

    /// The next item, if there is one.
    std::optional<T> try_next() {
        std::optional<T> item;
        if (!items_.empty()) item = take();
        return item;
    }

    /// No more items; those that are queued can still be taken. With `failure`, whoever takes after
    /// them gets it.
    void close(std::exception_ptr failure = nullptr) {
        if (closed_) return;
        closed_ = true;
        failure_ = std::move(failure);
        arrival_.wake_all();
        room_.wake_all();
    }

    bool closed() const noexcept { return closed_; }
    bool empty() const noexcept { return items_.empty(); }
    std::size_t size() const noexcept { return items_.size(); }

private:
    bool put(T&& item) {
        if (closed_) return false;
        items_.push_back(std::move(item));
        arrival_.wake_one();
        return true;
    }

    std::optional<T> take() {
        std::optional<T> item;
        if (!items_.empty()) {
            item.emplace(std::move(items_.front()));
            items_.pop_front();
            room_.wake_one();
        } else if (failure_) {
            std::rethrow_exception(failure_);
        }
        return item;
    }

    const std::size_t capacity_;
    bool closed_ = false;
    std::exception_ptr failure_;
    std::deque<T> items_;
    detail::WaitList arrival_;
    detail::WaitList room_;
};

}  // namespace cubepi
