#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <cubepi/core/run_info.hpp>
#include <cubepi/tracing/span.hpp>

namespace cubepi::detail {

/// Marks a span as failed.
inline void set_error(SpanData& span, std::string type, std::string description) {
    span.status = SpanStatus::error;
    span.status_description = std::move(description);
    span.attributes.set("error.type", SharedString(std::move(type)));
}

/// A span that has not ended.
class OpenSpan {
public:
    OpenSpan() = default;
    OpenSpan(SharedString name, SpanContext context, SpanId parent, SpanKind kind,
             std::chrono::system_clock::time_point start)
        : data_(std::make_shared<SpanData>()) {
        // Only spans with content, or with tags and metadata, have more.
        constexpr std::size_t attributes_of_a_call = 18;
        data_->attributes.reserve(attributes_of_a_call);
        data_->name = std::move(name);
        data_->context = context;
        data_->parent = parent;
        data_->kind = kind;
        data_->start = start;
    }

    explicit operator bool() const noexcept { return data_ != nullptr; }
    SpanData* operator->() const noexcept { return data_.get(); }
    SpanData& operator*() const noexcept { return *data_; }
    const SpanContext& context() const noexcept { return data_->context; }

    /// Ends the span, which is then empty.
    std::shared_ptr<const SpanData> end(std::chrono::system_clock::time_point time) {
        data_->end = time;
        return std::exchange(data_, nullptr);
    }

private:
    std::shared_ptr<SpanData> data_;
};

}  // namespace cubepi::detail
