#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>

namespace cubepi {

/// A problem of a JSON value.
struct SchemaIssue {
    std::string
        path;  ///< location: "city", "where.city", "items[2].name"; "<root>" for the whole value
    std::string expected;  ///< "integer", "one of \"a\", \"b\"", "at least 1", ...
    std::string found;     ///< "string \"abc\"", "null", "nothing", ...
    std::string
        message;  ///< both in one phrase: "field required", "expected integer, found string \"abc\""

    friend bool operator==(const SchemaIssue&, const SchemaIssue&) = default;
};

/// A JSON value does not match a C++ type or a schema. Contains all issues that were found.
class ValidationError : public Error {
public:
    /// @param about describes the input, for the first line of `what()`, e.g. "Invalid JSON for WeatherArgs:".
    ValidationError(std::string_view about, std::vector<SchemaIssue> issues);
    const std::vector<SchemaIssue>& issues() const noexcept { return issues_; }

private:
    std::vector<SchemaIssue> issues_;
};

/// Returns "Invalid arguments for tool 'NAME':" and one line "- PATH: MESSAGE" per issue, as shown to the model. After
/// 20 issues one line states how many are omitted; long paths and messages are truncated. No newline at the end.
std::string format_issues(std::string_view tool_name, const std::vector<SchemaIssue>& issues);

}  // namespace cubepi
