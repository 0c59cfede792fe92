#include <cubepi/tracing/export/span_queue.hpp>

#include <algorithm>
#include <utility>

namespace cubepi::detail {

SpanQueue::SpanQueue(std::size_t spans, std::size_t bytes)
    : max_spans_(std::clamp<std::size_t>(spans, 1, most_spans)),
      max_bytes_(std::min<std::size_t>(bytes, most_bytes)),
      entries_(max_spans_) {}

bool SpanQueue::reserve(std::size_t bytes) noexcept {
    if (bytes > max_bytes_) return false;
    std::uint64_t word = load_.load();
    do {
        const Load before = load_of(word);
        if (before.spans >= max_spans_ || before.bytes > max_bytes_ - bytes) return false;
    } while (!load_.compare_exchange_weak(word, word + one_span + bytes));
    return true;
}

bool SpanQueue::push(std::shared_ptr<const SpanData>&& span, std::size_t bytes) noexcept {
    if (!reserve(bytes)) return false;
    Entry entry;
    entry.span = std::move(span);
    entry.bytes = bytes;
    if (entries_.push(std::move(entry))) return true;
    span = std::move(entry.span);
    load_.fetch_sub(one_span + bytes);
    return false;
}

bool SpanQueue::pop(Entry& entry) noexcept {
    if (!entries_.pop(entry)) return false;
    load_.fetch_sub(one_span);
    return true;
}

}  // namespace cubepi::detail
