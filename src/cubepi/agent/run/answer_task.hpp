#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <cubepi/agent/run/prompt_settings.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/agent/tool_list.hpp>
#include <cubepi/provider/structured/answer_form.hpp>

namespace cubepi::detail {

/// A run's task to answer with a value of a certain form (D80). The value is the text of the last answer if the endpoint
/// enforces the form, else the arguments of a tool that is added to those of the run.
class AnswerTask {
public:
    /// Throws Error(invalid_argument) for an invalid schema or if a tool has the name of the form, Error(unsupported) if
    /// the endpoint of `model` cannot enforce the form and is required to.
    AnswerTask(const PromptSettings& settings, const BoundModel& model, const ToolList& tools,
               const std::optional<ReasoningControl>& reasoning);
    AnswerTask(const AnswerTask&) = delete;
    AnswerTask& operator=(const AnswerTask&) = delete;

    /// Chooses the way of the next call, which `model` answers, and returns its tools.
    const ToolList& begin_call(const BoundModel& model);
    /// Sets the response format, or the tool choice unless the prompt has set one.
    void complete(StreamOptions& options) const;

    enum class Verdict : std::uint8_t {
        accepted,
        retry,   ///< correction() is the message for the model
        failed,  ///< error() is the reason
    };
    /// Reads an answer that calls no tools.
    Verdict review(const AssistantMessage& answer);
    /// Accepts a valid value among the calls of an answer that were executed before the run was suspended. Their
    /// results are the messages from `first` on.
    void take_up(const AssistantMessage& answer, const MessageList& messages, std::size_t first);
    /// Judges the calls of an answer after they have been executed: `retry` also if none was the answer.
    Verdict review_calls(const AssistantMessage& answer);
    /// Returns the message about the last answer.
    Message correction() const;
    /// Returns true if the last answer had a valid value.
    bool accepted() const noexcept { return accepted_; }
    /// Requires another answer, because the run continues.
    void reopen() noexcept { accepted_ = false; }
    const std::shared_ptr<const Error>& error() const noexcept { return error_; }
    /// Returns the error of a run that ended without an answer.
    std::shared_ptr<const Error> missing() const;
    /// Reads the value of a run that had ended before (D42); without one the result becomes a failure.
    void read_earlier(RunResult& result);

private:
    AgentTool answer_tool();
    AgentToolResult take(JsonObject arguments);
    Verdict count_failure(const AssistantMessage& answer, std::vector<SchemaIssue> issues);

    AnswerForm form_;
    ToolList tools_;              ///< of the run
    ToolList tools_with_answer_;  ///< and the tool of the form
    bool reasons_;
    bool native_ = false;  ///< in the last call
    bool accepted_ = false;
    int attempts_ = 0;
    std::vector<SchemaIssue> issues_;
    std::shared_ptr<const Error> error_;
};

}  // namespace cubepi::detail
