#pragma once

#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/provider/faux.hpp>

// The "2+1" run: turn one streams text and one tool call, the tool runs, turn two streams ten short deltas.

namespace cubepi::bench {

AgentTool echo_tool();
/// One token per delta.
FauxOptions ten_deltas();
/// The answers of one run.
std::vector<FauxStep> two_plus_one_script();

}  // namespace cubepi::bench
