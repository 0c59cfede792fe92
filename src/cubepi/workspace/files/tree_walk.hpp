#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <stop_token>
#include <string>

#include <cubepi/workspace/workspace.hpp>

namespace cubepi::detail {

struct WalkOptions {
    std::size_t max_depth =
        std::numeric_limits<std::size_t>::max();  ///< 1: the directory's own entries
    bool hidden = false;                          ///< also names that begin with a dot
    bool ignored = false;                         ///< also files that .gitignore excludes
};

/// Visits everything below the directory `start`, each directory before its content, sorted by name. Links are visited but not
/// followed; unreadable directories are skipped. `visit` receives the path relative to the workspace's root, the path relative
/// to `start`, and the entry; it returns false to end the walk. Throws a cancellation when `stop` is requested.
void walk_tree(Workspace& workspace, const std::string& start, const WalkOptions& options,
               std::stop_token stop,
               const std::function<bool(const std::string& path, const std::string& relative,
                                        const DirectoryEntry& entry)>& visit);

/// Returns "directory/name", or only the name for the root ("", ".").
std::string join_path(const std::string& directory, const std::string& name);

/// Throws a cancellation if a stop was requested.
void check_stop(const std::stop_token& stop);

}  // namespace cubepi::detail
