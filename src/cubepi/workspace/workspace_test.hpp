#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

// Shared code of this module's tests: calls of tools as the agent makes them.

namespace cubepi {

struct ToolCallSettings {
    std::shared_ptr<const Runtime> runtime = Runtime::standard();
    std::stop_token stop = {};
    std::vector<Json>* updates = nullptr;

    ToolCallSettings() {}
};

inline Task<> keep_update(std::vector<Json>* updates, Json update) {
    if (updates != nullptr) updates->push_back(std::move(update));
    co_return;
}

inline Task<AgentToolResult> call_tool(AgentTool tool, JsonObject arguments,
                                       ToolCallSettings settings = ToolCallSettings()) {
    auto* updates = settings.updates;
    ToolContext::UpdateSink sink = [updates](Json update) {
        return keep_update(updates, std::move(update));
    };
    ToolContext context("call_1", tool.name, settings.stop, settings.runtime, std::move(sink));
    MaybeTask<AgentToolResult> outcome = tool.execute(std::move(arguments), context);
    if (!outcome.is_pending()) co_return std::move(outcome).value();
    AgentToolResult result = co_await std::move(outcome).task();
    co_return result;
}

inline AgentToolResult run_tool(const AgentTool& tool, JsonObject arguments,
                                ToolCallSettings settings = ToolCallSettings()) {
    return run(call_tool(tool, std::move(arguments), std::move(settings)));
}

/// Returns the text that the model receives, also if the tool throws.
inline std::string tool_text(const AgentTool& tool, JsonObject arguments) {
    try {
        return run_tool(tool, std::move(arguments)).text();
    } catch (const Error& error) {
        return std::string("error ") + std::string(to_string(error.code())) + ": " + error.what();
    }
}

}  // namespace cubepi
