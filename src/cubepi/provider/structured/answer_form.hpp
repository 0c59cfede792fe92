#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/provider/structured.hpp>

namespace cubepi::detail {

/// Source of the synthetic messages that tell a model what is wrong with its answer.
inline constexpr std::string_view structured_retry_source = "structured_output_retry";

/// The required form of an answer: its schema, the two ways of requesting it, and the reading of a value. Used by
/// generate_structured() and by the typed answers of an agent.
class AnswerForm {
public:
    /// A value read from an answer, or the reasons why there is none.
    struct Reading {
        std::optional<Json> value = {};
        std::vector<SchemaIssue> issues = {};
        const ToolCall* call = nullptr;  ///< the call with the value; of the answer
    };

    /// Throws Error(invalid_argument) if the schema is invalid.
    AnswerForm(Json schema, StructuredReader read, StructuredOptions options);

    /// Returns true if the endpoint of `model` is to enforce the form itself, false if the model is to call the tool.
    /// Throws Error(unsupported) if the options require the former and the endpoint is not known to support it.
    bool is_native(const BoundModel& model) const;
    ResponseFormat format() const;
    ToolDefinition tool() const;
    const SharedString& name() const noexcept { return options_.name(); }
    const JsonSchema& schema() const noexcept { return schema_; }
    int max_retries() const noexcept { return options_.max_retries(); }

    /// Reads the answer. With a value, the caller's object has been assigned.
    Reading read(const AssistantMessage& answer, bool native) const;
    /// Validates a value and assigns the caller's object. Returns the errors.
    std::vector<SchemaIssue> judge(Json& value) const;
    /// Returns the text for the model about an answer that is not a call of the tool.
    std::string retry_text(const std::vector<SchemaIssue>& issues, bool native) const;
    /// Returns the unchanged text that was received instead of the value.
    std::string raw_text(const AssistantMessage& answer) const;

    /// Returns the error of an answer that a retry would not correct: a failed, refused or truncated one; empty if the
    /// answer can be read. `details` has the message, usage and attempts.
    std::optional<StructuredOutputError> failure_of(StructuredOutputError::Details details) const;
    /// Returns the error of an answer that is still invalid after the retries.
    StructuredOutputError invalid(StructuredOutputError::Details details) const;

private:
    StructuredOutputError error(StructuredFailure failure, ErrorCode code, const std::string& why,
                                StructuredOutputError::Details details) const;
    const ToolCall* wanted_call(const AssistantMessage& answer) const;

    StructuredOptions options_;
    StructuredReader read_;
    bool wrapped_;  ///< the value is not an object, and is the only property of one
    JsonSchema schema_;
    std::shared_ptr<const Json> strict_;  ///< null: cannot be expressed in the strict form
    std::shared_ptr<const Json> plain_;   ///< with strict_: the schema without references
};

/// Returns "\n- path: message" for each issue.
std::string issue_lines(const std::vector<SchemaIssue>& issues);

}  // namespace cubepi::detail
