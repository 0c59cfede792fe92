#include <cubepi/tracing/export/span_queue.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace cubepi::detail {

SpanQueue::SpanQueue(std::size_t spans, std::size_t bytes)
    : max_spans_(std::clamp<std::size_t>(spans, 1, std::size_t{1} << 24U)),
      max_bytes_(bytes),
      mask_(std::bit_ceil(std::max<std::uint64_t>(max_spans_, 2)) - 1),
      cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (std::uint64_t i = 0; i <= mask_; ++i)
        cells_[i].sequence.store(i, std::memory_order_relaxed);
}

bool SpanQueue::reserve(std::size_t bytes) noexcept {
    if (size_.fetch_add(1) >= max_spans_) {
        size_.fetch_sub(1);
        return false;
    }
    const std::size_t before = bytes_.fetch_add(bytes);
    if (before <= max_bytes_ && bytes <= max_bytes_ - before) return true;
    bytes_.fetch_sub(bytes);
    size_.fetch_sub(1);
    return false;
}

bool SpanQueue::push(std::shared_ptr<const SpanData>&& span, std::size_t bytes) noexcept {
    if (!reserve(bytes)) return false;
    std::uint64_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
        Cell& cell = cells_[position & mask_];
        const std::uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
        if (sequence == position) {
            if (!tail_.compare_exchange_weak(position, position + 1)) continue;
            cell.entry.span = std::move(span);
            cell.entry.bytes = bytes;
            cell.sequence.store(position + 1, std::memory_order_release);
            return true;
        }
        if (sequence < position) {
            // Another thread is still taking out the span that was in this cell.
            bytes_.fetch_sub(bytes);
            size_.fetch_sub(1);
            return false;
        }
        position = tail_.load(std::memory_order_relaxed);
    }
}

bool SpanQueue::pop(Entry& entry) noexcept {
    std::uint64_t position = head_.load(std::memory_order_relaxed);
    for (;;) {
        Cell& cell = cells_[position & mask_];
        const std::uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
        if (sequence == position + 1) {
            if (!head_.compare_exchange_weak(position, position + 1)) continue;
            entry = std::exchange(cell.entry, Entry());
            cell.sequence.store(position + mask_ + 1, std::memory_order_release);
            size_.fetch_sub(1);
            return true;
        }
        if (sequence < position + 1) return false;
        position = head_.load(std::memory_order_relaxed);
    }
}

}  // namespace cubepi::detail
