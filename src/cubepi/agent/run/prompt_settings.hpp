#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <cubepi/agent/prompt_options.hpp>
#include <cubepi/agent/typed_answer.hpp>
#include <cubepi/provider/structured.hpp>

namespace cubepi::detail {

class AnswerTask;
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
