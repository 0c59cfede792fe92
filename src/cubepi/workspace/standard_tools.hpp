#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/workspace/fetch_tool.hpp>
#include <cubepi/workspace/file_change.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>
#include <cubepi/workspace/shell_sessions.hpp>
#include <cubepi/workspace/workspace.hpp>

// Tools for files, commands and web pages: "read", "list", "grep", "write", "edit", "shell", "shell_output", "shell_kill" and
// "fetch". Each is an ordinary AgentTool; use some or all of them.

namespace cubepi {

struct FileToolOptions {
    std::size_t max_output_bytes =
        40 * 1000;                 ///< of text in one result; below the agent's own limit (D24)
    std::size_t max_lines = 2000;  ///< of one read
    /// png, jpeg, gif and webp files are read as images. Default: 5 MiB in base64, the limit of the Messages API.
    std::size_t max_image_bytes = 5 * 1024 * 1024 / 4 * 3;
    std::size_t max_edit_bytes = 16 * 1024 * 1024;   ///< of a file that is edited or compared
    std::size_t max_search_bytes = 8 * 1024 * 1024;  ///< of a file that grep searches
    std::size_t max_entries = 1000;                  ///< of one list
    std::size_t max_matches = 200;                   ///< of one grep
    /// Binds calls of write and edit to the changes shown to an approver; null: calls are not bound.
    std::shared_ptr<FilePreviews> previews = nullptr;
    /// Records the changes of write and edit, so that they can be taken back; null: they cannot.
    std::shared_ptr<FileCheckpoints> checkpoints = nullptr;

    FileToolOptions() {}
};

struct StandardToolOptions {
    FileToolOptions files;
    ShellOptions shell;
    FetchOptions fetch;
    /// The tools to include; read, list and grep are always included.
    bool with_writing = true;
    bool with_shell = true;
    bool with_fetch = true;
    /// True: commands run outside of the sandbox of the workspace, for tools that the user calls.
    bool unsandboxed_shell = false;

    StandardToolOptions() {}
    StandardToolOptions&& read_only() && {
        with_writing = with_shell = false;
        return std::move(*this);
    }
};

/// Returns all tools for one workspace, in the order of the list above, for one agent: its commands form a session.
/// `shell_sessions`, if not null, is shared by the shell tools.
std::vector<AgentTool> standard_tools(std::shared_ptr<Workspace> workspace,
                                      StandardToolOptions options = StandardToolOptions(),
                                      std::shared_ptr<ShellSessions> shell_sessions = nullptr);

/// Reads a text file by lines, with their numbers, or an image. Risk: read_only.
AgentTool read_tool(std::shared_ptr<Workspace> workspace,
                    FileToolOptions options = FileToolOptions());
/// Lists a directory, or finds files by a pattern of their names. Risk: read_only.
AgentTool list_tool(std::shared_ptr<Workspace> workspace,
                    FileToolOptions options = FileToolOptions());
/// Finds lines in files by a regular expression. Risk: read_only.
AgentTool grep_tool(std::shared_ptr<Workspace> workspace,
                    FileToolOptions options = FileToolOptions());
/// Creates or replaces a file. Risk: writes.
AgentTool write_tool(std::shared_ptr<Workspace> workspace,
                     FileToolOptions options = FileToolOptions());
/// Replaces one piece of text in a file and preserves its line endings. Risk: writes.
AgentTool edit_tool(std::shared_ptr<Workspace> workspace,
                    FileToolOptions options = FileToolOptions());

/// Runs a command. At its time limit the command is moved to the background. Risk: writes; for one call see command_risk().
/// `unsandboxed`: outside of the sandbox of the workspace. A command that only reads (only_reads) runs in its sandbox without writes.
AgentTool shell_tool(std::shared_ptr<ShellSessions> sessions, bool unsandboxed = false);
/// Reads the output of a background command, or lists the background commands. Risk: read_only.
AgentTool shell_output_tool(std::shared_ptr<ShellSessions> sessions);
/// Ends a background command. Risk: writes.
AgentTool shell_kill_tool(std::shared_ptr<ShellSessions> sessions);

}  // namespace cubepi
