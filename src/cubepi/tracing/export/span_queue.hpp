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

}  // namespace cubepi::detail
