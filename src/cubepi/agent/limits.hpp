#pragma once

#include <chrono>
#include <cstddef>

namespace cubepi {

/// Limits of a run (D24). Zero switches one off. Reaching a limit of the run is an outcome (`limited`) with the
/// limit's name; reaching one of a tool is an error result that the model sees.
struct AgentLimits {
    std::size_t max_turns = 250;
    /// USD of one prompt or resume, by prices that are known (provider/cost.hpp). Looked at before each model call, so
    /// the last one may go over it. A model whose price is unknown is not called at all while this is set.
    double max_spend = 0.0;
    std::chrono::milliseconds wall_clock =
        std::chrono::milliseconds(0);                                   ///< of one prompt or resume
    std::chrono::milliseconds tool_timeout = std::chrono::minutes(10);  ///< where the tool has none
    std::size_t parallel_tools = 16;
    std::size_t tool_result_chars = 50'000;  ///< Unicode code points
    std::chrono::milliseconds abort_grace =
        std::chrono::seconds(2);  ///< for tools that heed a stop
    /// Memory of one answer of the model, as StreamOptions::max_answer_bytes counts it. An answer that needs more ends the
    /// run; the first 64 KiB of its content stay in the history.
    std::size_t max_answer_bytes = std::size_t{64} << 20U;
    friend bool operator==(const AgentLimits&, const AgentLimits&) = default;
};

}  // namespace cubepi
