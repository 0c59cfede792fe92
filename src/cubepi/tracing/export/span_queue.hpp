#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <cubepi/tracing/span.hpp>

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

/// A bounded queue of spans without locks, for any number of threads on both sides. Its limits are the number of spans in it, and
/// the bytes of the spans in it and of those that were taken out and not released yet.
class SpanQueue {
public:
    struct Entry {
        std::shared_ptr<const SpanData> span = {};
        std::size_t bytes = 0;
    };

    SpanQueue(std::size_t spans, std::size_t bytes);

    /// Returns false, and leaves `span` unchanged, if a limit would be exceeded.
    bool push(std::shared_ptr<const SpanData>&& span, std::size_t bytes) noexcept;
    /// Takes out the oldest span. Returns false if there is none, or if the thread that adds it has not finished. The bytes of
    /// the span count until release().
    bool pop(Entry& entry) noexcept;
    void release(std::size_t bytes) noexcept { load_.fetch_sub(bytes); }

    /// The spans, including those that are being added, and the bytes that count toward the limit.
    struct Load {
        std::size_t spans = 0;
        std::size_t bytes = 0;
    };
    Load load() const noexcept { return load_of(load_.load()); }
    std::size_t size() const noexcept { return load().spans; }
    std::size_t bytes() const noexcept { return load().bytes; }
    /// The number of spans ever added, or being added, and ever taken out.
    std::uint64_t added() const noexcept { return entries_.added(); }
    std::uint64_t taken() const noexcept { return entries_.taken(); }

    SpanQueue(const SpanQueue&) = delete;
    SpanQueue& operator=(const SpanQueue&) = delete;

private:
    bool reserve(std::size_t bytes) noexcept;

    // One word has both numbers, so that a span takes one atomic operation: the bytes in the lower bits.
    static constexpr unsigned byte_bits = 39;
    static constexpr std::uint64_t one_span = std::uint64_t{1} << byte_bits;
    static constexpr std::uint64_t most_bytes = one_span - 1;
    static constexpr std::uint64_t most_spans = std::uint64_t{1} << 24U;
    static Load load_of(std::uint64_t word) noexcept {
        return Load{word >> byte_bits, word & (one_span - 1)};
    }

    const std::size_t max_spans_;
    const std::size_t max_bytes_;
    BoundedQueue<Entry> entries_;
    alignas(64) std::atomic<std::uint64_t> load_ = 0;
};

inline SpanQueue::SpanQueue(std::size_t spans, std::size_t bytes)
    : max_spans_(std::clamp<std::size_t>(spans, 1, most_spans)),
      max_bytes_(std::min<std::size_t>(bytes, most_bytes)),
      entries_(max_spans_) {}

inline bool SpanQueue::reserve(std::size_t bytes) noexcept {
    if (bytes > max_bytes_) return false;
    std::uint64_t word = load_.load();
    do {
        const Load before = load_of(word);
        if (before.spans >= max_spans_ || before.bytes > max_bytes_ - bytes) return false;
    } while (!load_.compare_exchange_weak(word, word + one_span + bytes));
    return true;
}

inline bool SpanQueue::push(std::shared_ptr<const SpanData>&& span, std::size_t bytes) noexcept {
    if (!reserve(bytes)) return false;
    Entry entry;
    entry.span = std::move(span);
    entry.bytes = bytes;
    if (entries_.push(std::move(entry))) return true;
    // The queue moves an entry only if it accepts it. NOLINTNEXTLINE(bugprone-use-after-move)
    span = std::move(entry.span);
    load_.fetch_sub(one_span + bytes);
    return false;
}

inline bool SpanQueue::pop(Entry& entry) noexcept {
    if (!entries_.pop(entry)) return false;
    load_.fetch_sub(one_span);
    return true;
}

}  // namespace cubepi::detail
