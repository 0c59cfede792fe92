#include <cubepi/schema/issue.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {
namespace {

constexpr std::size_t most_issues = 20;
constexpr std::size_t longest_path = 200;
constexpr std::size_t longest_message = 600;
constexpr std::size_t longest_quote = 80;
constexpr std::size_t most_forms = 5;
constexpr std::size_t most_issues_of_a_form = 3;

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

namespace cubepi::detail {

std::string abbreviated(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return std::string(text);
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
    return std::string(text.substr(0, limit)) + "...";
}

std::string ValuePath::to_string() const {
    if (!parent) return "<root>";
    std::string text = parent->parent ? parent->to_string() : std::string();
    if (is_index) {
        text += '[' + std::to_string(index) + ']';
    } else {
        if (!text.empty()) text += '.';
        text += key;
    }
    return text;
}

std::string quote_value(const Json& value) {
    if (const auto* text = value.if_string()) {
        return json_text(
            Json(abbreviated(std::string_view(text->data(), text->size()), longest_quote)));
    }
    if (value.is_double()) return to_python_json(value);
    if (value.is_structured()) return describe_value(value);
    return json_text(value);
}

std::string describe_value(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::null: return "null";
        case boost::json::kind::bool_: return "boolean " + quote_value(value);
        case boost::json::kind::int64:
        case boost::json::kind::uint64: return "integer " + quote_value(value);
        case boost::json::kind::double_: return "number " + quote_value(value);
        case boost::json::kind::string: return "string " + quote_value(value);
        case boost::json::kind::array: {
            const auto size = value.get_array().size();
            return "array of " + std::to_string(size) + (size == 1 ? " item" : " items");
        }
        case boost::json::kind::object: {
            const auto size = value.get_object().size();
            return "object with " + std::to_string(size) + (size == 1 ? " field" : " fields");
        }
    }
    return "value";
}

SchemaIssue wrong_type_issue(const ValuePath& path, std::string expected, const Json& found) {
    auto text = describe_value(found);
    auto message = "expected " + expected + ", found " + text;
    return SchemaIssue{path.to_string(), std::move(expected), std::move(text), std::move(message)};
}

SchemaIssue missing_issue(const ValuePath& path, std::string expected) {
    return SchemaIssue{path.to_string(), std::move(expected), "nothing", "field required"};
}

SchemaIssue unexpected_issue(const ValuePath& path, const Json& found) {
    return SchemaIssue{path.to_string(), "no such field", describe_value(found),
                       "unexpected field"};
}

SchemaIssue not_one_of_issue(const ValuePath& path, const std::string& choices, const Json& found) {
    auto text = describe_value(found);
    auto message = "must be one of " + choices + "; found " + text;
    return SchemaIssue{path.to_string(), "one of " + choices, std::move(text), std::move(message)};
}

SchemaIssue no_form_issue(const ValuePath& path, std::string expected,
                          const std::vector<std::vector<SchemaIssue>>& forms, const Json& found) {
    auto issue = wrong_type_issue(path, std::move(expected), found);
    issue.message = "fits none of the " + std::to_string(forms.size()) + " allowed forms";
    for (std::size_t i = 0; i < std::min(forms.size(), most_forms); ++i) {
        issue.message += i == 0 ? ": " : "; ";
        issue.message += "form " + std::to_string(i + 1) + ": ";
        const auto& problems = forms[i];
        for (std::size_t k = 0; k < std::min(problems.size(), most_issues_of_a_form); ++k) {
            if (k > 0) issue.message += ", ";
            issue.message += abbreviated(problems[k].path, 60) + " (" +
                             abbreviated(problems[k].message, 100) + ")";
        }
        if (problems.size() > most_issues_of_a_form) issue.message += ", ...";
    }
    return issue;
}

Json integer_from_number(const Json& value) {
    if (value.is_int64() || value.is_uint64()) return value;
    if (!value.is_double()) return nullptr;
    const double number = value.get_double();
    if (!std::isfinite(number) || number != std::trunc(number)) return nullptr;
    constexpr double two_to_63 = 9223372036854775808.0;
    if (number >= -two_to_63 && number < two_to_63) return static_cast<std::int64_t>(number);
    if (number >= two_to_63 && number < 2 * two_to_63) return static_cast<std::uint64_t>(number);
    return nullptr;
}

Json number_from_text(std::string_view text) {
    if (text.empty() || text.size() > 400) return nullptr;
    const char first = text.front();
    const char last = text.back();
    if (first != '-' && (first < '0' || first > '9')) return nullptr;
    if (last < '0' || last > '9') return nullptr;
    JsonTextError error;
    Json value = parse_json(text, error);
    return value.is_number() ? value : Json();
}

Json boolean_from_text(std::string_view text) {
    if (text == "true") return true;
    if (text == "false") return false;
    return nullptr;
}

}  // namespace cubepi::detail
