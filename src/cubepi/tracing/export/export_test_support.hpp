#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/tracing/span_sink.hpp>

// Shared by the tests of exporters.

namespace cubepi {

/// A limit that a test that works never reaches.
inline constexpr std::chrono::seconds plenty{120};

inline std::shared_ptr<SpanData> make_span(std::string name = "span") {
    auto span = std::make_shared<SpanData>();
    span->name = std::move(name);
    span->context.trace_id = TraceId::random();
    span->context.span_id = SpanId::random();
    span->start = std::chrono::sys_days(std::chrono::year(2026) / 11 / 21) + std::chrono::hours(1);
    span->end = span->start + std::chrono::milliseconds(1500);
    return span;
}

/// The notices of a sink, for any thread.
class Notices {
public:
    std::function<void(const Notice&)> receiver() {
        return [this](const Notice& notice) {
            const std::lock_guard lock(mutex_);
            all_.push_back(notice);
        };
    }
    std::vector<std::string> codes() const {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> codes;
        for (const Notice& notice : all_) codes.push_back(notice.code);
        return codes;
    }
    std::vector<Notice> all() const {
        const std::lock_guard lock(mutex_);
        return all_;
    }

private:
    mutable std::mutex mutex_;
    std::vector<Notice> all_;
};

/// A condition that one thread reports and another waits for. The one that waits may destroy it afterwards.
class Latch {
public:
    void open() {
        const std::shared_ptr<State> state = state_;
        {
            const std::lock_guard lock(state->mutex);
            state->open = true;
        }
        state->changed.notify_all();
    }
    void wait() {
        std::unique_lock lock(state_->mutex);
        state_->changed.wait(lock, [this] { return state_->open; });
    }

private:
    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        bool open = false;
    };
    const std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// An exporter whose behavior is a function.
class ScriptedExporter final : public SpanExporter {
public:
    using Export = std::function<Task<ExportResult>(SpanBatch batch)>;
    explicit ScriptedExporter(Export call, std::function<Task<void>()> end = {})
        : call_(std::move(call)), end_(std::move(end)) {}

    Task<ExportResult> export_spans(SpanBatch batch, std::shared_ptr<const Resource>) override {
        return call_(std::move(batch));
    }
    Task<void> shutdown() override {
        if (end_) co_await end_();
    }
    std::string name() const override { return "scripted"; }
    std::string retry_reason() const override { return reason; }

    std::string reason = {};

private:
    Export call_;
    std::function<Task<void>()> end_;
};

inline Task<ExportResult> accept_all() { co_return ExportResult(); }

/// Waits for ever; can be cancelled.
inline Task<ExportResult> hang() {
    AsyncEvent never;
    co_await never.wait();
    co_return ExportResult();
}

/// Waits for ever and ignores a cancellation.
inline Task<ExportResult> hang_uncancellable() {
    AsyncEvent never;
    co_await shield();
    co_await never.wait();
    co_return ExportResult();
}

inline SpanSink::Output output_of(std::shared_ptr<SpanExporter> exporter,
                                  ExportLimits limits = {}) {
    SpanSink::Output output;
    output.exporter = std::move(exporter);
    output.limits = limits;
    return output;
}

}  // namespace cubepi
