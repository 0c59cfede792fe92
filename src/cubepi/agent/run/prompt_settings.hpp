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
};

}  // namespace cubepi::detail
