#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/middleware.hpp>

namespace cubepi {

/// Middleware that limits the results of tools by name, in place of AgentLimits::tool_result_chars. A longer result is shortened
/// as by that limit (D24): the model sees its beginning and how to read the rest, which the agent's `spill` stores.
struct ToolResultLimitMiddleware {
    std::size_t max_chars = 20'000;  ///< Unicode code points; 0: no limit
    /// The tools whose results are not shortened, such as those that read a part of a file by request.
    std::vector<std::string> exclude_tool_names = {};
    /// The limits of single tools, in place of `max_chars`.
    std::map<std::string, std::size_t> max_chars_by_tool = {};

    std::optional<AfterToolCallResult> after_tool_call(AfterToolCallContext& call) const;
};

}  // namespace cubepi
