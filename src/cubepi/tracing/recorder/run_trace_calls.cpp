// The model calls of a run.

#include <algorithm>
#include <utility>

#include <cubepi/tracing/recorder/chat_attributes.hpp>
#include <cubepi/tracing/recorder/constant_texts.hpp>
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
void RunTrace::note_first_request(const ProviderCall& call, const ModelTexts& texts) {
    const bool is_answer = call.purpose().empty();
    if (!is_answer || !root_) return;
    if (content_) content_->system_prompt = call.request.system_prompt;
    if (has_provider_) return;
    has_provider_ = true;
    Attributes& attributes = root_->attributes;
    attributes.set("gen_ai.provider.name", texts.provider);
    if (!call.request.system_prompt.empty()) {
        attributes.add("cubepi.agent.system_prompt.sha256",
                       SharedString(short_sha256(call.request.system_prompt)));
    }
    if (call.request.tools && !call.request.tools->empty()) {
        thread_local RecentLists recent;
        attributes.add("cubepi.agent.tools",
                       recent.list_of(*call.request.tools, &ToolDefinition::name));
    }
}

void RunTrace::start_chat(const ProviderCall& call, const RequestPayload& payload, Time now) {
    if (!records()) return;
    const ModelTexts& texts = texts_of(call.model());
    Chat chat{&call, open(texts.span_name, SpanId(), SpanKind::client, now)};
    // Before the lock: with content, it takes time in proportion to the whole history.
    Attributes& attributes = chat.span->attributes;
    add_request_attributes(attributes, call, texts, payload.built());
    attributes.add("cubepi.run_id", run_id_);
    if (settings_.content.enabled()) record_request(attributes, call, payload.json());
    const std::lock_guard lock(mutex_);
    if (!root_) return;
    note_first_request(call, texts);
    chat.span->parent = parent_of(call);
    chats_.push_back(std::move(chat));
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

RunTrace::Chats::iterator RunTrace::find_chat(const ProviderCall& call) noexcept {
    return std::find_if(chats_.begin(), chats_.end(),
                        [&call](const Chat& chat) { return chat.call == &call; });
}

void RunTrace::end_chat(const ProviderCall& call, const ProviderOutcome& outcome, Time now) {
    std::unique_lock lock(mutex_);
    const auto found = find_chat(call);
    if (found == chats_.end()) return;
    const bool has_answer = outcome.message && outcome.message.assistant();
    if (!has_answer && turn_ && call.purpose().empty()) {
        record_outcome(*found->span, call, outcome, now);
        found->call = nullptr;
        found->dropped = now;
        found->model = std::make_unique<const Model>(call.model());
        return;
    }
    OpenSpan span = std::move(found->span);
    chats_.erase(found);
    {
        const ContentPause paused = pause(lock);
        record_outcome(*span, call, outcome, now);
    }
    finish(span, now);
}

void RunTrace::record_outcome(SpanData& span, const ProviderCall& call,
                              const ProviderOutcome& outcome, Time now) const {
    Attributes& attributes = span.attributes;
    if (outcome.first_chunk) {
        const auto waited = *outcome.first_chunk - outcome.started;
        attributes.add("gen_ai.response.time_to_first_chunk",
                       std::chrono::duration<double>(waited).count());
    }
    const AssistantMessage* answer = outcome.message ? outcome.message.assistant() : nullptr;
    if (!answer || answer->stop_reason == stop_reason::aborted) {
        attributes.add("cubepi.aborted", true);
        attributes.add("error.type", "cubepi.aborted");
    }
    if (!answer) return;
    record_answer(span, call.model(), outcome.message, outcome.details);
    if (settings_.content.enabled()) {
        Json body = outcome.body();
        if (!body.is_null())
            settings_.content.add(attributes, "cubepi.llm.raw_response", std::move(body));
    }
    if (answer->stop_reason == stop_reason::error) record_failure(span, outcome, now);
}

void RunTrace::record_answer(SpanData& span, const Model& model, const Message& answer,
                             const ResponseDetails& details) const {
    Attributes& attributes = span.attributes;
    add_response_attributes(attributes, model, *answer.assistant(), details);
    if (!settings_.content.enabled()) return;
    JsonArray output;
    output.emplace_back(content_of(answer));
    settings_.content.add(attributes, "gen_ai.output.messages", std::move(output));
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

void RunTrace::record_failure(SpanData& span, const ProviderOutcome& outcome, Time now) const {
    const AssistantMessage& answer = *outcome.message.assistant();
    const ErrorInfo error = outcome.error ? *outcome.error : ErrorInfo();
    const std::string_view text =
        error.message.empty() ? std::string_view(answer.error_message.str()) : error.message;
    set_error(span, outcome.error ? error_type_of_call(error) : "cubepi.error",
              settings_.content.error_text(text, "provider error"));
    if (error.status_code)
        span.attributes.set("http.response.status_code",
                            static_cast<std::int64_t>(*error.status_code));
    SpanEvent event;
    event.name = SharedString("gen_ai.client.operation.exception");
    event.time = now;
    if (!error.type.empty()) event.attributes.add("exception.type", SharedString(error.type));
    const std::string message = settings_.content.error_text(text, "");
    if (!message.empty()) event.attributes.add("exception.message", SharedString(message));
    span.events.push_back(std::move(event));
}

}  // namespace cubepi::detail
