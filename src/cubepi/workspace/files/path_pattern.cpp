#include <cubepi/workspace/files/path_pattern.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <cubepi/core/support/lower_case.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view wildcards = "*?";

/// Takes time proportional to the product of the lengths at most.
bool glob_matches(std::string_view glob, std::string_view text) {
    std::size_t at = 0;
    std::size_t star = std::string_view::npos;
    std::size_t resume = 0;
    std::size_t i = 0;
    while (i < text.size()) {
        if (at < glob.size() && glob[at] == '*') {
            star = at++;
            resume = i;
        } else if (at < glob.size() && (glob[at] == '?' ? text[i] != '/' : glob[at] == text[i])) {
            ++at;
            ++i;
        } else if (star != std::string_view::npos) {
            at = star + 1;
            i = ++resume;
        } else {
            return false;
        }
    }
    return glob.find_first_not_of('*', at) == std::string_view::npos;
}

bool is_at_or_below(std::string_view path, std::string_view directory) {
    if (directory == "/") return path.starts_with('/');
    return path.starts_with(directory) &&
           (path.size() == directory.size() || path[directory.size()] == '/');
}

/// The directory part before the first wildcard, without a "/" at its end.
std::string_view literal_part(std::string_view glob) {
    const std::size_t wildcard = glob.find_first_of(wildcards);
    if (wildcard == std::string_view::npos) return glob;
    const std::size_t slash = glob.rfind('/', wildcard);
    return glob.substr(0, slash == std::string_view::npos ? 0 : slash);
}

std::string normal(const std::string& path) {
    std::string made = std::filesystem::path(path).lexically_normal().string();
    while (made.size() > 1 && made.ends_with('/')) made.pop_back();
    return made;
}

/// Returns the path with links resolved; what does not exist is unchanged.
std::string resolved(std::string_view path) {
    std::error_code failed;
    const std::filesystem::path made = std::filesystem::weakly_canonical(path, failed);
    return failed ? std::string(path) : normal(made.string());
}

void add(std::vector<std::string>& all, const std::string& text) {
    std::string lower = lower_case(text);
    if (std::find(all.begin(), all.end(), lower) == all.end()) all.push_back(std::move(lower));
}

}  // namespace

PathPattern::PathPattern(std::string_view text, const std::string& base, const std::string& home) {
    add(bases_, base);
    if (!base.empty()) add(bases_, resolved(base));
    std::string pattern(text);
    while (pattern.starts_with("./")) pattern.erase(0, 2);
    // A star matches "/" too, so this includes no directory in between.
    for (std::size_t at = pattern.find("/**/"); at != std::string::npos; at = pattern.find("/**/"))
        pattern.replace(at, 4, "/*");
    bool any_depth = false;
    while (pattern.starts_with("**/")) {
        pattern.erase(0, 3);
        any_depth = true;
    }
    // A directory is matched with all that is below it.
    while (pattern.ends_with("/*") || pattern.ends_with("/**") ||
           (pattern.size() > 1 && pattern.ends_with('/')))
        pattern.erase(pattern.rfind('/'));
    if (pattern.empty() && text.starts_with('/')) pattern = "/";
    is_name_ = pattern.find('/') == std::string::npos && pattern != "." && pattern != ".." &&
               pattern != "~" && (any_depth || std::string_view(text).find('/') == text.npos);
    if (is_name_) {
        add(globs_, pattern);
        // The one in the base may be a link.
        if (!base.empty() && pattern.find_first_of(wildcards) == std::string::npos)
            target_ = lower_case(resolved(absolute_path(base, pattern)));
        return;
    }
    if (!home.empty() && (pattern == "~" || pattern.starts_with("~/")))
        pattern = home + pattern.substr(1);
    const std::string whole = absolute_path(base, pattern);
    for (const std::string& glob :
         {whole, any_depth ? absolute_path(base, "*/" + pattern) : whole}) {
        add(globs_, glob);
        const std::string_view literal = literal_part(glob);
        if (!literal.empty()) add(globs_, normal(resolved(literal) + glob.substr(literal.size())));
    }
}

/// Returns the part of a path below the base; all of it if it is elsewhere.
std::string_view PathPattern::below_base(std::string_view path) const {
    for (const std::string& base : bases_) {
        if (!base.empty() && is_at_or_below(path, base)) return path.substr(base.size());
    }
    return path;
}

bool PathPattern::matches(std::string_view path) const {
    const std::string lower = lower_case(path);
    if (is_name_) {
        if (!target_.empty() && is_at_or_below(lower, target_)) return true;
        std::string_view rest = below_base(lower);
        while (!rest.empty()) {
            const std::size_t end = std::min(rest.find('/'), rest.size());
            if (end > 0 && glob_matches(globs_.front(), rest.substr(0, end))) return true;
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
        return false;
    }
    // The path itself, and each directory above it.
    for (std::string_view part = lower; !part.empty(); part = part.substr(0, part.rfind('/'))) {
        if (std::any_of(globs_.begin(), globs_.end(),
                        [&](const std::string& glob) { return glob_matches(glob, part); }))
            return true;
        if (part.find('/') == std::string_view::npos) break;
    }
    return std::find(globs_.begin(), globs_.end(), "/") != globs_.end();
}

bool PathPattern::may_match_below(std::string_view directory) const {
    if (is_name_) return true;
    const std::string lower = lower_case(directory);
    return std::any_of(globs_.begin(), globs_.end(), [&](const std::string& glob) {
        const std::string_view literal = literal_part(glob);
        const bool has_wildcard = literal.size() < glob.size();
        return is_at_or_below(literal, lower) ||
               (has_wildcard && (literal.empty() || is_at_or_below(lower, literal)));
    });
}

std::string absolute_path(const std::string& directory, const std::string& path) {
    return normal(path.starts_with('/') ? path : (directory == "/" ? "" : directory) + "/" + path);
}

}  // namespace cubepi::detail
