#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/workspace/workspace.hpp>

namespace cubepi::detail {

/// Shell patterns over paths: `*` and `?` within a component, `[a-z]`, `[!a]`, `\x`, `**` over components, and
/// `{a,b}`. A pattern without a slash is matched against the last component.
class Glob {
public:
    explicit Glob(std::string_view pattern);
    bool matches(std::string_view path) const;

private:
    std::vector<std::string> alternatives_;
    bool name_only_;
};

/// Matches one pattern without braces against the whole `path`.
bool glob_match(std::string_view pattern, std::string_view path);

/// The rules of one .gitignore file.
class IgnoreRules {
public:
    /// `directory` contains the file ("" for the root of the walk).
    IgnoreRules(std::string directory, std::string_view content);

    enum class Verdict { none, ignored, included };
    /// `path` is relative to the root of the walk.
    Verdict check(std::string_view path, bool is_directory) const;

private:
    struct Rule {
        std::string pattern;
        bool negated = false;
        bool directories_only = false;
        bool anchored = false;
    };
    std::string directory_;
    std::vector<Rule> rules_;
};

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
