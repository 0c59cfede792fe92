#include <cubepi/middleware/result_limit.hpp>

#include <algorithm>

namespace cubepi {

std::optional<AfterToolCallResult> ToolResultLimitMiddleware::after_tool_call(
    AfterToolCallContext& call) const {
    const std::string& name = call.tool_call.name.str();
    const bool excluded = std::find(exclude_tool_names.begin(), exclude_tool_names.end(), name) !=
                          exclude_tool_names.end();
    const auto own = max_chars_by_tool.find(name);
    AfterToolCallResult limit;
    limit.max_chars = excluded ? 0 : own != max_chars_by_tool.end() ? own->second : max_chars;
    return limit;
}

}  // namespace cubepi
