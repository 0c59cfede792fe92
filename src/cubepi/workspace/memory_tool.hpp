#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include <cubepi/agent/tool.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi {

/// The limits of a memory tool.
struct MemoryToolOptions {
    std::size_t max_files = 200;
    std::size_t max_file_bytes = 64 * 1024;
    std::size_t max_total_bytes = 1024 * 1024;
    std::size_t max_output_bytes = 40 * 1000;  ///< of text in one result
    /// Records the changes of notes, so that they can be taken back; null: they cannot.
    std::shared_ptr<FileCheckpoints> checkpoints = nullptr;

    MemoryToolOptions() {}
};

/// Returns the tool `memory`, with which a model keeps notes for later conversations in a directory, as text files. Its commands and
/// arguments are those of Anthropic's memory tool: view, create, str_replace, insert, delete, rename, with paths below /memories
/// (https://docs.claude.com/en/docs/agents-and-tools/tool-use/memory-tool). Risk: writes.
///
/// `place` contains the notes and nothing else; it may be shared by agents of several threads. Results mark what they show as
/// notes, which are data: text that a model has stored after it read a hostile page is in them (D123).
AgentTool memory_tool(std::shared_ptr<Workspace> place,
                      MemoryToolOptions options = MemoryToolOptions());

/// Returns the tool for a directory of this machine, which is created with mode 0700. Symbolic links in it are refused. Throws
/// Error.
AgentTool memory_tool(const std::filesystem::path& directory,
                      MemoryToolOptions options = MemoryToolOptions());

}  // namespace cubepi
