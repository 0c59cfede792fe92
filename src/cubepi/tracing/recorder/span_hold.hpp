#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <cubepi/tracing/recorder/loss_report.hpp>
#include <cubepi/tracing/span_sink.hpp>

namespace cubepi::detail {

/// The spans of a run that is not sampled and of its nested runs, or those of the program around runs: held until one of them fails,
/// which exports them and those that end later. Spans beyond the limits are counted. Dropped at the end of the last owner. Thread-safe.
class SpanHold {
public:
    static constexpr std::size_t max_spans = 10'000;
    static constexpr std::size_t max_bytes = std::size_t{16} << 20U;

    /// `above`: of the spans of the program above; they are exported, too, if a span here fails. May be null.
    SpanHold(std::shared_ptr<SpanSink> sink, std::shared_ptr<LossReport> losses,
             std::shared_ptr<SpanHold> above = nullptr)
        : sink_(std::move(sink)), losses_(std::move(losses)), above_(std::move(above)) {}

    void add(std::shared_ptr<const SpanData> span);
    /// Exports what is held. Reports the spans that are missing, so it is called without a lock.
    void fail() noexcept;

private:
    const std::shared_ptr<SpanSink> sink_;
    const std::shared_ptr<LossReport> losses_;
    const std::shared_ptr<SpanHold> above_;
    std::mutex mutex_;  // of the following
    std::vector<std::shared_ptr<const SpanData>> spans_;
    std::size_t bytes_ = 0;
    std::uint64_t missing_ = 0;
    bool failed_ = false;
};

}  // namespace cubepi::detail
