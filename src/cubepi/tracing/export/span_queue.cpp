#include <cubepi/tracing/export/span_queue.hpp>

#include <algorithm>
#include <utility>

namespace cubepi::detail {

SpanQueue::SpanQueue(std::size_t spans, std::size_t bytes)
    : max_spans_(std::clamp<std::size_t>(spans, 1, std::size_t{1} << 24U)),
      max_bytes_(bytes),
      entries_(max_spans_) {}

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
    Entry entry;
    entry.span = std::move(span);
    entry.bytes = bytes;
    if (entries_.push(std::move(entry))) return true;
    span = std::move(entry.span);
    bytes_.fetch_sub(bytes);
    size_.fetch_sub(1);
    return false;
}

bool SpanQueue::pop(Entry& entry) noexcept {
    if (!entries_.pop(entry)) return false;
    size_.fetch_sub(1);
    return true;
}

}  // namespace cubepi::detail
