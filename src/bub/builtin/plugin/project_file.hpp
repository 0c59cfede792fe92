#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/workspace/workspace.hpp>

namespace bub::detail {

/// Of a file that becomes part of the system prompt, not more than this is read.
inline constexpr std::size_t max_project_file = 64 * 1024;

/// A file that becomes part of the system prompt: AGENTS.md, a skill.
struct ProjectFile {
    std::string text = {};   ///< valid UTF-8, without blanks at the end
    std::uint64_t size = 0;  ///< bytes of the whole file

    bool is_cut() const noexcept { return size > max_project_file; }
    /// Tells the model that it has the beginning only. `name` of the file.
    std::string cut_note(std::string_view name) const;
};

/// Reads the first 64 KiB. Blocks. Throws Error: what Workspace::open() throws.
ProjectFile read_project_file(cubepi::Workspace& place, const std::string& path);

/// "2.1 KB"
std::string size_text(std::uint64_t bytes);

}  // namespace bub::detail
