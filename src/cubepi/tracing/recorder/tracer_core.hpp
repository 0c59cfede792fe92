#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include <cubepi/tracing/recorder/provider_watch.hpp>
#include <cubepi/tracing/recorder/replay_lane.hpp>
#include <cubepi/tracing/recorder/run_log.hpp>
#include <cubepi/tracing/recorder/run_table.hpp>
#include <cubepi/tracing/recorder/stream_writer.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace cubepi::detail {

/// The state shared by the recorders of all agents of a tracer. Thread-safe.
class TracerCore final : public LogKeeper, public std::enable_shared_from_this<TracerCore> {
public:
    explicit TracerCore(TracerOptions options);
    /// Creates a core that observes providers.
    static std::shared_ptr<TracerCore> create(TracerOptions options);

    void receive(std::shared_ptr<const SpanData> span) noexcept override {
        sink_.add(std::move(span));
    }
    std::shared_ptr<SpanData> blank_span() override { return sink_.blank_span(); }
    bool replay_later(std::shared_ptr<RunLog> log) noexcept override {
        return replays_->add(std::move(log));
    }
    void wake_replays() noexcept override { replays_->added(); }

    /// Begins the trace of a run, which is in the table until forget(). `own`: other settings than the tracer's.
    std::shared_ptr<RunLog> start_run(std::shared_ptr<const RunInfo> info, RunTrace::Time start,
                                      std::shared_ptr<const RunTrace::Settings> own = nullptr);
    /// Returns the caller's span if `traceparent` is valid, else a new trace.
    TraceParent parent_of_caller(std::string_view traceparent) const;
    /// Takes the run, which has ended, off the table. What it holds back goes to the run that started it.
    void forget(const std::shared_ptr<RunLog>& run) noexcept;

    ProviderWatch::Lease watch(const std::vector<BoundModel>& models) {
        return ProviderWatch::watch(watch_, models);
    }
    const TracerOptions& options() const noexcept { return options_; }
    const RunTrace::Settings& settings() const noexcept { return *settings_; }
    const std::shared_ptr<const Resource>& resource() const noexcept { return resource_; }
    SpanSink& sink() noexcept { return sink_; }
    /// Null if the options have no directory for stream files.
    StreamWriter* streams() const noexcept { return streams_.get(); }
    bool flush(std::chrono::milliseconds limit);
    bool shutdown(std::chrono::milliseconds limit);
    const SpanSink& sink() const noexcept { return sink_; }
    /// Registers a span of the program until end_hold(). Returns the hold that it shares with the spans of the program above it.
    std::shared_ptr<SpanHold> hold_for(const TraceParent& parent, const SpanContext& span);
    void end_hold(const SpanContext& span, const SpanHold* hold) noexcept;
    LossReport& losses() const noexcept { return *settings_->losses; }
    const std::shared_ptr<LossReport>& shared_losses() const noexcept { return settings_->losses; }
    /// Counts an exception inside a recorder.
    void report_failure(const char* where) noexcept { losses().add(Loss::event, where); }

private:
    TraceParent parent_of(const RunInfo& info) const;
    bool takes_notes(const RunTrace::Settings& settings, const TraceParent& parent) noexcept;

    const TracerOptions options_;
    const std::shared_ptr<const RunTrace::Settings> settings_;
    const std::shared_ptr<const Resource> resource_;
    // The queues of the exporters are long enough for the spans of many notes.
    const bool can_replay_;
    const std::shared_ptr<ReplayLane> replays_;
    SpanSink sink_;
    // Shared with the observers of providers, which may outlive the core.
    const std::shared_ptr<RunTable<RunLog>> runs_ = std::make_shared<RunTable<RunLog>>();
    const std::unique_ptr<StreamWriter> streams_;
    RunTable<SpanHold> holds_;  // by the ids of spans of the program that have not ended
    std::shared_ptr<ProviderWatch> watch_;
};

}  // namespace cubepi::detail
