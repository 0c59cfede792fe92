#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/json.hpp>

namespace bub::detail {

/// Returns this library's name of a tool named by Bub's ("fs.read", "bash"), ignoring case and surrounding spaces. In
/// any other name "." is replaced by "_".
std::string our_tool_name(std::string_view name);

/// A tool with another name in Bub, with its parameters in Bub's order.
struct BubTool {
    std::string_view name;  ///< Bub's, with "_"
    std::string_view ours;
    std::vector<std::string_view> parameters;
};
const std::array<BubTool, 7>& bub_tools();
/// Returns null if both systems use the same name, or if Bub has no such tool.
const BubTool* find_bub_tool(std::string_view name);

/// Converts arguments of Bub's tool to those of this library's. Values may be strings. Arguments without an equivalent
/// are unchanged, and are rejected by the schema.
cubepi::JsonObject our_arguments(const BubTool& tool, cubepi::JsonObject arguments);

/// A middleware: maps a call by Bub's name to this library's tool, unless a tool of the turn has that name: a program that has
/// sent a message may offer a `bash` of its own. For any other unknown name it tells the model which tools exist. `form` is the name
/// of the tool with which a model returns a typed answer; empty: none.
class UnknownTools {
public:
    explicit UnknownTools(const std::vector<cubepi::AgentTool>& tools,
                          const cubepi::SharedString& form = {});
    std::optional<cubepi::ToolCall> resolve_tool_call(cubepi::ToolCall call) const;

private:
    std::vector<std::string> names_;
};

}  // namespace bub::detail
