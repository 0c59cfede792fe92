#include <cubepi/tracing/recorder/span_hold.hpp>

namespace cubepi::detail {

void SpanHold::add(std::shared_ptr<const SpanData> span) {
    const std::lock_guard lock(mutex_);
    if (failed_) return sink_->add(std::move(span));
    const std::size_t bytes = span->memory();
    if (spans_.size() >= max_spans || bytes > max_bytes - bytes_) {
        ++missing_;
        return;
    }
    spans_.push_back(std::move(span));
    bytes_ += bytes;
}

void SpanHold::fail() noexcept {
    std::uint64_t missing = 0;
    {
        const std::lock_guard lock(mutex_);
        failed_ = true;
        for (std::shared_ptr<const SpanData>& span : spans_) sink_->add(std::move(span));
        spans_.clear();
        missing = std::exchange(missing_, 0);
    }
    losses_->add(Loss::held_span,
                 "more than 10,000 of them, or 16 MiB, waited for the end of the run", missing);
    if (above_) above_->fail();
}

}  // namespace cubepi::detail
