#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cubepi::detail {

struct RegularExpressionOptions {
    bool ignore_case = false;  ///< of ASCII letters
    bool is_literal = false;   ///< the expression is plain text
};

/// A regular expression over bytes, in the syntax of ECMAScript and Perl. Its copies share it. Thread-safe. Expressions and texts of any
/// origin may be passed: a match takes some seconds at most, and a bounded stack.
class RegularExpression {
public:
    /// Throws Error(invalid_argument) that states the expression and the reason.
    explicit RegularExpression(const std::string& text, RegularExpressionOptions options = {});

    /// Returns true if all of the text matches. Throws Error(limit) if the match takes too many steps.
    bool matches(std::string_view text) const;
    /// Returns true if a part of the text matches. Throws Error(limit) as well.
    bool occurs_in(std::string_view text) const;

private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace cubepi::detail
