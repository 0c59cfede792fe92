#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include <cubepi/tracing/recorder/provider_watch.hpp>
#include <cubepi/tracing/recorder/run_table.hpp>
#include <cubepi/tracing/recorder/run_trace.hpp>
#include <cubepi/tracing/recorder/stream_file.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace cubepi::detail {

/// The state shared by the recorders of all agents of a tracer. Thread-safe.
class TracerCore {
public:
    explicit TracerCore(TracerOptions options);
    /// Creates a core that observes providers.
    static std::shared_ptr<TracerCore> create(TracerOptions options);

    /// Begins the trace of a run, which is in the table until forget(). `own`: other settings than the tracer's.
    std::shared_ptr<RunTrace> start_run(std::shared_ptr<const RunInfo> info, RunTrace::Time start,
                                        std::shared_ptr<const RunTrace::Settings> own = nullptr);
    /// Returns the caller's span if `traceparent` is valid, else a new trace.
    TraceParent parent_of_caller(std::string_view traceparent) const;
    /// Takes the run, which has ended, off the table.
    void forget(const RunTrace& run) noexcept { runs_->remove(run.info().run_id, &run); }

    ProviderWatch::Lease watch(const std::vector<BoundModel>& models) {
        return ProviderWatch::watch(watch_, models);
    }
    const TracerOptions& options() const noexcept { return options_; }
    const RunTrace::Settings& settings() const noexcept { return *settings_; }
    const std::shared_ptr<const Resource>& resource() const noexcept { return resource_; }
    /// Null if the options have no directory for stream files.
    StreamWriter* streams() const noexcept { return streams_.get(); }
    bool flush(std::chrono::milliseconds limit);
    bool shutdown(std::chrono::milliseconds limit);
    SpanSink& sink() const noexcept { return *sink_; }
    /// Registers a span of the program until end_hold(). Returns the hold that it shares with the spans of the program above it.
    std::shared_ptr<SpanHold> hold_for(const TraceParent& parent, const SpanContext& span);
    void end_hold(const SpanContext& span, const SpanHold* hold) noexcept;
    LossReport& losses() const noexcept { return *settings_->losses; }
    const std::shared_ptr<LossReport>& shared_losses() const noexcept { return settings_->losses; }
    /// Counts an exception inside a recorder.
    void report_failure(const char* where) noexcept { losses().add(Loss::event, where); }

private:
    TraceParent parent_of(const RunInfo& info) const;

    const TracerOptions options_;
    const std::shared_ptr<const RunTrace::Settings> settings_;
    const std::shared_ptr<const Resource> resource_;
    // Shared with runs, which may outlive the core.
    const std::shared_ptr<SpanSink> sink_;
    // Shared with the observers of providers, which may outlive the core.
    const std::shared_ptr<RunTable<RunTrace>> runs_ = std::make_shared<RunTable<RunTrace>>();
    const std::unique_ptr<StreamWriter> streams_;
    RunTable<SpanHold> holds_;  // by the ids of spans of the program that have not ended
    std::shared_ptr<ProviderWatch> watch_;
};

}  // namespace cubepi::detail
