#pragma once

#include <memory>
#include <optional>
#include <string>

#include <bub/event_stream.hpp>
#include <cubepi/core/agent_event.hpp>

#include "pipeline.hpp"

namespace cubepi::app {

/// Prints the events of a prompt to standard output, one JSON object per line (docs/schema/agent-event.schema.json).
/// `agent_start` names model and session; `agent_end` also has status, error, usage and cost. Used on one executor.
class JsonLines {
public:
    /// The pipeline outlives it.
    explicit JsonLines(const Pipeline& pipeline) : pipeline_(pipeline) {}

    void show(const bub::StreamEvent& event);
    /// Prints the last `agent_end`, whose status, usage and cost are those of the answer.
    void finish(const Answer& answer);

private:
    std::shared_ptr<const RunInfo> run_of(const AgentEvent& event);
    void add_model(JsonObject& line) const;
    void print_ended_run(const RunResult* result);

    const Pipeline& pipeline_;
    std::optional<JsonObject> ended_;  ///< the agent_end that is not printed yet
    std::string model_;
    std::string provider_;
    std::shared_ptr<const RunInfo> original_;
    std::shared_ptr<const RunInfo> renamed_;
};

}  // namespace cubepi::app
