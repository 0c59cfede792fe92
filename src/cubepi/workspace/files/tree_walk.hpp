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
    bool hidden = false;                          ///< names that begin with a dot, too
    bool ignored = false;                         ///< what .gitignore files leave out, too
};

/// Visits what is below the directory `start`, each directory before its content, sorted by name. Links are visited, not
/// followed; directories that cannot be read are passed over. `visit` gets the path from the workspace's root, the path from
/// `start`, and the entry; it returns false to end the walk. Throws a cancellation when `stop` is requested.
void walk_tree(Workspace& workspace, const std::string& start, const WalkOptions& options,
               std::stop_token stop,
               const std::function<bool(const std::string& path, const std::string& relative,
                                        const DirectoryEntry& entry)>& visit);

/// "directory/name"; just the name in the root ("", ".").
std::string join_path(const std::string& directory, const std::string& name);

/// Throws a cancellation when a stop is requested.
void check_stop(const std::stop_token& stop);

}  // namespace cubepi::detail
