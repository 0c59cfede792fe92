#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>

namespace bub::detail {

/// Splits a line into words like a POSIX shell, without any expansion. Throws Error(invalid_argument) if a quote is not
/// closed.
std::vector<std::string> words_of(std::string_view line);

/// Returns the names of the tool's parameters, in order.
std::vector<std::string> parameters_of(const cubepi::AgentTool& tool);

/// Converts the words of a command, whose first one is its name, to the arguments of the tool: `key=value` by name, others
/// in the order of the parameters. Values are strings; the schema converts them to numbers. A command with Bub's name has
/// Bub's arguments. Throws Error(invalid_argument) for more words than parameters.
cubepi::JsonObject arguments_of(const cubepi::AgentTool& tool,
                                const std::vector<std::string>& words);

}  // namespace bub::detail
