#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace cubepi::detail {

/// A bounded queue without locks, for any number of threads on both sides. T has a default value, and moving it does not throw.
///
/// The algorithm is Dmitry Vyukov's bounded queue: each cell has a sequence number that states whose turn it is, so threads
/// compete only for the two positions.
template <class T>
class BoundedQueue {
public:
    /// `capacity` is rounded up to a power of two.
    explicit BoundedQueue(std::size_t capacity)
        : mask_(std::bit_ceil(std::max<std::uint64_t>(capacity, 2)) - 1),
          cells_(std::make_unique<Cell[]>(mask_ + 1)) {
        for (std::uint64_t i = 0; i <= mask_; ++i)
            cells_[i].sequence.store(i, std::memory_order_relaxed);
    }

    /// Returns false, and leaves `value` unchanged, if the queue is full or another thread is still taking out the value that
    /// was in the next cell.
    bool push(T&& value) noexcept {
        std::uint64_t position = tail_.load(std::memory_order_relaxed);
        for (;;) {
            Cell& cell = cells_[position & mask_];
            const std::uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
            if (sequence < position) return false;
            if (sequence > position) {
                position = tail_.load(std::memory_order_relaxed);
            } else if (tail_.compare_exchange_weak(position, position + 1)) {
                cell.value = std::move(value);
                cell.sequence.store(position + 1, std::memory_order_release);
                prefetch(position + 1);
                return true;
            }
        }
    }

    /// Takes out the oldest value. Returns false if there is none, or if the thread that adds it has not finished.
    bool pop(T& value) noexcept {
        std::uint64_t position = head_.load(std::memory_order_relaxed);
        for (;;) {
            Cell& cell = cells_[position & mask_];
            const std::uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
            if (sequence < position + 1) return false;
            if (sequence > position + 1) {
                position = head_.load(std::memory_order_relaxed);
            } else if (head_.compare_exchange_weak(position, position + 1)) {
                value = std::exchange(cell.value, T());
                cell.sequence.store(position + mask_ + 1, std::memory_order_release);
                prefetch(position + 1);
                return true;
            }
        }
    }

    /// The number of values ever added, or being added, and ever taken out.
    std::uint64_t added() const noexcept { return tail_.load(); }
    std::uint64_t taken() const noexcept { return head_.load(); }

    BoundedQueue(const BoundedQueue&) = delete;
    BoundedQueue& operator=(const BoundedQueue&) = delete;

private:
    struct Cell {
        std::atomic<std::uint64_t> sequence = 0;
        T value = {};
    };

    /// Requests the cell of the next call, which another processor has used.
    void prefetch(std::uint64_t position) const noexcept {
        __builtin_prefetch(&cells_[position & mask_], 1);
    }

    const std::uint64_t mask_;
    const std::unique_ptr<Cell[]> cells_;
    // Apart, so that producers and consumers do not share cache lines.
    alignas(64) std::atomic<std::uint64_t> tail_ = 0;
    alignas(64) std::atomic<std::uint64_t> head_ = 0;
};

}  // namespace cubepi::detail
