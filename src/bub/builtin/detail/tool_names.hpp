#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/json.hpp>

namespace bub::detail {

/// Our name of a tool that is asked for by Bub's ("fs.read", "bash"), in any case and with spaces around it. Another name
/// with "_" for each ".".
std::string our_tool_name(std::string_view name);

/// A tool that Bub knows under another name: what its parameters are, in Bub's order.
struct BubTool {
    std::string_view name;  ///< Bub's, with "_"
    std::string_view ours;
    std::vector<std::string_view> parameters;
};
/// Null when the two systems call it the same, or Bub has none.
const BubTool* find_bub_tool(std::string_view name);

/// Arguments as Bub's tool takes them, for our tool. Values may be texts. What ours has no equal for stays as it is, and
/// is refused by the schema.
cubepi::JsonObject our_arguments(const BubTool& tool, cubepi::JsonObject arguments);

/// A middleware: a call by Bub's name becomes one of ours, and for any other name that no tool has the model is told what
/// there is instead.
class UnknownTools {
public:
    explicit UnknownTools(const std::vector<cubepi::AgentTool>& tools);
    std::optional<cubepi::ToolCall> resolve_tool_call(cubepi::ToolCall call) const;

private:
    std::vector<std::string> names_;
};

}  // namespace bub::detail
