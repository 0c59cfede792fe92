#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>

namespace cubepi {

/// One thing that is wrong with a JSON value.
struct SchemaIssue {
    std::string
        path;  ///< where: "city", "where.city", "items[2].name"; "<root>" for the whole value
    std::string expected;  ///< "integer", "one of \"a\", \"b\"", "at least 1", ...
    std::string found;     ///< "string \"abc\"", "null", "nothing", ...
    std::string
        message;  ///< both in one phrase: "field required", "expected integer, found string \"abc\""

    friend bool operator==(const SchemaIssue&, const SchemaIssue&) = default;
};

/// JSON that does not fit a C++ type or a schema. Carries every issue that was found, not only the first.
class ValidationError : public Error {
public:
    /// @param about what was read, for the first line of `what()`, e.g. "Invalid JSON for WeatherArgs:".
    ValidationError(std::string_view about, std::vector<SchemaIssue> issues);
    const std::vector<SchemaIssue>& issues() const noexcept { return issues_; }

private:
    std::vector<SchemaIssue> issues_;
};

/// "Invalid arguments for tool 'NAME':" and one line "- PATH: MESSAGE" per issue, as it is shown to the
/// model. After 20 issues a line with the number of the others; long paths and messages are cut. No newline at
/// the end.
std::string format_issues(std::string_view tool_name, const std::vector<SchemaIssue>& issues);

}  // namespace cubepi
