#include <cubepi/core/support/regular_expression.hpp>

#include <regex>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

struct RegularExpression::Compiled {
    std::regex expression;
};

RegularExpression::RegularExpression(const std::string& text) {
    try {
        compiled_ = std::make_shared<const Compiled>(Compiled{std::regex(text)});
    } catch (const std::regex_error& error) {
        throw Error(ErrorCode::invalid_argument,
                    "'" + text + "' is not a regular expression: " + std::string(error.what()));
    }
}

bool RegularExpression::matches(std::string_view text) const {
    return std::regex_match(text.begin(), text.end(), compiled_->expression);
}

bool RegularExpression::occurs_in(std::string_view text) const {
    return std::regex_search(text.begin(), text.end(), compiled_->expression);
}

}  // namespace cubepi::detail
