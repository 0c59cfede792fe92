#include <cubepi/agent/typed_answer.hpp>

#include <algorithm>
#include <cstddef>
#include <variant>

#include <cubepi/agent/run/prompt_settings.hpp>
#include <cubepi/provider/structured/answer_form.hpp>
#include <cubepi/schema/partial_json.hpp>

namespace cubepi::detail {

namespace {

ToolList with(ToolList tools, AgentTool tool) {
    tools.push_back(std::move(tool));
    return tools;
}

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
    void resume(const AssistantMessage& answer, const MessageList& messages,
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

FormAnswerTask::FormAnswerTask(const PromptSettings& settings, const BoundModel& model,
                               const ToolList& tools,
                               const std::optional<ReasoningControl>& reasoning)
    : form_(settings.answer_options.schema() ? *settings.answer_options.schema()
                                             : settings.answer->schema,
            settings.answer->read, settings.answer_options),
      tools_(tools),
      tools_with_answer_(with(tools, answer_tool())),
      reasons_(reasoning && reasoning->mode != ReasoningMode::off) {
    choose(model);
}

AgentTool FormAnswerTask::answer_tool() {
    const ToolDefinition definition = form_.tool();
    auto execute = [this](JsonObject arguments, ToolContext&) -> MaybeTask<AgentToolResult> {
        return take(std::move(arguments));
    };
    const std::string description =
        definition.description.str() +
        " Call this tool once, with the whole answer, when you have finished: it ends your work.";
    AgentTool tool(definition.name.str(), description, form_.schema(), std::move(execute));
    tool.risk_level = ToolRisk::read_only;
    tool.replay_policy = ReplayPolicy::idempotent;
    return tool;
}

/// The callback of the tool. The schema has accepted the arguments.
AgentToolResult FormAnswerTask::take(JsonObject arguments) {
    Json value(std::move(arguments));
    const std::vector<SchemaIssue> issues = form_.judge(value);
    if (!issues.empty()) {
        return AgentToolResult::error("The answer does not fit:" + issue_lines(issues) +
                                      "\nCall the tool again with all of it, corrected.");
    }
    accepted_ = true;
    AgentToolResult result("Accepted.");
    result.terminate = true;
    return result;
}

const ToolList& FormAnswerTask::begin_call(const BoundModel& model) { return choose(model); }

const ToolList& FormAnswerTask::choose(const BoundModel& model) {
    native_ = form_.is_native(model);
    accepted_ = false;
    return native_ ? tools_ : tools_with_answer_;
}

void FormAnswerTask::complete(StreamOptions& options) const {
    if (native_) {
        std::move(options).response_format(form_.format());
        return;
    }
    // A choice that forces a call excludes reasoning at some endpoints.
    if (options.tool_choice() || reasons_) return;
    ToolChoice choice;
    choice.mode = tools_.definitions() ? ToolChoice::Mode::required : ToolChoice::Mode::named;
    if (choice.mode == ToolChoice::Mode::named) choice.name = form_.name().str();
    std::move(options).tool_choice(std::move(choice));
}

FormAnswerTask::Verdict FormAnswerTask::review(const AssistantMessage& answer) {
    StructuredOutputError::Details details;
    details.message = answer;
    details.attempts = attempts_ + 1;
    if (std::optional<StructuredOutputError> failed = form_.failure_of(std::move(details))) {
        error_ = std::make_shared<const StructuredOutputError>(std::move(*failed));
        return Verdict::failed;
    }
    AnswerForm::Reading reading = form_.read(answer, native_);
    accepted_ = reading.value.has_value();
    if (accepted_) return Verdict::accepted;
    return count_failure(answer, std::move(reading.issues));
}

void FormAnswerTask::resume(const AssistantMessage& answer, const MessageList& messages,
                            std::size_t first) {
    for (std::size_t i = first; i < messages.size() && !accepted_; ++i) {
        const ToolResultMessage* result = messages[i].tool_result();
        if (!result || result->is_error || result->tool_name != form_.name()) continue;
        accepted_ = form_.read(answer, false).value.has_value();
    }
}

FormAnswerTask::Verdict FormAnswerTask::review_calls(const AssistantMessage& answer) {
    if (accepted_) return Verdict::accepted;
    const std::vector<const ToolCall*> calls = answer.tool_calls();
    const bool tried = std::any_of(calls.begin(), calls.end(), [this](const ToolCall* call) {
        return !native_ && call->name == form_.name();
    });
    if (!tried) return Verdict::retry;
    return count_failure(answer, form_.read(answer, native_).issues);
}

FormAnswerTask::Verdict FormAnswerTask::count_failure(const AssistantMessage& answer,
                                                      std::vector<SchemaIssue> issues) {
    issues_ = std::move(issues);
    if (++attempts_ <= form_.max_retries()) return Verdict::retry;
    StructuredOutputError::Details details;
    details.message = answer;
    details.issues = issues_;
    details.attempts = attempts_;
    error_ = std::make_shared<const StructuredOutputError>(form_.invalid(std::move(details)));
    return Verdict::failed;
}

Message FormAnswerTask::correction() const {
    return synthetic_user_message(form_.retry_text(issues_, native_), structured_retry_source);
}

std::shared_ptr<const Error> FormAnswerTask::missing() const {
    StructuredOutputError::Details details;
    details.attempts = attempts_;
    return std::make_shared<const StructuredOutputError>(
        ErrorCode::validation,
        "No structured output '" + form_.name().str() +
            "': the run ended before its answer: a tool or a hook ended it",
        std::move(details));
}

void FormAnswerTask::read_earlier(RunResult& result) {
    for (std::size_t i = result.new_messages.size(); i > 0 && !accepted_; --i) {
        const AssistantMessage* answer = result.new_messages[i - 1].assistant();
        if (!answer) continue;
        accepted_ = form_.read(*answer, false).value.has_value();
    }
    if (accepted_) return;
    result.outcome = RunOutcome::failed;
    result.failure = missing();
}

}  // namespace

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
