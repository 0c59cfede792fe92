#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// A pattern of the files that a rule restricts: "secrets/*", "/etc/*", "~/.ssh", "*.pem". It matches too much rather than too little.
///
/// `*` stands for any text, also across "/", and `?` for a character; ASCII letters match regardless of case. A pattern that matches a
/// directory matches all that is below it, and one that ends in "/*" the directory itself too. A pattern without "/" matches a name at
/// any depth. Symbolic links before its first wildcard are resolved.
class PathPattern {
public:
    /// `base` is the directory where a relative pattern begins, and `home` that of "~/", both absolute; either may be empty. Reads links.
    PathPattern(std::string_view text, const std::string& base, const std::string& home);

    /// Returns true if the pattern matches a path, which is absolute and normal.
    bool matches(std::string_view path) const;
    /// Returns true if the pattern may match something below a directory.
    bool may_match_below(std::string_view directory) const;

private:
    std::string_view below_base(std::string_view path) const;

    bool is_name_ = false;  ///< matches a name at any depth
    std::string target_{};  ///< of such a name in the base, with links resolved; in lower case
    std::vector<std::string> globs_{};  ///< in lower case
    std::vector<std::string> bases_{};  ///< spellings of the base, in lower case
};

/// Returns the absolute and normal form of a path in a directory, by its text alone.
std::string absolute_path(const std::string& directory, const std::string& path);

}  // namespace cubepi::detail
