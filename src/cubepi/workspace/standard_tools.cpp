#include <cubepi/workspace/standard_tools.hpp>

namespace cubepi {

std::vector<AgentTool> standard_tools(std::shared_ptr<Workspace> workspace,
                                      StandardToolOptions options,
                                      std::shared_ptr<ShellSessions> shell_sessions) {
    std::vector<AgentTool> tools;
    tools.push_back(read_tool(workspace, options.files));
    tools.push_back(list_tool(workspace, options.files));
    tools.push_back(grep_tool(workspace, options.files));
    if (options.with_writing) {
        tools.push_back(write_tool(workspace, options.files));
        tools.push_back(edit_tool(workspace, options.files));
    }
    if (options.with_shell) {
        if (!shell_sessions)
            shell_sessions = ShellSessions::create(workspace, std::move(options.shell));
        tools.push_back(shell_tool(shell_sessions));
        tools.push_back(shell_output_tool(shell_sessions));
        tools.push_back(shell_kill_tool(shell_sessions));
    }
    if (options.with_fetch) tools.push_back(fetch_tool(std::move(options.fetch)));
    return tools;
}

}  // namespace cubepi
