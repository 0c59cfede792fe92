#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>

namespace cubepi::detail {

/// The tools of one request: what was advertised is what a call of its answer runs (D43).
class ToolSet {
public:
    explicit ToolSet(std::vector<AgentTool> tools) : tools_(std::move(tools)) {
        auto definitions = std::make_shared<ToolDefinitions>();
        for (const AgentTool& tool : tools_) {
            if (tool.expose_to_model) definitions->push_back(tool.definition());
        }
        if (!definitions->empty()) definitions_ = std::move(definitions);
    }

    /// The first tool of that name, or null.
    const AgentTool* find(std::string_view name) const noexcept {
        for (const AgentTool& tool : tools_) {
            if (tool.name == name) return &tool;
        }
        return nullptr;
    }
    const std::vector<AgentTool>& tools() const noexcept { return tools_; }
    /// Null when no tool is advertised.
    const std::shared_ptr<const ToolDefinitions>& definitions() const noexcept {
        return definitions_;
    }

private:
    std::vector<AgentTool> tools_;
    std::shared_ptr<const ToolDefinitions> definitions_;
};

}  // namespace cubepi::detail
