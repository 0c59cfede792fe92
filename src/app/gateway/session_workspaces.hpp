#pragma once

#include <filesystem>
#include <string_view>

#include <bub/hooks.hpp>

namespace cubepi::app {

/// Returns the directory of a session below `root`: the session id with other characters than letters, digits, '-' and '_'
/// replaced, and a digest that keeps apart ids that differ only in those.
std::filesystem::path session_workspace(const std::filesystem::path& root,
                                        std::string_view session_id);

/// Returns a plugin that assigns each session a workspace of its own below `root` (B26), created with the mode 0700 at its
/// first use.
bub::Plugin session_workspaces(std::filesystem::path root);

}  // namespace cubepi::app
