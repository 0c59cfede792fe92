#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>

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

namespace detail {

/// A location inside a JSON value: a chain of steps on the callers' stacks, formatted only for an issue.
struct ValuePath {
    const ValuePath* parent = nullptr;
    std::string_view key = {};
    std::size_t index = 0;
    bool is_index = false;

    ValuePath child(std::string_view name) const { return ValuePath{this, name, 0, false}; }
    ValuePath item(std::size_t at) const { return ValuePath{this, {}, at, true}; }
    std::string to_string() const;
};

/// Returns a short description of a value: "string \"abc\"", "integer 3", "object with 2 fields". Long strings are
/// truncated at a character boundary.
std::string describe_value(const Json& value);

/// Returns the value as JSON, truncated to a length suitable for a message.
std::string quote_value(const Json& value);

SchemaIssue wrong_type_issue(const ValuePath& path, std::string expected, const Json& found);
SchemaIssue missing_issue(const ValuePath& path, std::string expected);
SchemaIssue unexpected_issue(const ValuePath& path, const Json& found);
/// `choices` is a JSON list without brackets: "\"a\", \"b\"".
SchemaIssue not_one_of_issue(const ValuePath& path, const std::string& choices, const Json& found);

/// Returns the issue of a value that matches none of several alternatives; `forms` has the issues of each of them. The
/// message names the fields that each alternative rejects or misses.
SchemaIssue no_form_issue(const ValuePath& path, std::string expected,
                          const std::vector<std::vector<SchemaIssue>>& forms, const Json& found);

/// Returns `text` truncated to `limit` bytes at a character boundary, with "..." in place of the rest.
std::string abbreviated(std::string_view text, std::size_t limit);

/// Converts an integer, or an integral double that an int64 or uint64 represents exactly, to an integer; else null.
Json integer_from_number(const Json& value);
/// Returns the number that a string contains exactly by JSON's grammar (no blanks, no "+", no NaN); else null.
Json number_from_text(std::string_view text);
/// Returns the boolean that a string contains exactly ("true", "false"); else null.
Json boolean_from_text(std::string_view text);

}  // namespace detail
}  // namespace cubepi
