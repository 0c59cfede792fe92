#include <cubepi/agent/typed_answer.hpp>

#include <variant>

#include <cubepi/agent/run/form_answer_task.hpp>
#include <cubepi/schema/partial_json.hpp>

namespace cubepi::detail {

bool AnswerText::extend(const AgentEvent& event) {
    if (event.get_if<MessageStartEvent>()) {
        text_.clear();
        block_ = -1;
        return false;
    }
    const StreamEvent* stream = event.stream_event();
    if (!stream) return false;
    if (stream->type == StreamEventType::toolcall_start) {
        const AssistantMessage so_far = stream->partial.get();
        const auto index = static_cast<std::size_t>(stream->content_index);
        const auto* call = std::get_if<ToolCall>(&so_far.content[index]);
        if (!call || call->name != name_) return false;
        text_.clear();
        block_ = stream->content_index;
        return false;
    }
    if (stream->type == StreamEventType::text_start && block_ < 0) block_ = stream->content_index;
    const bool is_delta = stream->type == StreamEventType::text_delta ||
                          stream->type == StreamEventType::toolcall_delta;
    if (!is_delta || stream->content_index != block_) return false;
    text_ += stream->delta;
    return !stream->delta.empty();
}

std::optional<Json> AnswerText::parse(bool wrapped) const {
    ParsedArguments parsed = parse_arguments(text_);
    if (parsed.state == ArgumentsState::invalid || parsed.value.empty()) return std::nullopt;
    if (!wrapped) return Json(std::move(parsed.value));
    Json* value = parsed.value.if_contains("value");
    if (!value) return std::nullopt;
    return std::move(*value);
}

void PromptAccess::request_answer(PromptOptions& options, AnswerRequest request) {
    PromptSettings& settings = options.settings();
    settings.answer = std::make_shared<const AnswerRequest>(std::move(request));
    settings.make_answer_task =
        [](const PromptSettings& of_prompt, const BoundModel& model, const ToolList& tools,
           const std::optional<ReasoningControl>& reasoning) -> std::unique_ptr<AnswerTask> {
        return std::make_unique<FormAnswerTask>(of_prompt, model, tools, reasoning);
    };
}

}  // namespace cubepi::detail
