#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/tracing/metric_reader.hpp>
#include <cubepi/tracing/metric_registry.hpp>

namespace cubepi {

/// The options of a meter.
struct MeterOptions {
    std::string service_name = {};        ///< empty: that of `resource_attributes`, else "cubepi"
    std::string agent_name = {};          ///< an attribute of all points; empty: omitted
    Attributes resource_attributes = {};  ///< further attributes of the resource
    /// Replaces `service_name` and `resource_attributes`. A program with a tracer sets that of the tracer.
    std::optional<Resource> resource = {};
    /// Receive all values every `interval`. Without exporters, read snapshot() or prometheus_text().
    std::vector<std::shared_ptr<MetricExporter>> exporters = {};
    MetricReaderOptions reader = {};
    /// Called like that of TracerOptions.
    std::function<void(const Notice&)> on_notice = {};
};

namespace detail {
class MeterCore;
}

/// The connection of a meter with an agent. Detaches when it is destroyed, or when the last one with the same agent is. Used on the agent's executor, but may outlive the agent.
class MeterAttachment {
public:
    MeterAttachment() = default;
    explicit MeterAttachment(std::shared_ptr<void> connection)
        : connection_(std::move(connection)) {}
    MeterAttachment(MeterAttachment&&) noexcept = default;
    MeterAttachment& operator=(MeterAttachment&&) noexcept = default;
    /// Ends the connection. A run that is active is not counted. Further calls have no effect.
    void detach() noexcept { connection_.reset(); }

private:
    std::shared_ptr<void> connection_;  // its deleter ends the connection
};

/// Measures agents' runs according to OpenTelemetry's GenAI conventions (docs/guides/tracing/metrics.md):
///
/// - `gen_ai.client.operation.duration` (s): runs (`invoke_agent`), model calls (`chat`), tool calls (`execute_tool`);
/// - `gen_ai.client.token.usage` ({token}), by `gen_ai.token.type`;
/// - `gen_ai.client.operation.time_to_first_chunk` (s);
/// - `cubepi.client.cost` (USD), a counter of model calls with a known price;
/// - `cubepi.run.cost` (USD), a counter of runs that are not nested, with what their tools and nested runs charge;
/// - `cubepi.hitl.requests` ({request}), a counter of questions to the user by kind and outcome.
///
/// Points have the names of models and tools and the type of an error, never content. One meter serves any number of agents on any
/// threads; a provider that several agents share is counted once for each call. Thread-safe.
class Meter {
public:
    explicit Meter(MeterOptions options = MeterOptions());
    /// Shuts down, with a limit of 5 s.
    ~Meter();
    Meter(const Meter&) = delete;
    Meter& operator=(const Meter&) = delete;

    /// Measures the runs of `agent` that start from now on. An agent that is attached twice is measured once, until both attachments
    /// end (D103). Called on the agent's executor.
    [[nodiscard]] MeterAttachment attach(Agent& agent);

    /// Returns the registry, for instruments of one's own.
    MetricRegistry& registry() noexcept;
    MetricSnapshot snapshot() const;
    /// Returns the current values in the text format of Prometheus.
    std::string prometheus_text() const;

    /// Exports the current values. Returns false if that was not done within `limit`. Blocks.
    bool force_flush(std::chrono::milliseconds limit = std::chrono::seconds(30));
    /// Exports the last values and ends the exporters. Blocks.
    bool shutdown(std::chrono::milliseconds limit = std::chrono::seconds(30));

private:
    std::shared_ptr<detail::MeterCore> core_;
};

}  // namespace cubepi
