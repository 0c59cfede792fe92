#pragma once

#include <functional>
#include <string>

#include <cubepi/agent/tool.hpp>

#include "message_form.hpp"

namespace conformance {

/// A tool that does what the scenario says. `started` is told "<call id>:<tool name>" when a body begins; the texts that it
/// throws or returns are added to `known`, which outlives the tool.
cubepi::AgentTool make_tool(const ToolSpec& spec, std::function<void(std::string)> started,
                            KnownTexts& known);

}  // namespace conformance
