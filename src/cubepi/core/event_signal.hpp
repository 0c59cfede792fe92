#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include <cubepi/core/task.hpp>

namespace cubepi::detail {

struct WaitNode;

/// Coroutines that wait, in order. Used on their serial executor only. Waiting allocates no memory of its own: the list
/// is linked through the waiters' frames.
class WaitList {
public:
    WaitList() noexcept = default;

    /// Remaining waiters end with `operation_aborted`.
    ~WaitList();

    /// Suspends until woken; throws `operation_aborted` if cancelled.
    Task<> wait();

    /// Returns false if there is no waiter. The woken one resumes through its executor's queue.
    bool wake_one() noexcept;
    void wake_all() noexcept;

    bool empty() const noexcept { return first_ == nullptr; }
    std::size_t size() const noexcept;

    WaitList(const WaitList&) = delete;
    WaitList& operator=(const WaitList&) = delete;

private:
    friend struct WaitNode;
    WaitNode* first_ = nullptr;
    WaitNode* last_ = nullptr;
};

}  // namespace cubepi::detail

namespace cubepi {

/// A flag that coroutines can await. All members are used on one serial executor, that of the waiters.
///
/// Waiters resume in order of arrival, through the executor's queue and never from inside set(). A waiter that was
/// woken resumes even if the flag is reset before. Waiting ends with `operation_aborted` if the waiter is cancelled or
/// the event is destroyed.
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

    /// Wakes the current waiters without changing the flag.
    void pulse() { waiters_.wake_all(); }

    /// Returns immediately if the flag is set.
    Task<> wait();

private:
    detail::WaitList waiters_;
    bool set_;
};

/// A bounded queue between coroutines of one serial executor. push() waits while `capacity` items are queued.
template <class T>
class AsyncQueue {
public:
    explicit AsyncQueue(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

    /// Appends an item after waiting for space. Returns false (and drops the item) if the queue is closed.
    Task<bool> push(T item) {
        while (!closed_ && items_.size() >= capacity_) co_await space_.wait();
        co_return put(std::move(item));
    }

    /// Appends an item if there is space. Returns false, without moving from `item`, if the queue is full or closed.
    bool try_push(T& item) { return items_.size() < capacity_ && put(std::move(item)); }
    bool try_push(T&& item) { return try_push(item); }

    /// Appends an item even if the queue is full. Returns false if the queue is closed.
    bool force_push(T item) { return put(std::move(item)); }

    /// Returns the next item; empty if the queue is closed and drained. After the last item, throws the failure passed
    /// to close().
    Task<std::optional<T>> next() {
        while (items_.empty() && !closed_) co_await arrival_.wait();
        co_return take();
    }

    /// Returns the next item, if any.
    std::optional<T> try_next() {
        std::optional<T> item;
        if (!items_.empty()) item = take();
        return item;
    }

    /// Closes the queue; queued items can still be taken. With `failure`, every later next() throws it.
    void close(std::exception_ptr failure = nullptr) {
        if (closed_) return;
        closed_ = true;
        failure_ = std::move(failure);
        arrival_.wake_all();
        space_.wake_all();
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
            space_.wake_one();
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
    detail::WaitList space_;
};

}  // namespace cubepi
