#pragma once

#include <chrono>
#include <cstddef>

namespace cubepi {

/// Limits of a run (D24). Zero disables a limit. Reaching a limit of the run ends it with the outcome `limited` and the
/// limit's name; reaching a tool's limit produces an error result that the model sees.
struct AgentLimits {
    std::size_t max_turns = 250;
    /// USD of one prompt or resume, computed from known prices (provider/cost.hpp). Checked before each model call, so
    /// the last call may exceed it. While it is set, a model whose price is unknown is not called.
    double max_spend = 0.0;
    std::chrono::milliseconds max_duration =
        std::chrono::milliseconds(0);                                   ///< of one prompt or resume
    std::chrono::milliseconds tool_timeout = std::chrono::minutes(10);  ///< default for tools
    std::size_t parallel_tools = 16;
    std::size_t tool_result_chars = 50'000;  ///< Unicode code points
    std::chrono::milliseconds abort_grace =
        std::chrono::seconds(2);  ///< for tools that honor a stop
    /// Memory of one answer of the model, as StreamOptions::max_answer_bytes counts it. An answer that needs more ends the
    /// run; the first 64 KiB of its content stay in the history.
    std::size_t max_answer_bytes = std::size_t{64} << 20U;
    friend bool operator==(const AgentLimits&, const AgentLimits&) = default;
};

}  // namespace cubepi
