#include <cubepi/agent/run/model_request.hpp>

#include <utility>

#include <cubepi/agent/run/answer_task.hpp>
#include <cubepi/agent/run/prompt_settings.hpp>
#include <cubepi/agent/transcript.hpp>

namespace cubepi::detail {

namespace {

// The provider reports a failed hook of the user as an error event, without the exception: `failure` stores it.

Task<std::optional<JsonObject>> ask_payload_hook(std::shared_ptr<std::exception_ptr> failure,
                                                 PayloadHook hook, JsonObject payload, Model model,
                                                 HttpHeaders headers) {
    *failure = nullptr;
    try {
        Task<std::optional<JsonObject>> call =
            hook(std::move(payload), std::move(model), std::move(headers));
        co_return co_await std::move(call);
    } catch (...) {
        *failure = std::current_exception();
        throw;
    }
}

Task<void> ask_response_hook(std::shared_ptr<std::exception_ptr> failure, ResponseHook hook,
                             ProviderResponse response, Model model) {
    *failure = nullptr;
    try {
        Task<void> call = hook(std::move(response), std::move(model));
        co_await std::move(call);
    } catch (...) {
        *failure = std::current_exception();
        throw;
    }
}

}  // namespace

RequestBuilder::RequestBuilder(RunCore& core, BoundModel model, ToolList tools,
                               std::string message_id)
    : core_(core),
      model_(std::move(model)),
      tools_(std::move(tools)),
      message_id_(std::move(message_id)) {
    const RunParts& parts = core_.parts();
    if (parts.on_payload || parts.on_response)
        hook_failure_ = std::make_shared<std::exception_ptr>();
}

bool RequestBuilder::is_plain() const {
    const HookSet& hooks = *core_.parts().hooks;
    return !hooks.transform_context && !hooks.convert_to_llm && !hooks.transform_system_prompt &&
           !hooks.around_model_call && core_.parts().log->is_legal();
}

ModelRequest RequestBuilder::build() const {
    return request(core_.state().messages, core_.parts().system_prompt);
}

Task<ModelRequest> RequestBuilder::build_with_hooks() {
    const RunParts& parts = core_.parts();
    MessageList messages = core_.state().messages;
    const bool transforms = parts.hooks->transform_context || parts.hooks->convert_to_llm;
    if (transforms) messages = co_await transformed_messages();
    if (transforms || !parts.log->is_legal()) messages = co_await repaired(std::move(messages));
    SharedString system_prompt = parts.system_prompt;
    if (parts.hooks->transform_system_prompt) {
        HookContext context = core_.hook_context();
        auto hook = parts.hooks->transform_system_prompt(system_prompt.str(), context);
        system_prompt = co_await core_.call_run_hook("transform_system_prompt", std::move(hook));
    }
    ModelRequest made = request(std::move(messages), std::move(system_prompt));
    co_return made;
}

Task<MessageList> RequestBuilder::transformed_messages() {
    const HookSet& hooks = *core_.parts().hooks;
    MessageList messages = core_.state().messages;
    HookContext context = core_.hook_context();
    if (hooks.transform_context) {
        auto hook = hooks.transform_context(std::move(messages), context);
        messages = co_await core_.call_run_hook("transform_context", std::move(hook));
    }
    if (hooks.convert_to_llm) {
        auto hook = hooks.convert_to_llm(std::move(messages), context);
        messages = co_await core_.call_run_hook("convert_to_llm", std::move(hook));
    }
    co_return messages;
}

/// Returns the messages as a legal history (D1), and reports a new repair.
Task<MessageList> RequestBuilder::repaired(MessageList messages) {
    RepairedTranscript repaired = repair_request(messages);
    if (!repaired.changed()) co_return messages;
    const TranscriptRepairs& repairs = repaired.repairs;
    if (core_.parts().log->is_new_repair(repairs)) {
        Notice notice;
        notice.code = "repair";
        notice.text =
            "Tool calls and results of the history do not match. In the request, results were "
            "moved directly after their calls, missing results were added as errors, and results "
            "without a call were left out. The stored history is unchanged.";
        notice.details["added_results"] = repairs.added_results;
        notice.details["moved_results"] = repairs.moved_results;
        notice.details["left_out"] = repairs.left_out;
        co_await core_.notice(std::move(notice));
    }
    co_return std::move(repaired.messages);
}

ModelRequest RequestBuilder::request(MessageList messages, SharedString system_prompt) const {
    const RunParts& parts = core_.parts();
    ModelRequest made;
    made.model = model_.spec();
    made.messages = std::move(messages);
    made.system_prompt = std::move(system_prompt);
    made.tools = tools_.definitions();
    StreamOptions& options = made.options;
    std::move(options)
        .stop_token(core_.stop_token())
        .on_payload(payload_hook())
        .on_response(response_hook())
        .message_id(message_id_)
        .max_answer_bytes(parts.limits.max_answer_bytes)
        .run_id(core_.run_id())
        .runtime(parts.runtime);
    // A setter returns the object on which it was called. NOLINTNEXTLINE(bugprone-use-after-move)
    if (parts.reasoning) std::move(options).reasoning(*parts.reasoning);
    if (parts.prompt) add_prompt_settings(options);
    return made;
}

/// Adds the tool choice of the prompt and the form of its answer.
void RequestBuilder::add_prompt_settings(StreamOptions& options) const {
    const std::optional<ToolChoice>& choice = core_.parts().prompt->tool_choice;
    // Only at the first call: a run whose every answer calls a tool would not end.
    const bool applies = choice && (core_.turn() == 1 || choice->mode == ToolChoice::Mode::none);
    if (applies) std::move(options).tool_choice(*choice);
    if (core_.answer_task()) core_.answer_task()->complete(options);
}

std::optional<Notice> RequestBuilder::prefix_break(const ModelRequest& request) const {
    PrefixGuard* const guard = core_.parts().prefix_guard;
    return guard ? guard->check(request) : std::nullopt;
}

PayloadHook RequestBuilder::payload_hook() const {
    const PayloadHook& hook = core_.parts().on_payload;
    if (!hook) return {};
    return [failure = hook_failure_, hook](JsonObject payload, Model model, HttpHeaders headers) {
        return ask_payload_hook(failure, hook, std::move(payload), std::move(model),
                                std::move(headers));
    };
}

ResponseHook RequestBuilder::response_hook() const {
    const ResponseHook& hook = core_.parts().on_response;
    if (!hook) return {};
    return [failure = hook_failure_, hook](ProviderResponse response, Model model) {
        return ask_response_hook(failure, hook, std::move(response), std::move(model));
    };
}

}  // namespace cubepi::detail
