#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace cubepi::detail
