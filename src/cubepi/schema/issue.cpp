#include <cubepi/schema/issue.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/schema/detail/value_path.hpp>

namespace cubepi {
namespace {

constexpr std::size_t most_issues = 20;
constexpr std::size_t longest_path = 200;
constexpr std::size_t longest_message = 600;

std::string with_lines(std::string text, const std::vector<SchemaIssue>& issues) {
    const std::size_t shown = std::min(issues.size(), most_issues);
    for (std::size_t i = 0; i < shown; ++i) {
        text += "\n- " + detail::abbreviated(issues[i].path, longest_path) + ": " +
                detail::abbreviated(issues[i].message, longest_message);
    }
    if (shown < issues.size())
        text += "\n- and " + std::to_string(issues.size() - shown) + " more problems";
    return text;
}

}  // namespace

ValidationError::ValidationError(std::string_view about, std::vector<SchemaIssue> issues)
    : Error(ErrorCode::validation, with_lines(std::string(about), issues)),
      issues_(std::move(issues)) {}

std::string format_issues(std::string_view tool_name, const std::vector<SchemaIssue>& issues) {
    std::string header = "Invalid arguments for tool '";
    header += tool_name;
    header += "':";
    return with_lines(std::move(header), issues);
}

}  // namespace cubepi
