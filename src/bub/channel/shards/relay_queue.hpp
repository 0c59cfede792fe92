#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <cubepi/core/async/post.hpp>
#include <cubepi/core/event_signal.hpp>

namespace bub::detail {

/// A bounded queue from a coroutine of one executor to a coroutine of another. Owned by a shared_ptr.
template <class T>
class RelayQueue : public std::enable_shared_from_this<RelayQueue<T>> {
public:
    RelayQueue(cubepi::Executor producer, cubepi::Executor consumer, std::size_t capacity)
        : producer_(std::move(producer)), consumer_(std::move(consumer)), capacity_(capacity) {}

    /// Appends an item after waiting for space. Called on the producer's executor.
    cubepi::Task<> push(T item) {
        for (;;) {
            space_.reset();
            if (try_push(item)) co_return;
            co_await space_.wait();
        }
    }

    /// Ends the queue: after the last item, next() throws `failure`, or returns nothing if it is null.
    void finish(std::exception_ptr failure) {
        const std::lock_guard lock(mutex_);
        if (std::exchange(finished_, true)) return;
        failure_ = std::move(failure);
        wake_consumer();
    }

    /// Returns the next item; nothing at the end. Called on the consumer's executor.
    cubepi::Task<std::optional<T>> next() {
        for (;;) {
            arrival_.reset();
            std::optional<T> item = take(true);
            if (item || at_end()) co_return item;
            co_await arrival_.wait();
        }
    }

    /// Returns the next item, if there is one. Called on the consumer's executor.
    std::optional<T> ready() { return take(false); }

private:
    /// Does not move from `item` if the queue is full.
    bool try_push(T& item) {
        const std::lock_guard lock(mutex_);
        if (items_.size() >= capacity_) {
            producer_waits_ = true;
            return false;
        }
        items_.push_back(std::move(item));
        wake_consumer();
        return true;
    }

    std::optional<T> take(bool waits) {
        std::optional<T> item;
        const std::lock_guard lock(mutex_);
        if (items_.empty()) {
            consumer_waits_ = waits;
            return item;
        }
        item.emplace(std::move(items_.front()));
        items_.pop_front();
        // Half of the queue is free: waking the producer for each item would cost a thread switch per item.
        if (producer_waits_ && items_.size() <= capacity_ / 2) {
            producer_waits_ = false;
            cubepi::detail::post_to(producer_,
                                    [self = this->shared_from_this()] { self->space_.set(); });
        }
        return item;
    }

    /// Throws the failure of finish().
    bool at_end() {
        const std::lock_guard lock(mutex_);
        if (!finished_ || !items_.empty()) return false;
        if (failure_) std::rethrow_exception(failure_);
        return true;
    }

    void wake_consumer() {
        if (!std::exchange(consumer_waits_, false)) return;
        cubepi::detail::post_to(consumer_,
                                [self = this->shared_from_this()] { self->arrival_.set(); });
    }

    const cubepi::Executor producer_;
    const cubepi::Executor consumer_;
    const std::size_t capacity_;
    cubepi::AsyncEvent space_;    // used on the producer's executor
    cubepi::AsyncEvent arrival_;  // used on the consumer's executor

    std::mutex mutex_;
    std::deque<T> items_;
    std::exception_ptr failure_;
    bool finished_ = false;
    bool producer_waits_ = false;
    bool consumer_waits_ = false;
};

}  // namespace bub::detail
