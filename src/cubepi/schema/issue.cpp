#include <cubepi/schema/issue.hpp>

#include <utility>

namespace cubepi {
namespace {

std::string with_lines(std::string text, const std::vector<SchemaIssue>& issues) {
    for (const auto& issue : issues) {
        text += "\n- ";
        text += issue.path;
        text += ": ";
        text += issue.message;
    }
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
