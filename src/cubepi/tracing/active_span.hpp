#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/run_info.hpp>
#include <cubepi/tracing/span.hpp>

namespace cubepi {

namespace detail {
class SpanHold;
class TracerCore;
}  // namespace detail

/// The options of Tracer::start_span().
struct ActiveSpanOptions {
    /// The parent (an invalid or empty `traceparent` begins a new trace), tags and metadata.
    TraceContext trace = {};
    SpanKind kind = SpanKind::internal;
    std::optional<std::chrono::system_clock::time_point> start = {};  ///< absent: now

    ActiveSpanOptions() {
    }  // not an aggregate: a default argument of one is destroyed twice by g++ 12
};

/// A span of the program itself around the runs that it causes: a request of a server, a turn of the pipeline. Runs become its
/// children with PromptOptions::traceparent(). Sampled as a run is: one that is not sampled is exported if it, a run below it or another
/// span of the program above or below it fails. Ends when it is destroyed. Used by one thread at a time; may outlive the tracer.
class ActiveSpan {
public:
    using Time = std::chrono::system_clock::time_point;

    /// Records nothing.
    ActiveSpan() = default;
    /// `hold` receives the span if it is not sampled.
    ActiveSpan(std::shared_ptr<detail::TracerCore> core, std::shared_ptr<SpanData> data,
               std::shared_ptr<detail::SpanHold> hold);
    ActiveSpan(ActiveSpan&&) noexcept;
    ActiveSpan& operator=(ActiveSpan&& other) noexcept;
    ~ActiveSpan();

    explicit operator bool() const noexcept { return data_ != nullptr; }
    /// Returns the identity of the span; not valid if it records nothing or has ended.
    SpanContext context() const noexcept { return data_ ? data_->context : SpanContext(); }
    void set_attribute(AttributeKey key, AttributeValue value);
    /// Marks the span as failed. `type` is a class of failures. Of `text`, nothing is recorded unless the tracer records
    /// content (TracerOptions::record_content).
    void set_error(std::string type, std::string_view text);
    /// Ends the span. Further calls have no effect.
    void end() noexcept { end(std::chrono::system_clock::now()); }
    void end(Time time) noexcept;

private:
    std::shared_ptr<detail::TracerCore> core_;
    std::shared_ptr<SpanData> data_;
    std::shared_ptr<detail::SpanHold> hold_;
};

}  // namespace cubepi
