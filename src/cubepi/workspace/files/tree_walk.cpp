#include <cubepi/workspace/files/tree_walk.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/workspace/files/file_access.hpp>

namespace cubepi::detail {

namespace {

using Visit = std::function<bool(const std::string&, const std::string&, const DirectoryEntry&)>;

/// Returns whether `c` matches the set that begins at `at` (after "["), and moves `at` after the "]". A set without an end is
/// not a set.
bool matches_set(std::string_view pattern, std::size_t& at, char c, bool& is_set) {
    std::size_t i = at;
    const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
    if (negated) ++i;
    bool found = false;
    for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
        if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
        const char low = pattern[i++];
        char high = low;
        if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
            high = pattern[i + 1];
            i += 2;
        }
        if (low <= c && c <= high) found = true;
    }
    is_set = i < pattern.size();
    if (is_set) at = i + 1;
    return found != negated;
}

std::vector<std::string> expand_braces(std::string_view pattern) {
    std::vector<std::string> all(1);
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const auto end = pattern[i] == '{' ? pattern.find('}', i) : std::string_view::npos;
        if (end == std::string_view::npos || all.size() > 64) {
            for (auto& text : all) text += pattern[i];
            continue;
        }
        std::vector<std::string> next;
        std::string_view list = pattern.substr(i + 1, end - i - 1);
        for (bool more = true; more;) {
            const auto comma = list.find(',');
            more = comma != std::string_view::npos;
            for (const auto& text : all) next.push_back(text + std::string(list.substr(0, comma)));
            if (more) list.remove_prefix(comma + 1);
        }
        all = std::move(next);
        i = end;
    }
    return all;
}

/// Matches one pattern against one path. Has separate backtracking positions for `*` and `**`, so that the work is bounded by the
/// product of the lengths instead of a power of them.
class GlobMatcher {
public:
    GlobMatcher(std::string_view pattern, std::string_view path) : pattern_(pattern), path_(path) {}

    bool run() {
        for (;;) {
            if (take_stars()) continue;
            if (p_ == pattern_.size() && s_ == path_.size()) return true;
            if (!take_character() && !retry()) return false;
        }
    }

private:
    struct Position {
        std::size_t pattern = std::string_view::npos;
        std::size_t path = 0;
        bool is_set() const { return pattern != std::string_view::npos; }
    };

    bool take_stars() {
        if (p_ == pattern_.size() || pattern_[p_] != '*') return false;
        if (pattern_.substr(p_, 2) != "**") {
            star_ = Position{++p_, s_};
            return true;
        }
        while (p_ < pattern_.size() && pattern_[p_] == '*') ++p_;
        // "**/" may match nothing.
        if (p_ < pattern_.size() && pattern_[p_] == '/' && (s_ == 0 || path_[s_ - 1] == '/')) ++p_;
        double_star_ = Position{p_, s_};
        star_ = Position();
        return true;
    }

    bool take_character() {
        if (p_ == pattern_.size() || s_ == path_.size()) return false;
        const char c = path_[s_];
        std::size_t next = p_ + 1;
        bool same = false;
        if (pattern_[p_] == '?') {
            same = c != '/';
        } else if (pattern_[p_] == '[' && c != '/') {
            bool is_set = false;
            same = matches_set(pattern_, next, c, is_set);
            if (!is_set) same = c == '[';
        } else {
            if (pattern_[p_] == '\\' && p_ + 1 < pattern_.size()) next = ++p_ + 1;
            same = pattern_[p_] == c;
        }
        if (!same) return false;
        p_ = next;
        ++s_;
        return true;
    }

    /// Returns to the last star and lets it match one more character, or one more component.
    bool retry() {
        if (star_.is_set() && star_.path < path_.size() && path_[star_.path] != '/') {
            p_ = star_.pattern;
            s_ = ++star_.path;
            return true;
        }
        if (!double_star_.is_set() || double_star_.path >= path_.size()) return false;
        p_ = double_star_.pattern;
        // After "**/" a match starts at the beginning of a component.
        const bool whole = p_ > 0 && pattern_[p_ - 1] == '/';
        do {
            s_ = ++double_star_.path;
        } while (whole && s_ < path_.size() && path_[s_ - 1] != '/');
        star_ = Position();
        return true;
    }

    const std::string_view pattern_;
    const std::string_view path_;
    std::size_t p_ = 0;
    std::size_t s_ = 0;
    Position star_;
    Position double_star_;
};

constexpr std::size_t max_ignore_file = 256 * 1024;
constexpr std::size_t max_nesting = 100;

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

bool glob_match(std::string_view pattern, std::string_view path) {
    return GlobMatcher(pattern, path).run();
}

Glob::Glob(std::string_view pattern)
    : alternatives_(expand_braces(pattern)),
      name_only_(pattern.find('/') == std::string_view::npos) {
    for (auto& text : alternatives_) {
        if (text.starts_with("./")) text.erase(0, 2);
    }
}

bool Glob::matches(std::string_view path) const {
    if (name_only_) path = path.substr(path.rfind('/') + 1);
    for (const auto& pattern : alternatives_) {
        if (glob_match(pattern, path)) return true;
    }
    return false;
}

IgnoreRules::IgnoreRules(std::string directory, std::string_view content)
    : directory_(std::move(directory)) {
    while (!content.empty()) {
        const auto end = content.find('\n');
        std::string_view line = content.substr(0, end);
        content = end == std::string_view::npos ? std::string_view() : content.substr(end + 1);
        while (!line.empty() &&
               (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) {
            line.remove_suffix(1);
        }
        Rule rule;
        if (line.empty() || line[0] == '#') continue;
        if (line[0] == '!') {
            rule.negated = true;
            line.remove_prefix(1);
        }
        if (line.ends_with('/')) {
            rule.directories_only = true;
            line.remove_suffix(1);
        }
        if (line.starts_with('/')) {
            rule.anchored = true;
            line.remove_prefix(1);
        }
        rule.anchored = rule.anchored || line.find('/') != std::string_view::npos;
        if (line.empty()) continue;
        rule.pattern = line;
        rules_.push_back(std::move(rule));
    }
}

IgnoreRules::Verdict IgnoreRules::check(std::string_view path, bool is_directory) const {
    if (!directory_.empty()) {
        if (!path.starts_with(directory_) || path.size() <= directory_.size() ||
            path[directory_.size()] != '/') {
            return Verdict::none;
        }
        path.remove_prefix(directory_.size() + 1);
    }
    const auto name = path.substr(path.rfind('/') + 1);
    // The last matching rule decides.
    for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
        if (rule->directories_only && !is_directory) continue;
        if (glob_match(rule->pattern, rule->anchored ? path : name)) {
            return rule->negated ? Verdict::included : Verdict::ignored;
        }
    }
    return Verdict::none;
}

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
