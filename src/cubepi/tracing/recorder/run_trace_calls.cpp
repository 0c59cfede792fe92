// The model calls of a run.

#include <algorithm>
#include <utility>

#include <cubepi/tracing/recorder/chat_attributes.hpp>
#include <cubepi/tracing/recorder/constant_texts.hpp>
#include <cubepi/tracing/recorder/run_trace.hpp>

namespace cubepi::detail {

SpanId RunTrace::parent_of(const ChatStart& chat) const noexcept {
    if (!chat.tool_call_id.empty()) {
        const auto tool = find_by_id(tools_, chat.tool_call_id);
        if (tool != tools_.end()) return tool->span.context().span_id;
    }
    return turn_or_root();
}

/// The run's provider, prompt and tools are those of its first answer.
void RunTrace::note_first_request(const ChatStart& chat) {
    const bool is_answer = chat.purpose.empty();
    if (!is_answer || !root_) return;
    if (content_) content_->system_prompt = chat.system_prompt;
    if (has_provider_) return;
    has_provider_ = true;
    Attributes& attributes = root_->attributes;
    attributes.set("gen_ai.provider.name", chat.texts->provider);
    if (!chat.system_prompt.empty()) {
        attributes.add("cubepi.agent.system_prompt.sha256",
                       SharedString(short_sha256(chat.system_prompt)));
    }
    if (chat.tools && !chat.tools->empty()) {
        thread_local RecentLists recent;
        attributes.add("cubepi.agent.tools", recent.list_of(*chat.tools, &ToolDefinition::name));
    }
}

OpenSpan RunTrace::open_chat(const ChatStart& chat, Time now) const {
    OpenSpan span = open(chat.texts->span_name, SpanId(), SpanKind::client, now);
    add_request_attributes(span->attributes, chat);
    span->attributes.add("cubepi.run_id", run_id_);
    return span;
}

void RunTrace::add_chat(const ChatStart& chat, OpenSpan span) {
    const std::lock_guard lock(mutex_);
    if (!root_) return;
    note_first_request(chat);
    span->parent = parent_of(chat);
    chats_.push_back(Chat{chat.call, std::move(span), chat.purpose.empty()});
}

void RunTrace::start_chat(const ChatStart& chat, Time now) {
    if (records()) add_chat(chat, open_chat(chat, now));
}

void RunTrace::start_chat(const ProviderCall& call, const RequestPayload& payload, Time now) {
    if (!records()) return;
    const ChatStart chat = start_of(call, payload);
    OpenSpan span = open_chat(chat, now);
    // Before the lock: with content, it takes time in proportion to the whole history.
    if (settings_.content.enabled()) record_request(span->attributes, call, payload.json());
    add_chat(chat, std::move(span));
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
    ChatEnd chat = end_of(call, outcome);
    end_chat(chat, settings_.content.enabled() ? &outcome : nullptr, now);
}

void RunTrace::end_chat(ChatEnd& chat, Time now) { end_chat(chat, nullptr, now); }

void RunTrace::end_chat(ChatEnd& chat, const ProviderOutcome* outcome, Time now) {
    std::unique_lock lock(mutex_);
    const auto found = std::find_if(chats_.begin(), chats_.end(),
                                    [&chat](const Chat& one) { return one.call == chat.call; });
    if (found == chats_.end()) return;
    if (!chat.has_answer && turn_ && found->is_answer) {
        record_outcome(*found->span, chat, nullptr, now);
        found->call = nullptr;
        found->dropped = now;
        found->model = std::move(chat.rare->model);
        return;
    }
    OpenSpan span = std::move(found->span);
    chats_.erase(found);
    {
        const ContentPause paused = pause(lock);
        record_outcome(*span, chat, outcome, now);
    }
    finish(span, now);
}

void RunTrace::record_outcome(SpanData& span, const ChatEnd& chat, const ProviderOutcome* outcome,
                              Time now) const {
    Attributes& attributes = span.attributes;
    if (chat.first_chunk >= 0)
        attributes.add("gen_ai.response.time_to_first_chunk", chat.first_chunk);
    if (!chat.has_answer || chat.answer.stop_reason == stop_reason::aborted) {
        attributes.add("cubepi.aborted", true);
        attributes.add("error.type", "cubepi.aborted");
    }
    if (!chat.has_answer) return;
    add_response_attributes(attributes, chat.answer,
                            chat.rare ? chat.rare->details : ResponseDetails(), chat.cost);
    if (outcome) {
        record_output(span, outcome->message);
        Json body = outcome->body();
        if (!body.is_null())
            settings_.content.add(attributes, "cubepi.llm.raw_response", std::move(body));
    }
    if (chat.answer.stop_reason != stop_reason::error) return;
    const ErrorInfo* error = chat.rare && chat.rare->error ? &*chat.rare->error : nullptr;
    std::string_view text;
    if (outcome) {
        text = outcome->message.assistant()->error_message;
        if (error && !error->message.empty()) text = error->message;
    }
    record_failure(span, error, text, now);
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

/// `error`: null if it has no typed form. `text`: empty if content is not recorded.
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
