#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// A regular expression of ECMAScript. Its copies share it. The templates of std::regex are instantiated in one source, since that takes
/// a compiler as long as two files.
class RegularExpression {
public:
    /// Throws Error(invalid_argument) that states the expression and the reason.
    explicit RegularExpression(const std::string& text);

    /// Returns true if all of the text matches. The time and the stack grow with the text, as those of std::regex.
    bool matches(std::string_view text) const;
    /// Returns true if a part of the text matches.
    bool occurs_in(std::string_view text) const;

private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace cubepi::detail
