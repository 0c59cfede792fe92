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

/// Whether to apply a change or only compute it.
enum class Effect : std::uint8_t { preview, apply };

/// A change, and the version of the file from which it was computed.
struct PlannedChange {
    FileChange change;
    std::uint64_t version = 0;
};

/// The implementation shared by the write and edit tools and their previews. With `expected`, throws Error(invalid_state) and
/// changes nothing if the file has another version.
PlannedChange write_file(Workspace& workspace, const FileChangeLimits& limits,
                         const WriteArgs& args, Effect effect,
                         std::optional<std::uint64_t> expected = {});
PlannedChange edit_file(Workspace& workspace, const FileChangeLimits& limits, const EditArgs& args,
                        Effect effect, std::optional<std::uint64_t> expected = {});

}  // namespace cubepi::detail
