#include <cubepi/tracing/recorder/held_spans.hpp>

#include <utility>

namespace cubepi::detail {

void HeldSpans::add(std::shared_ptr<const SpanData> span) {
    const std::size_t bytes = span->memory();
    if (spans_.size() >= max_spans || bytes > max_bytes - bytes_) {
        ++missing_;
        return;
    }
    spans_.push_back(std::move(span));
    bytes_ += bytes;
}

void HeldSpans::add(HeldSpans&& other) {
    missing_ += std::exchange(other.missing_, 0);
    for (std::shared_ptr<const SpanData>& span : std::exchange(other.spans_, {}))
        add(std::move(span));
    other.bytes_ = 0;
}

void HeldSpans::release_to(SpanReceiver& receiver, LossReport& losses) noexcept {
    for (std::shared_ptr<const SpanData>& span : spans_) receiver.receive(std::move(span));
    spans_.clear();
    bytes_ = 0;
    losses.add(Loss::held_span,
               "more than 10,000 of them, or 16 MiB, waited for the end of the run",
               std::exchange(missing_, 0));
}

void SpanHold::add(std::shared_ptr<const SpanData> span, SpanReceiver& receiver) {
    const std::lock_guard lock(mutex_);
    if (failed_) {
        receiver.receive(std::move(span));
    } else {
        held_.add(std::move(span));
    }
}

void SpanHold::fail(SpanReceiver& receiver, LossReport& losses) noexcept {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    held_.release_to(receiver, losses);
}

}  // namespace cubepi::detail
