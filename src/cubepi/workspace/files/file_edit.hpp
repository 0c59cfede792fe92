#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cubepi/workspace/file_change.hpp>

namespace cubepi::detail {

struct WriteArgs {
    std::string path;
    std::string content;
};

struct EditArgs {
    std::string path;
    std::string old_text;
    std::string new_text;
    bool all = false;
};

/// Whether a change takes place.
enum class Effect : std::uint8_t { preview, apply };

/// A change and the version of the file that it was computed from.
struct PlannedChange {
    FileChange change;
    std::uint64_t version = 0;
};

/// The one implementation of the write and edit tools and of their previews. With `expected`, throws Error(invalid_state)
/// and changes nothing when the file has another version.
PlannedChange write_file(Workspace& workspace, const FileChangeLimits& limits,
                         const WriteArgs& args, Effect effect,
                         std::optional<std::uint64_t> expected = {});
PlannedChange edit_file(Workspace& workspace, const FileChangeLimits& limits, const EditArgs& args,
                        Effect effect, std::optional<std::uint64_t> expected = {});

}  // namespace cubepi::detail
