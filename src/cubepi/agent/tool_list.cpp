#include <cubepi/agent/tool_list.hpp>

namespace cubepi {

ToolList::ToolList(std::vector<AgentTool> tools) {
    if (tools.empty()) return;
    auto shared = std::make_shared<Shared>();
    shared->tools = std::move(tools);
    auto definitions = std::make_shared<ToolDefinitions>();
    definitions->reserve(shared->tools.size());
    for (const AgentTool& tool : shared->tools) {
        if (tool.expose_to_model) definitions->push_back(tool.definition());
    }
    if (!definitions->empty()) shared->definitions = std::move(definitions);
    shared_ = std::move(shared);
}

const std::vector<AgentTool>& ToolList::tools() const noexcept {
    static const std::vector<AgentTool> none;
    return shared_ ? shared_->tools : none;
}

const AgentTool* ToolList::find(std::string_view name) const noexcept {
    for (const AgentTool& tool : tools()) {
        if (tool.name == name) return &tool;
    }
    return nullptr;
}

void ToolList::push_back(AgentTool tool) {
    std::vector<AgentTool> more = tools();
    more.push_back(std::move(tool));
    *this = ToolList(std::move(more));
}

const std::shared_ptr<const ToolDefinitions>& ToolList::definitions() const noexcept {
    static const std::shared_ptr<const ToolDefinitions> none;
    return shared_ ? shared_->definitions : none;
}

}  // namespace cubepi
