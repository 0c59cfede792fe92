#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <cubepi/agent/run/answer_task.hpp>
#include <cubepi/agent/run/prompt_settings.hpp>
#include <cubepi/provider/structured/answer_form.hpp>

namespace cubepi::detail {

/// The value is the text of the last answer if the endpoint enforces the form, else the arguments of a tool that is added to
/// those of the run.
class FormAnswerTask final : public AnswerTask {
public:
    /// Throws like MakeAnswerTask.
    FormAnswerTask(const PromptSettings& settings, const BoundModel& model, const ToolList& tools,
                   const std::optional<ReasoningControl>& reasoning);

    const ToolList& begin_call(const BoundModel& model) override;
    void complete(StreamOptions& options) const override;
    Verdict review(const AssistantMessage& answer) override;
    void take_up(const AssistantMessage& answer, const MessageList& messages,
                 std::size_t first) override;
    Verdict review_calls(const AssistantMessage& answer) override;
    Message correction() const override;
    std::shared_ptr<const Error> missing() const override;
    void read_earlier(RunResult& result) override;

private:
    const ToolList& choose(const BoundModel& model);
    AgentTool answer_tool();
    AgentToolResult take(JsonObject arguments);
    Verdict count_failure(const AssistantMessage& answer, std::vector<SchemaIssue> issues);

    AnswerForm form_;
    ToolList tools_;              ///< of the run
    ToolList tools_with_answer_;  ///< and the tool of the form
    bool reasons_;
    bool native_ = false;  ///< in the last call
    int attempts_ = 0;
    std::vector<SchemaIssue> issues_;
};

}  // namespace cubepi::detail
