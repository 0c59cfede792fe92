#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/tracing/exporter.hpp>

namespace cubepi {

/// The limits of the queue between runs and an exporter. The defaults are those of OpenTelemetry's batch processor. A batch is
/// complete when it has `batch_spans` spans or a quarter of `queue_bytes`.
struct ExportLimits {
    std::size_t queue_spans = 2048;
    std::size_t queue_bytes = std::size_t{32} << 20U;
    std::size_t batch_spans = 512;
    /// The longest time that a span waits in the queue; exporters of files use a short one, so that they can be followed.
    std::chrono::milliseconds delay{5000};
    std::chrono::milliseconds export_timeout{30000};
};

/// Counts of the spans of an exporter so far.
struct ExportCounts {
    std::uint64_t exported = 0;
    std::uint64_t dropped = 0;  ///< because the queue was full, or after the shutdown
    std::uint64_t failed = 0;   ///< taken from the queue, and not accepted by the exporter
};

/// The queues and the export thread of a tracer: each exporter has a queue of its own, so that one that is slow or dead does
/// not affect the others. The thread starts with the first span and does nothing while the queues are empty. Any thread may
/// call any member.
///
/// A child process of fork() does not have the thread: there every span is dropped, and force_flush() and shutdown() return false
/// at once. Create another sink in the child.
class SpanSink {
public:
    /// An exporter with the limits of its queue.
    struct Output {
        std::shared_ptr<SpanExporter> exporter = {};
        ExportLimits limits = {};
    };
    /// `report` receives a notice when an exporter begins to fail ("export_failing") or its queue to overflow ("export_dropping"),
    /// when it warns or recovers ("export_warning", "export_recovered"), and the counts at the shutdown ("export_ended"). It is called on the export
    /// thread, or by shutdown() if an exporter does not end; never after shutdown(). It must not call shutdown().
    /// `clock` measures `delay` and `export_timeout`; null: the system clock.
    SpanSink(std::vector<Output> outputs, std::shared_ptr<const Resource> resource,
             std::function<void(const Notice&)> report, std::shared_ptr<Clock> clock = nullptr);
    /// Calls shutdown() with a limit of 5 s.
    ~SpanSink();
    SpanSink(const SpanSink&) = delete;
    SpanSink& operator=(const SpanSink&) = delete;

    /// Passes on a span that has ended. Does not wait for an exporter (the first call starts the thread); drops the span if a queue
    /// is full.
    void add(std::shared_ptr<const SpanData> span) noexcept;
    /// Exports the spans that were added before. Returns false if that was not done within `limit`. Blocks.
    bool force_flush(std::chrono::milliseconds limit);
    /// Exports what is in the queues and ends the exporters. After `limit` (real time) they are cancelled, and what is not
    /// exported is dropped; one that ignores the cancellation is left to its thread a quarter of a second later. Returns false
    /// in these cases. Later calls wait for the first and do nothing else. Blocks.
    bool shutdown(std::chrono::milliseconds limit);
    /// Returns the counts of each exporter, in their order.
    std::vector<ExportCounts> counts() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi
