#include <cubepi/core/support/regular_expression.hpp>

#include <stdexcept>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/bounded_regex.hpp>

namespace cubepi::detail {

namespace {

boost::regex::flag_type flags_of(RegularExpressionOptions options) {
    boost::regex::flag_type flags = options.is_literal ? boost::regex::literal : boost::regex::perl;
    if (options.ignore_case) flags |= boost::regex::icase;
    return flags;
}

/// As in ECMAScript: "." matches within a line, and "^" and "$" are the ends of the text.
boost::match_flag_type match_flags() {
    return boost::match_single_line | boost::match_not_dot_newline;
}

[[noreturn]] void refuse_steps(std::string_view text) {
    throw Error(ErrorCode::limit, "a regular expression takes too many steps on a text of " +
                                      std::to_string(text.size()) + " bytes");
}

}  // namespace

struct RegularExpression::Compiled {
    BoundedRegex<char> expression;
};

RegularExpression::RegularExpression(const std::string& text, RegularExpressionOptions options) {
    try {
        compiled_ =
            std::make_shared<const Compiled>(Compiled{BoundedRegex<char>(text, flags_of(options))});
    } catch (const std::runtime_error& error) {
        constexpr std::size_t shown = 200;
        throw Error(ErrorCode::invalid_argument,
                    "'" + text.substr(0, shown) + (text.size() > shown ? "..." : "") +
                        "' is not a regular expression: " + std::string(error.what()));
    }
}

bool RegularExpression::matches(std::string_view text) const {
    try {
        return compiled_->expression.matches(text, match_flags());
    } catch (const std::runtime_error&) {
        refuse_steps(text);
    }
}

bool RegularExpression::occurs_in(std::string_view text) const {
    try {
        return compiled_->expression.occurs_in(text, match_flags());
    } catch (const std::runtime_error&) {
        refuse_steps(text);
    }
}

}  // namespace cubepi::detail
