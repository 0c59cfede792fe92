#pragma once

#include <cubepi/agent/tool.hpp>

/// A tool that greets by name.
cubepi::AgentTool greeting_tool();
