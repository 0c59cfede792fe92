#include <cubepi/workspace/files/tree_walk.hpp>

#include <algorithm>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/workspace/files/beneath.hpp>
#include <cubepi/workspace/files/glob.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_ignore_file = 256 * 1024;
constexpr std::size_t max_nesting = 100;

using Visit = std::function<bool(const std::string&, const std::string&, const DirectoryEntry&)>;

class Walk {
public:
    Walk(Workspace& workspace, const WalkOptions& options, std::stop_token stop, const Visit& visit)
        : workspace_(workspace), options_(options), stop_(std::move(stop)), visit_(visit) {}

    void load_rules(const std::string& directory) {
        if (options_.ignored) return;
        try {
            const std::string file = join_path(directory, ".gitignore");
            rules_.emplace_back(directory, workspace_.read(file, max_ignore_file));
        } catch (const Error&) {
            // The file does not exist or cannot be read: nothing is ignored.
        }
    }

    bool enter(const std::string& directory, const std::string& relative, std::size_t depth,
               bool is_start) {
        check_stop(stop_);
        std::vector<DirectoryEntry> entries;
        try {
            entries = workspace_.list(directory);
        } catch (const Error&) {
            if (is_start) throw;
            return true;
        }
        const std::size_t rules_before = rules_.size();
        const bool has_rules = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
            return entry.name == ".gitignore";
        });
        if (has_rules) load_rules(directory);
        const bool proceed = visit_all(entries, directory, relative, depth);
        rules_.resize(rules_before, IgnoreRules(std::string(), {}));
        return proceed;
    }

private:
    bool visit_all(const std::vector<DirectoryEntry>& entries, const std::string& directory,
                   const std::string& relative, std::size_t depth) {
        for (const DirectoryEntry& entry : entries) {
            const bool is_directory = entry.info.kind == FileKind::directory;
            if (!options_.hidden && entry.name.starts_with('.')) continue;
            const std::string path = join_path(directory, entry.name);
            if (is_ignored(path, entry.name, is_directory)) continue;
            const std::string below = join_path(relative, entry.name);
            if (!visit_(path, below, entry)) return false;
            if (is_directory && depth < std::min(options_.max_depth, max_nesting) &&
                !enter(path, below, depth + 1, false)) {
                return false;
            }
        }
        return true;
    }

    bool is_ignored(const std::string& path, const std::string& name, bool is_directory) const {
        // Git's own files are never of interest.
        if (is_directory && name == ".git") return true;
        for (auto rules = rules_.rbegin(); rules != rules_.rend(); ++rules) {
            const auto verdict = rules->check(path, is_directory);
            if (verdict != IgnoreRules::Verdict::none)
                return verdict == IgnoreRules::Verdict::ignored;
        }
        return false;
    }

    Workspace& workspace_;
    const WalkOptions& options_;
    const std::stop_token stop_;
    const Visit& visit_;
    std::vector<IgnoreRules> rules_;
};

}  // namespace

std::string join_path(const std::string& directory, const std::string& name) {
    if (directory.empty() || directory == ".") return name;
    return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

void check_stop(const std::stop_token& stop) {
    if (stop.stop_requested()) throw_cancelled();
}

void walk_tree(Workspace& workspace, const std::string& start, const WalkOptions& options,
               std::stop_token stop, const Visit& visit) {
    std::string directory = tidy_path(start);
    if (start.starts_with('/')) directory.insert(0, "/");
    Walk walk(workspace, options, std::move(stop), visit);
    // The rules of the parent directories apply as well.
    if (!start.starts_with('/') && !directory.empty() &&
        directory.find("..") == std::string::npos) {
        walk.load_rules("");
        for (auto slash = directory.find('/'); slash != std::string::npos;
             slash = directory.find('/', slash + 1)) {
            walk.load_rules(directory.substr(0, slash));
        }
    }
    walk.enter(directory, std::string(), 1, true);
}

}  // namespace cubepi::detail
