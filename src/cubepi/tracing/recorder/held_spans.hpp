#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <cubepi/tracing/recorder/loss_report.hpp>
#include <cubepi/tracing/span.hpp>

namespace cubepi::detail {

/// Receives the spans of a run when they have ended.
class SpanReceiver {
public:
    virtual ~SpanReceiver() = default;
    virtual void receive(std::shared_ptr<const SpanData> span) noexcept = 0;
    /// Returns an empty span.
    virtual std::shared_ptr<SpanData> blank_span() { return std::make_shared<SpanData>(); }
};

/// Spans of a trace that is not sampled, until it is known whether it fails. Spans beyond the limits are counted.
class HeldSpans {
public:
    static constexpr std::size_t max_spans = 10'000;
    static constexpr std::size_t max_bytes = std::size_t{16} << 20U;

    void add(std::shared_ptr<const SpanData> span);
    void add(HeldSpans&& other);
    /// Passes all spans on, and reports those that are missing.
    void release_to(SpanReceiver& receiver, LossReport& losses) noexcept;
    bool empty() const noexcept { return spans_.empty() && missing_ == 0; }

private:
    std::vector<std::shared_ptr<const SpanData>> spans_;
    std::size_t bytes_ = 0;
    std::uint64_t missing_ = 0;
};

/// The spans of the program around runs that are not sampled: a turn of the pipeline and its stages. Exported, those that end
/// later too, once one of the runs or spans fails. Thread-safe.
class SpanHold {
public:
    void add(std::shared_ptr<const SpanData> span, SpanReceiver& receiver);
    /// Exports what was held.
    void fail(SpanReceiver& receiver, LossReport& losses) noexcept;

private:
    std::mutex mutex_;
    HeldSpans held_;
    bool failed_ = false;
};

}  // namespace cubepi::detail
