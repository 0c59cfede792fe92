#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <cubepi/agent/prompt_options.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/agent/typed_answer.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/provider/provider.hpp>
#include <cubepi/provider/structured.hpp>

namespace cubepi::detail {

/// A run's task to answer with a value of a certain form (D80), as the loop sees it. The implementation, FormAnswerTask, is
/// linked only into programs that request such answers.
class AnswerTask {
public:
    virtual ~AnswerTask() = default;

    /// Chooses the way of the next call, which `model` answers, and returns its tools.
    virtual const ToolList& begin_call(const BoundModel& model) = 0;
    /// Sets the response format, or the tool choice unless the prompt has set one.
    virtual void complete(StreamOptions& options) const = 0;

    enum class Verdict : std::uint8_t {
        accepted,
        retry,   ///< correction() is the message for the model
        failed,  ///< error() is the reason
    };
    /// Reads an answer that calls no tools.
    virtual Verdict review(const AssistantMessage& answer) = 0;
    /// Accepts a valid value among the calls of an answer that were executed before the run was suspended. Their
    /// results are the messages from `first` on.
    virtual void resume(const AssistantMessage& answer, const MessageList& messages,
                        std::size_t first) = 0;
    /// Judges the calls of an answer after they have been executed: `retry` also if none was the answer.
    virtual Verdict review_calls(const AssistantMessage& answer) = 0;
    /// Returns the message about the last answer.
    virtual Message correction() const = 0;
    /// Returns the error of a run that ended without an answer.
    virtual std::shared_ptr<const Error> missing() const = 0;
    /// Reads the value of a run that had ended before (D42); without one the result becomes a failure.
    virtual void read_earlier(RunResult& result) = 0;

    /// Returns true if the last answer had a valid value.
    bool accepted() const noexcept { return accepted_; }
    /// Requires another answer, because the run continues.
    void reopen() noexcept { accepted_ = false; }
    const std::shared_ptr<const Error>& error() const noexcept { return error_; }

protected:
    AnswerTask() = default;
    AnswerTask(const AnswerTask&) = delete;
    AnswerTask& operator=(const AnswerTask&) = delete;

    bool accepted_ = false;
    std::shared_ptr<const Error> error_;
};

struct PromptSettings;

/// Creates the task of a run with the settings. Throws Error(invalid_argument) for an invalid schema or if a tool has the
/// name of the form, Error(unsupported) if the endpoint of `model` cannot enforce the form and is required to.
using MakeAnswerTask = std::unique_ptr<AnswerTask> (*)(
    const PromptSettings& settings, const BoundModel& model, const ToolList& tools,
    const std::optional<ReasoningControl>& reasoning);

/// The settings of a prompt that replace those of the agent.
struct PromptSettings {
    BoundModel model = {};
    std::optional<double> temperature = {};
    std::optional<ReasoningControl> reasoning = {};
    std::optional<std::string> system_prompt = {};
    std::optional<ToolList> tools = {};
    std::optional<ToolChoice> tool_choice = {};
    std::optional<std::chrono::milliseconds> max_duration = {};
    std::optional<std::chrono::steady_clock::time_point> deadline = {};
    std::stop_token stop_token = {};
    StructuredOptions answer_options = {};
    std::shared_ptr<const AnswerRequest> answer = {};  ///< null: any text
    MakeAnswerTask make_answer_task = nullptr;         ///< with `answer`
};

}  // namespace cubepi::detail
