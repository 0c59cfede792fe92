#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <cubepi/tracing/export/bounded_queue.hpp>
#include <cubepi/tracing/span.hpp>

namespace cubepi::detail {

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
    void release(std::size_t bytes) noexcept { bytes_.fetch_sub(bytes); }

    /// The number of spans, including those that are being added.
    std::size_t size() const noexcept { return size_.load(); }
    /// The bytes that count toward the limit.
    std::size_t bytes() const noexcept { return bytes_.load(); }
    /// The number of spans ever added, or being added, and ever taken out.
    std::uint64_t added() const noexcept { return entries_.added(); }
    std::uint64_t taken() const noexcept { return entries_.taken(); }

    SpanQueue(const SpanQueue&) = delete;
    SpanQueue& operator=(const SpanQueue&) = delete;

private:
    bool reserve(std::size_t bytes) noexcept;

    const std::size_t max_spans_;
    const std::size_t max_bytes_;
    BoundedQueue<Entry> entries_;
    alignas(64) std::atomic<std::size_t> size_ = 0;
    std::atomic<std::size_t> bytes_ = 0;
};

}  // namespace cubepi::detail
