// The model calls of a run.

#include <algorithm>
#include <utility>

#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/recorder/chat_attributes.hpp>
#include <cubepi/tracing/recorder/run_trace.hpp>

namespace cubepi::detail {

SpanId RunTrace::parent_of(const ProviderCall& call) const noexcept {
    const SharedString& tool_call_id = call.request.options.tool_call_id();
    if (!tool_call_id.empty()) {
        const auto tool = find_by_id(tools_, tool_call_id);
        if (tool != tools_.end()) return tool->span.context().span_id;
    }
    return turn_or_root();
}

/// The run's provider, prompt and tools are those of its first answer.
void RunTrace::note_first_request(const ProviderCall& call) {
    const ModelRequest& request = call.request;
    const bool is_answer = call.purpose().empty();
    if (!is_answer || !root_) return;
    if (content_) content_->system_prompt = request.system_prompt;
    if (has_provider_) return;
    has_provider_ = true;
    Attributes& attributes = root_->attributes;
    attributes.set("gen_ai.provider.name", provider_name(call.model().provider_id));
    if (!request.system_prompt.empty())
        attributes.add("cubepi.agent.system_prompt.sha256", prompt_digest(request.system_prompt));
    if (!request.tools || request.tools->empty()) return;
    std::vector<SharedString> tools;
    tools.reserve(request.tools->size());
    for (const ToolDefinition& tool : *request.tools) tools.push_back(tool.name);
    attributes.add("cubepi.agent.tools", std::move(tools));
}

void RunTrace::start_chat(const ProviderCall& call, const RequestPayload& payload, Time now) {
    if (!records()) return;
    OpenSpan span = open(shared_name("chat " + call.model().id), SpanId(), SpanKind::client, now);
    add_request_attributes(span->attributes, call, payload.built());
    span->attributes.add("cubepi.run_id", run_id_);
    // Before the lock: with content, it takes time in proportion to the whole history.
    if (settings_.content.enabled()) record_request(span->attributes, call, payload.json());
    const Lock locked = lock();
    if (!root_) return;
    note_first_request(call);
    span->parent = parent_of(call);
    chats_.push_back(Chat{&call, std::move(span), call.purpose().empty()});
}

void RunTrace::record_request(Attributes& attributes, const ProviderCall& call,
                              const JsonObject& payload) const {
    const ContentFilter& content = settings_.content;
    const ModelRequest& request = call.request;
    if (!request.system_prompt.empty())
        content.add(attributes, "gen_ai.system_instructions",
                    system_instructions(request.system_prompt));
    content.add(attributes, "gen_ai.input.messages", content_of(request.messages));
    if (request.tools && !request.tools->empty())
        content.add(attributes, "gen_ai.tool.definitions", tool_definitions(*request.tools));
    if (!payload.empty()) content.add(attributes, "cubepi.llm.raw_request", payload);
}

void RunTrace::end_chat(const ProviderCall& call, const ProviderOutcome& outcome, Time now) {
    Lock locked = lock();
    if (!locked) return;
    const auto found = std::find_if(chats_.begin(), chats_.end(),
                                    [&call](const Chat& one) { return one.call == &call; });
    if (found == chats_.end()) return;
    if (!outcome.message && turn_ && found->is_answer) {
        record_outcome(*found->span, call, outcome, now);
        found->call = nullptr;
        found->dropped = now;
        found->model = call.model();
        return;
    }
    OpenSpan span = std::move(found->span);
    chats_.erase(found);
    {
        const ContentPause paused = pause(locked);
        record_outcome(*span, call, outcome, now);
    }
    finish(span, now);
}

void RunTrace::record_outcome(SpanData& span, const ProviderCall& call,
                              const ProviderOutcome& outcome, Time now) const {
    const AssistantMessage* answer = outcome.message ? outcome.message.assistant() : nullptr;
    Attributes& attributes = span.attributes;
    if (outcome.first_chunk) {
        const std::chrono::duration<double> delay = *outcome.first_chunk - outcome.started;
        attributes.add("gen_ai.response.time_to_first_chunk", delay.count());
    }
    if (!answer || answer->stop_reason == stop_reason::aborted) {
        attributes.add("cubepi.aborted", true);
        attributes.add("error.type", "cubepi.aborted");
    }
    if (!answer) return;
    add_response_attributes(attributes, *answer, outcome.details, cost_of(*answer, call.model()));
    if (content_) {
        record_output(span, outcome.message);
        Json body = outcome.body();
        if (!body.is_null())
            settings_.content.add(attributes, "cubepi.llm.raw_response", std::move(body));
    }
    if (answer->stop_reason != stop_reason::error) return;
    const ErrorInfo* error = outcome.error ? &*outcome.error : nullptr;
    const bool has_text = error && !error->message.empty();
    record_failure(
        span, error,
        has_text ? std::string_view(error->message) : std::string_view(answer->error_message), now);
}

void RunTrace::record_output(SpanData& span, const Message& answer) const {
    JsonArray output;
    output.emplace_back(content_of(answer));
    settings_.content.add(span.attributes, "gen_ai.output.messages", std::move(output));
}

std::vector<RunTrace::Chat> RunTrace::take_dropped_chats() {
    std::vector<Chat> dropped;
    for (Chat& chat : chats_) {
        if (chat.dropped) dropped.push_back(std::move(chat));
    }
    if (!dropped.empty()) {
        const auto end = std::remove_if(chats_.begin(), chats_.end(),
                                        [](const Chat& chat) { return chat.dropped.has_value(); });
        chats_.erase(end, chats_.end());
    }
    return dropped;
}

/// `error`: null if it has no typed form.
void RunTrace::record_failure(SpanData& span, const ErrorInfo* error, std::string_view text,
                              Time now) const {
    set_error(span, error ? error_type_of_call(*error) : "cubepi.error",
              settings_.content.error_text(text, "provider error"));
    if (error && error->status_code)
        span.attributes.set("http.response.status_code",
                            static_cast<std::int64_t>(*error->status_code));
    SpanEvent event;
    event.name = SharedString("gen_ai.client.operation.exception");
    event.time = now;
    if (error && !error->type.empty())
        event.attributes.add("exception.type", SharedString(error->type));
    const std::string message = settings_.content.error_text(text, "");
    if (!message.empty()) event.attributes.add("exception.message", SharedString(message));
    span.events.push_back(std::move(event));
}

}  // namespace cubepi::detail
