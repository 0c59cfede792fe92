#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/tool.hpp>

namespace cubepi {

/// The tools of an agent. Copies share them, and the tools advertised in a request stay unchanged when the agent's list
/// is replaced (D43).
///
/// Tool names consist of 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`, and are unique within a list. The
/// constructors and push_back() throw Error(invalid_argument) that quotes the offending name.
class ToolList {
public:
    using const_iterator = std::vector<AgentTool>::const_iterator;

    ToolList() noexcept = default;
    ToolList(std::vector<AgentTool> tools);
    ToolList(std::initializer_list<AgentTool> tools) : ToolList(std::vector<AgentTool>(tools)) {}

    const_iterator begin() const noexcept { return tools().begin(); }
    const_iterator end() const noexcept { return tools().end(); }
    std::size_t size() const noexcept { return tools().size(); }
    bool empty() const noexcept { return tools().empty(); }
    const AgentTool& operator[](std::size_t index) const noexcept { return tools()[index]; }

    /// Returns the tool with that name, or null. Valid while any copy of the list exists.
    const AgentTool* find(std::string_view name) const noexcept;
    void push_back(AgentTool tool);
    void clear() noexcept { shared_.reset(); }

    /// Returns the definitions sent to the model; null if no tool is advertised.
    const std::shared_ptr<const ToolDefinitions>& definitions() const noexcept;

private:
    struct Shared {
        std::vector<AgentTool> tools;
        std::shared_ptr<const ToolDefinitions> definitions;
    };
    const std::vector<AgentTool>& tools() const noexcept;

    std::shared_ptr<const Shared> shared_;
};

}  // namespace cubepi
