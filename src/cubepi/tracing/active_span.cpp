#include <cubepi/tracing/active_span.hpp>

#include <utility>

#include <cubepi/tracing/recorder/tracer_core.hpp>

namespace cubepi {

ActiveSpan::ActiveSpan(std::shared_ptr<detail::TracerCore> core, std::shared_ptr<SpanData> data,
                       std::shared_ptr<detail::SpanHold> hold)
    : core_(std::move(core)), data_(std::move(data)), hold_(std::move(hold)) {}

ActiveSpan::ActiveSpan(ActiveSpan&&) noexcept = default;

ActiveSpan& ActiveSpan::operator=(ActiveSpan&& other) noexcept {
    if (this == &other) return *this;
    end();
    core_ = std::move(other.core_);
    data_ = std::move(other.data_);
    hold_ = std::move(other.hold_);
    return *this;
}

ActiveSpan::~ActiveSpan() { end(); }

void ActiveSpan::set_attribute(AttributeKey key, AttributeValue value) {
    if (data_) data_->attributes.set(std::move(key), std::move(value));
}

void ActiveSpan::set_error(std::string type, std::string_view text) {
    if (!data_) return;
    data_->status = SpanStatus::error;
    data_->status_description = core_->settings().content.error_text(text, type);
    data_->attributes.set("error.type", SharedString(std::move(type)));
}

void ActiveSpan::end(Time time) noexcept {
    if (!data_) return;
    data_->end = time;
    const bool failed = data_->status == SpanStatus::error;
    const std::shared_ptr<detail::TracerCore> core = std::exchange(core_, nullptr);
    const std::shared_ptr<detail::SpanHold> hold = std::exchange(hold_, nullptr);
    std::shared_ptr<const SpanData> ended = std::exchange(data_, nullptr);
    core->end_hold(ended->context, hold.get());
    if (ended->context.sampled) return core->sink().add(std::move(ended));
    if (!core->settings().keep_failed) return;
    try {
        if (failed) hold->fail();
        hold->add(std::move(ended));
    } catch (...) {
        core->report_failure("a span");
    }
}

}  // namespace cubepi
