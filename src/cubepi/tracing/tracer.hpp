#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/tracing/active_span.hpp>
#include <cubepi/tracing/span_sink.hpp>

namespace cubepi {

/// Changes a value before it is recorded, or prevents that by returning nothing. Each value has one key: the name of its attribute, for
/// error texts "exception.message". What is returned for it is recorded wherever the value occurs, in other attributes too (D102; the
/// keys are in docs/guides/tracing.md). Lists of messages, bodies of requests and answers and the lines of a stream file
/// ("cubepi.stream") are passed as a whole, too, after their values. An exception of the function drops the value. Called on the executor of the run, also by several runs at once, without a lock: a slow one delays only its own run.
using Redact = std::function<std::optional<Json>(std::string_view key, Json value)>;

/// Which runs are recorded. A nested run follows the run that started it.
struct Sampling {
    double ratio = 1;           ///< of the runs without a caller's span, by trace id
    bool follow_caller = true;  ///< a run with a `traceparent` is recorded if the caller's span is
    /// A run that fails is recorded in any case, with the runs and spans of the program around it. Until the outcome is known, at most
    /// 10,000 spans or 16 MiB of a run are held back.
    bool failed_runs = true;
};

/// The options of a tracer. Without exporters, nothing is recorded.
struct TracerOptions {
    // The resource: what produced the spans. Empty members are omitted, except the instance id, which is then random.
    std::string service_name = {};
    std::string service_version = {};
    std::string service_namespace = {};
    std::string service_instance_id = {};
    std::string deployment_environment = {};
    std::string agent_name = {};
    std::string agent_id = {};
    std::string agent_description = {};
    std::string agent_version = {};
    Attributes resource_attributes = {};  ///< further attributes; the members above take precedence
    std::optional<Resource> resource = {};  ///< replaces all members above

    std::vector<SpanSink::Output> exporters = {};
    Sampling sampling = {};

    /// Records prompts, answers, arguments, results and error texts (D26). Off: none of them leaves the process.
    bool record_content = false;
    Redact redact = {};
    /// Not empty: the deltas of each run are written to `<directory>/<run id>.stream.jsonl`, for debugging slow or broken
    /// streams. The lines contain text only with `record_content`. Written by a thread of its own; lines beyond 4 MiB that wait for it
    /// are dropped and counted.
    std::filesystem::path stream_directory = {};

    /// Receives what an operator should know: an exporter that fails, spans that are dropped, values that are not recorded. Called on
    /// the export thread, on the executor of a run, or by shutdown().
    std::function<void(const Notice&)> on_notice = {};
};

/// Counts of what a tracer could not record so far. The first loss of each kind is a notice ("redact_failed", "held_spans_dropped",
/// "stream_file_failed", "tracing_failed"), and shutdown() reports the totals ("recording_incomplete").
struct RecordingLosses {
    std::uint64_t redacted_values = 0;  ///< `redact` threw an exception
    std::uint64_t held_spans =
        0;  ///< of failed runs that are not sampled, beyond the limits of memory
    std::uint64_t stream_lines = 0;  ///< of stream files
    std::uint64_t events = 0;        ///< a recorder threw an exception, for lack of memory
};

/// The connection of a tracer with an agent. Detaches when it is destroyed, or when the last one with the same agent is. Used on
/// the agent's executor, but may outlive the agent.
class TraceAttachment {
public:
    TraceAttachment() = default;
    explicit TraceAttachment(std::shared_ptr<void> connection)
        : connection_(std::move(connection)) {}
    TraceAttachment(TraceAttachment&&) noexcept = default;
    TraceAttachment& operator=(TraceAttachment&&) noexcept = default;
    /// Ends the connection. The spans of a run that is active end as aborted. Further calls have no effect.
    void detach() noexcept { connection_.reset(); }

private:
    std::shared_ptr<void> connection_;  // its deleter ends the connection
};

/// The options of Tracer::oneshot().
struct OneshotOptions {
    std::string operation = "oneshot";
    TraceContext trace = {};
    std::optional<bool> record_content = {};      ///< absent: as the tracer
    std::shared_ptr<const Runtime> runtime = {};  ///< null: Runtime::standard()
};

/// Makes spans of agents' runs according to OpenTelemetry's GenAI conventions (docs/guides/tracing.md):
///
///     invoke_agent                        one for each prompt(), resume() and respond()
///     └─ cubepi.turn                      one for each model call with its tools
///        ├─ chat <model>                  one for each call of a provider
///        ├─ hitl.<kind>                   one for each question to the user
///        └─ execute_tool <tool>           one for each tool call
///           └─ invoke_agent ...           the run of a sub-agent
///
/// Recording costs a run little and never fails it: spans are made during the run and go to bounded queues, which the export thread
/// empties (D26). One tracer serves any number of agents on any threads. Thread-safe.
class Tracer {
public:
    explicit Tracer(TracerOptions options);
    /// Shuts down, with a limit of 5 s.
    ~Tracer();
    Tracer(const Tracer&) = delete;
    Tracer& operator=(const Tracer&) = delete;

    /// Records the runs of `agent` that start from now on, and the calls of all models that it names (Agent::models()). An agent that
    /// is attached twice is recorded once, until both attachments end (D103). Called on the agent's executor.
    [[nodiscard]] TraceAttachment attach(Agent& agent);
    /// The same, under the name that a scope has in CubePi: `const auto scope = tracer.attached(agent);`. traced() waits for the
    /// export as well.
    [[nodiscard]] TraceAttachment attached(Agent& agent) { return attach(agent); }

    /// Starts a span of the program itself, around the runs that it causes.
    ActiveSpan start_span(SharedString name, ActiveSpanOptions options = ActiveSpanOptions());

    /// Calls a model outside of an agent and records it as a run with one call. A failure is reported in the message.
    Task<AssistantMessage> oneshot(BoundModel model, std::string system_prompt,
                                   MessageList messages, OneshotOptions options = OneshotOptions());

    /// Exports what has ended so far, and writes the lines of stream files. Returns false if that was not done within `limit`. Blocks.
    bool force_flush(std::chrono::milliseconds limit = std::chrono::seconds(30));
    /// Does the same without blocking the executor.
    Task<bool> flush(std::chrono::milliseconds limit = std::chrono::seconds(30));
    /// Exports what has ended, ends the exporters and drops what is not exported within `limit`. Later spans are dropped. Blocks.
    bool shutdown(std::chrono::milliseconds limit = std::chrono::seconds(30));

    const Resource& resource() const noexcept;
    /// One for each exporter, in their order.
    std::vector<ExportCounts> export_counts() const;
    RecordingLosses recording_losses() const;

private:
    std::shared_ptr<detail::TracerCore> core_;
};

/// Whether traced() waits until the spans are exported.
enum class TraceFlush : std::uint8_t { background, wait };

/// Awaits `work` while the tracer records the runs of `agent`, and returns its result. A null `tracer` records nothing. A failed
/// export does not fail the work, and a cancelled task does not wait for exports. `tracer` and `agent` must outlive the task.
template <class T>
Task<T> traced(Tracer* tracer, Agent& agent, Task<T> work, TraceFlush flush = TraceFlush::wait) {
    TraceAttachment attachment;
    if (tracer) attachment = tracer->attach(agent);
    Outcome<T> outcome = co_await outcome_of(std::move(work));
    attachment.detach();
    const bool waits = tracer && flush == TraceFlush::wait && !outcome.cancelled();
    if (waits) (void)co_await tracer->flush();
    co_return std::move(outcome).value();
}

}  // namespace cubepi
