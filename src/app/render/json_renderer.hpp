#pragma once

#include <memory>
#include <optional>
#include <string>

#include <cubepi/core/agent_event.hpp>

#include "renderer.hpp"

namespace cubepi::app {

/// Prints the events of a prompt to standard output, one JSON object per line (docs/schema/agent-event.schema.json), and
/// everything else to standard error. `agent_start` names model and session; `agent_end` also has status, error, usage and
/// cost.
class JsonRenderer final : public Renderer {
public:
    void begin(const Pipeline& pipeline) override;
    void show_event(const AgentEvent& event) override;
    void show_text(std::string_view) override {}
    void show_output(std::string_view) override {}
    void end_turn(const TurnEnd& end) override;
    void print(std::string_view text) override;
    void note(std::string_view text) override;
    void problem(std::string_view text) override;

private:
    std::shared_ptr<const RunInfo> run_of(const AgentEvent& event);
    void add_model(JsonObject& line) const;
    void print_ended_run(const RunResult* result);

    const Pipeline* pipeline_ = nullptr;
    std::optional<JsonObject> ended_;  ///< the agent_end that is not printed yet
    std::string model_;
    std::string provider_;
    std::shared_ptr<const RunInfo> original_;
    std::shared_ptr<const RunInfo> renamed_;
};

}  // namespace cubepi::app
