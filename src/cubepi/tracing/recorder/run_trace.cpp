#include <cubepi/tracing/recorder/run_trace.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/tracing/recorder/chat_attributes.hpp>
#include <cubepi/tracing/recorder/question_facts.hpp>

namespace cubepi::detail {

namespace {

template <class List, class Id>
auto find_by_id(List& list, const Id& id) {
    return std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.id == id; });
}

double seconds_between(RunTrace::Time from, RunTrace::Time to) {
    return std::chrono::duration<double>(to - from).count();
}

}  // namespace

RunTrace::RunTrace(std::shared_ptr<const Settings> settings, SpanReceiver& receiver,
                   std::shared_ptr<const RunInfo> info, TraceParent parent, Time start)
    : shared_settings_(std::move(settings)),
      settings_(*shared_settings_),
      receiver_(receiver),
      info_(std::move(info)),
      run_id_(info_->run_id),
      hold_(std::move(parent.hold)) {
    context_.trace_id = parent.trace_id;
    context_.sampled = parent.sampled;
    root_ = open(shared_name("invoke_agent"), parent.span_id, SpanKind::internal, start);
    context_ = root_.context();
    Attributes& attributes = root_->attributes;
    attributes.reserve(16);
    attributes.add("gen_ai.operation.name", shared_name("invoke_agent"));
    attributes.add("gen_ai.provider.name", shared_name("cubepi"));
    attributes.add("cubepi.run_id", run_id_);
    if (!info_->attempt_id.empty())
        attributes.add("cubepi.attempt_id", SharedString(info_->attempt_id));
    if (!info_->thread_id.empty()) {
        const SharedString thread_id(info_->thread_id);
        attributes.add("cubepi.thread_id", thread_id);
        attributes.add("gen_ai.conversation.id", thread_id);
    }
    if (!settings_.agent_name.empty()) attributes.add("gen_ai.agent.name", settings_.agent_name);
    if (!info_->origin.parent_run_id.empty())
        attributes.add("cubepi.parent_run_id", SharedString(info_->origin.parent_run_id));
    if (parent.remote) attributes.add("cubepi.remote_parent", true);
}

RunTrace::~RunTrace() {
    if (root_) abandon(root_->start);
}

SpanContext RunTrace::context() const {
    const std::lock_guard lock(mutex_);
    return context_;
}

SpanContext RunTrace::context_of_call(std::string_view tool_call_id) const {
    const std::lock_guard lock(mutex_);
    SpanContext context = context_;
    const auto tool = find_by_id(tools_, tool_call_id);
    context.span_id = tool == tools_.end() ? turn_or_root() : tool->span.context().span_id;
    return context;
}

void RunTrace::link_to(const SpanContext& earlier) {
    const std::lock_guard lock(mutex_);
    SpanLink link;
    link.context = earlier;
    link.attributes.add("cubepi.link.kind", SharedString("continues"));
    root_->links.push_back(std::move(link));
}

void RunTrace::set_attribute(AttributeKey key, AttributeValue value) {
    const std::lock_guard lock(mutex_);
    root_->attributes.set(std::move(key), std::move(value));
}

SpanContext RunTrace::new_context() const {
    SpanContext context = context_;
    context.span_id = SpanId::random();
    return context;
}

OpenSpan RunTrace::open(SharedString name, SpanId parent, SpanKind kind, Time start) const {
    return OpenSpan(std::move(name), new_context(), parent, kind, start);
}

SpanId RunTrace::turn_or_root() const noexcept {
    return turn_ ? turn_.context().span_id : context_.span_id;
}

/// Passes a span on, or holds it until the outcome of a run that is not sampled is known.
void RunTrace::finish(OpenSpan& span, Time now) {
    std::shared_ptr<const SpanData> ended = span.end(now);
    if (context_.sampled || exported_) {
        receiver_.receive(std::move(ended));
    } else if (settings_.keep_failed) {
        held_.add(std::move(ended));
    }
}

// Turns and messages.

void RunTrace::start_turn(std::uint32_t turn, Time now) {
    const std::lock_guard lock(mutex_);
    if (!records()) return;
    if (turn_) finish(turn_, now);
    turn_ = open(shared_name("cubepi.turn"), context_.span_id, SpanKind::internal, now);
    turn_->attributes.reserve(6);
    turn_->attributes.add("cubepi.turn.index", static_cast<std::int64_t>(turn) - 1);
    turn_->attributes.add("cubepi.run_id", run_id_);
    ended_tools_ = terminating_tools_ = 0;
}

void RunTrace::start_message(const Message& message) {
    if (message.role() == Role::assistant) return;
    const std::lock_guard lock(mutex_);
    if (!records()) return;
    ++input_messages_;
    if (!settings_.content.enabled()) return;
    JsonObject content = content_of(message);
    if (turn_) turn_input_.push_back(content);
    run_input_.push_back(std::move(content));
}

void RunTrace::end_turn(const TurnEndEvent& event, Time now) {
    const std::lock_guard lock(mutex_);
    if (!turn_) return;
    end_dropped_chats(event.message);
    Attributes& attributes = turn_->attributes;
    const AssistantMessage* answer = event.message ? event.message.assistant() : nullptr;
    if (answer) {
        attributes.add("cubepi.turn.stop_reason", answer->stop_reason);
        attributes.add("cubepi.turn.tool_calls.count",
                       static_cast<std::int64_t>(answer->tool_calls().size()));
        if (answer->stop_reason == stop_reason::aborted) attributes.add("cubepi.aborted", true);
        note_failure(*answer);
        if (!answer_error_type_.empty()) turn_.set_error("cubepi.error", answer_error_);
    }
    if (ended_tools_ != 0 && terminating_tools_ == ended_tools_)
        attributes.add("cubepi.turn.terminated_by_tool", true);
    if (settings_.content.enabled()) record_turn_content(event);
    finish(turn_, now);
}

/// Remembers the failure of an answer, which may become that of the run.
void RunTrace::note_failure(const AssistantMessage& answer) {
    answer_error_type_.clear();
    if (answer.stop_reason != stop_reason::error) return;
    answer_error_type_ = answer.error ? error_type_of_call(*answer.error) : "cubepi.error";
    answer_error_ = settings_.content.error_text(answer.error_message.str(), "model error");
}

void RunTrace::record_turn_content(const TurnEndEvent& event) {
    JsonArray output;
    if (event.message) output.emplace_back(content_of(event.message));
    for (const Message& result : event.tool_results) output.emplace_back(content_of(result));
    run_output_.insert(run_output_.end(), output.begin(), output.end());
    const ContentFilter& content = settings_.content;
    if (!turn_input_.empty())
        content.add(turn_->attributes, "gen_ai.input.messages", std::exchange(turn_input_, {}));
    content.add(turn_->attributes, "gen_ai.output.messages", std::move(output));
}

// Tools.

void RunTrace::start_tool(const ToolExecutionStartEvent& event, const ToolFacts& facts, Time now) {
    const std::lock_guard lock(mutex_);
    if (!records()) return;
    Tool tool{event.tool_call_id, open(shared_name("execute_tool " + event.tool_name.str()),
                                       turn_or_root(), SpanKind::internal, now)};
    Attributes& attributes = tool.span->attributes;
    attributes.reserve(10);
    attributes.add("gen_ai.operation.name", shared_name("execute_tool"));
    attributes.add("gen_ai.tool.name", event.tool_name);
    attributes.add("gen_ai.tool.call.id", event.tool_call_id);
    attributes.add("gen_ai.tool.type", shared_name("function"));
    attributes.add("cubepi.run_id", run_id_);
    if (!facts.description.empty()) attributes.add("gen_ai.tool.description", facts.description);
    if (!facts.execution_mode.empty())
        attributes.add("cubepi.tool.execution_mode", shared_name(facts.execution_mode));
    if (settings_.content.enabled())
        settings_.content.add(attributes, "gen_ai.tool.call.arguments", event.args);
    tools_.push_back(std::move(tool));
}

void RunTrace::end_tool(const ToolExecutionEndEvent& event, Time now) {
    const std::lock_guard lock(mutex_);
    const auto tool = find_by_id(tools_, event.tool_call_id);
    if (tool == tools_.end()) return;
    ++ended_tools_;
    if (event.terminate) ++terminating_tools_;
    Attributes& attributes = tool->span->attributes;
    attributes.add("cubepi.tool.is_error", event.is_error);
    if (event.terminate) attributes.add("cubepi.tool.terminate", true);
    if (event.blocked_by_hook) {
        attributes.add("cubepi.tool.blocked_by_hook", true);
        if (!event.block_reason.empty() && settings_.content.enabled())
            settings_.content.add(attributes, "cubepi.tool.block_reason", Json(event.block_reason));
    }
    if (event.is_error) {
        tool->span.set_error(
            event.blocked_by_hook ? "cubepi.tool.blocked_by_hook" : "cubepi.tool.error",
            "tool error");
    }
    if (settings_.content.enabled())
        settings_.content.add(attributes, "gen_ai.tool.call.result", to_json(event.result));
    finish(tool->span, now);
    tools_.erase(tool);
}

// Questions to the user.

void RunTrace::start_question(const HitlRequest& request, Time now) {
    const std::lock_guard lock(mutex_);
    if (!records()) return;
    const std::string_view kind = question_kind(request);
    Question question{
        request.question_id, kind, now,
        open(SharedString("hitl." + std::string(kind)), turn_or_root(), SpanKind::internal, now)};
    Attributes& attributes = question.span->attributes;
    attributes.add("hitl.question_id", SharedString(request.question_id));
    attributes.add("hitl.run_id", run_id_);
    if (request.timeout_seconds) attributes.add("hitl.timeout_seconds", *request.timeout_seconds);
    if (const auto* approve = std::get_if<ApproveRequest>(&request.payload)) {
        attributes.add("hitl.tool_call_id", SharedString(approve->tool_call_id));
        attributes.add("hitl.tool_name", SharedString(approve->tool_name));
    }
    if (settings_.content.enabled())
        settings_.content.add(attributes, "hitl.request", to_json(request));
    questions_.push_back(std::move(question));
}

void RunTrace::end_question(std::string_view question_id, std::string_view outcome, Time now) {
    const std::lock_guard lock(mutex_);
    const auto question = find_by_id(questions_, question_id);
    if (question == questions_.end()) return;
    finish_question(*question, outcome, now);
    questions_.erase(question);
}

void RunTrace::end_answered_question(const HitlAnswerEvent& event, Time now) {
    const std::lock_guard lock(mutex_);
    const auto question = find_by_id(questions_, event.question_id);
    if (question == questions_.end()) return;
    if (settings_.content.enabled())
        settings_.content.add(question->span->attributes, "hitl.answer", event.answer);
    finish_question(*question, answer_outcome(question->kind, event), now);
    questions_.erase(question);
}

void RunTrace::finish_question(Question& question, std::string_view outcome, Time now) {
    Attributes& attributes = question.span->attributes;
    attributes.add("hitl.outcome", shared_name(outcome));
    if (outcome == "detached") attributes.add("hitl.detached", true);
    attributes.add("hitl.duration_seconds", seconds_between(question.start, now));
    finish(question.span, now);
}

// Model calls.

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
    const bool is_answer = call.purpose().empty();
    if (!is_answer || !root_) return;
    if (settings_.content.enabled()) system_prompt_ = call.request.system_prompt;
    if (has_provider_) return;
    has_provider_ = true;
    Attributes& attributes = root_->attributes;
    attributes.set("gen_ai.provider.name", provider_name(call.model().provider_id));
    if (!call.request.system_prompt.empty()) {
        attributes.add("cubepi.agent.system_prompt.sha256",
                       SharedString(short_sha256(call.request.system_prompt)));
    }
    if (call.request.tools && !call.request.tools->empty()) {
        std::vector<SharedString> names;
        names.reserve(call.request.tools->size());
        for (const ToolDefinition& tool : *call.request.tools) names.push_back(tool.name);
        attributes.add("cubepi.agent.tools", std::move(names));
    }
}

void RunTrace::start_chat(const ProviderCall& call, const RequestPayload& payload, Time now) {
    if (!records()) return;
    // Before the lock: with content, it takes time in proportion to the whole history.
    Attributes attributes;
    attributes.reserve(20);
    add_request_attributes(attributes, call, payload.built());
    attributes.add("cubepi.run_id", run_id_);
    if (settings_.content.enabled()) record_request(attributes, call, payload.json());
    const std::lock_guard lock(mutex_);
    if (!root_) return;
    note_first_request(call);
    Chat chat{&call,
              open(shared_name("chat " + call.model().id), parent_of(call), SpanKind::client, now)};
    chat.span->attributes = std::move(attributes);
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

std::vector<RunTrace::Chat>::iterator RunTrace::find_chat(const ProviderCall& call) noexcept {
    return std::find_if(chats_.begin(), chats_.end(),
                        [&call](const Chat& chat) { return chat.call == &call; });
}

void RunTrace::end_chat(const ProviderCall& call, const ProviderOutcome& outcome, Time now) {
    const std::lock_guard lock(mutex_);
    const auto chat = find_chat(call);
    if (chat == chats_.end()) return;
    Attributes& attributes = chat->span->attributes;
    if (outcome.first_chunk) {
        const auto waited = *outcome.first_chunk - outcome.started;
        attributes.add("gen_ai.response.time_to_first_chunk",
                       std::chrono::duration<double>(waited).count());
    }
    const AssistantMessage* answer = outcome.message ? outcome.message.assistant() : nullptr;
    const bool aborted = !answer || answer->stop_reason == stop_reason::aborted;
    if (aborted) {
        attributes.add("cubepi.aborted", true);
        attributes.add("error.type", SharedString("cubepi.aborted"));
    }
    if (!answer && turn_ && call.purpose().empty()) {
        chat->call = nullptr;
        chat->dropped = now;
        chat->model = std::make_unique<const Model>(call.model());
        return;
    }
    if (answer) {
        record_answer(chat->span, call.model(), outcome.message, outcome.details);
        if (settings_.content.enabled()) record_body(*chat->span, outcome.body());
    }
    if (answer && answer->stop_reason == stop_reason::error)
        record_failure(chat->span, outcome, now);
    finish(chat->span, now);
    chats_.erase(chat);
}

void RunTrace::record_answer(OpenSpan& span, const Model& model, const Message& answer,
                             const ResponseDetails& details) const {
    Attributes& attributes = span->attributes;
    add_response_attributes(attributes, model, *answer.assistant(), details);
    if (!settings_.content.enabled()) return;
    JsonArray output;
    output.emplace_back(content_of(answer));
    settings_.content.add(attributes, "gen_ai.output.messages", std::move(output));
}

void RunTrace::record_body(SpanData& span, Json body) const {
    if (!body.is_null())
        settings_.content.add(span.attributes, "cubepi.llm.raw_response", std::move(body));
}

/// `answer`: of the turn that ends; empty if it has none.
void RunTrace::end_dropped_chats(const Message& answer) {
    const bool has_answer = answer && answer.assistant();
    for (Chat& chat : chats_) {
        if (!chat.dropped) continue;
        if (has_answer) record_answer(chat.span, *chat.model, answer, ResponseDetails());
        finish(chat.span, *chat.dropped);
    }
    std::erase_if(chats_, [](const Chat& chat) { return chat.dropped.has_value(); });
}

void RunTrace::record_failure(OpenSpan& span, const ProviderOutcome& outcome, Time now) const {
    const AssistantMessage& answer = *outcome.message.assistant();
    const ErrorInfo error = outcome.error ? *outcome.error : ErrorInfo();
    const std::string_view text =
        error.message.empty() ? std::string_view(answer.error_message.str()) : error.message;
    span.set_error(outcome.error ? error_type_of_call(error) : "cubepi.error",
                   settings_.content.error_text(text, "provider error"));
    if (error.status_code)
        span->attributes.set("http.response.status_code",
                             static_cast<std::int64_t>(*error.status_code));
    SpanEvent event;
    event.name = SharedString("gen_ai.client.operation.exception");
    event.time = now;
    if (!error.type.empty()) event.attributes.add("exception.type", SharedString(error.type));
    const std::string message = settings_.content.error_text(text, "");
    if (!message.empty()) event.attributes.add("exception.message", SharedString(message));
    span->events.push_back(std::move(event));
}

void RunTrace::end_answer(const Message& answer) {
    const std::lock_guard lock(mutex_);
    note_failure(*answer.assistant());
    if (settings_.content.enabled()) run_output_.emplace_back(content_of(answer));
}

// The end.

void RunTrace::suspend(std::optional<double> cost, Time now) {
    const std::lock_guard lock(mutex_);
    if (!root_) return;
    // A call that waits has not run; the run that continues records it.
    tools_.clear();
    close_open_spans("detached", false, now);
    root_->attributes.set("cubepi.run.outcome", shared_name("suspended"));
    if (cost) root_->attributes.set("cubepi.usage.cost", *cost);
    finish_run(now);
}

void RunTrace::end(const RunEnding& ending, Time now) {
    const std::lock_guard lock(mutex_);
    if (!root_) return;
    close_open_spans("aborted", true, now);
    failed_ = ending.outcome == RunOutcome::failed;
    aborted_ = ending.outcome == RunOutcome::aborted;
    Attributes& attributes = root_->attributes;
    attributes.add("cubepi.output.messages.count", static_cast<std::int64_t>(ending.message_count));
    attributes.set("cubepi.run.outcome", shared_name(to_string(ending.outcome)));
    if (ending.cost) attributes.set("cubepi.usage.cost", *ending.cost);
    if (const auto* reached = dynamic_cast<const LimitReachedError*>(ending.error))
        attributes.set("cubepi.run.limit", shared_name(reached->limit()));
    if (failed_) record_error(ending.error);
    finish_run(now);
}

/// Sets the error of a run that has failed: that of its answer, or of what else ended it. `error`: may be null.
void RunTrace::record_error(const Error* error) {
    if (!answer_error_type_.empty()) {
        root_.set_error(answer_error_type_, answer_error_);
    } else if (error) {
        root_.set_error(error_type_of_run(*error),
                        settings_.content.error_text(error->what(), "run error"));
    } else {
        root_.set_error("cubepi.error", "run error");
    }
}

void RunTrace::abandon(Time now) {
    const std::lock_guard lock(mutex_);
    if (!root_) return;
    close_open_spans("aborted", true, now);
    aborted_ = true;
    root_->attributes.set("cubepi.run.outcome", shared_name("aborted"));
    finish_run(now);
}

void RunTrace::close_open_spans(std::string_view question_outcome, bool aborted, Time now) {
    for (Question& question : questions_) finish_question(question, question_outcome, now);
    questions_.clear();
    for (Chat& chat : chats_) {
        chat.span->attributes.set("cubepi.aborted", true);
        chat.span->attributes.set("error.type", SharedString("cubepi.aborted"));
        finish(chat.span, chat.dropped.value_or(now));
    }
    chats_.clear();
    for (Tool& tool : tools_) {
        tool.span->attributes.set("cubepi.aborted", true);
        finish(tool.span, now);
    }
    tools_.clear();
    if (!turn_) return;
    if (aborted) {
        turn_->attributes.set("cubepi.aborted", true);
    } else {
        turn_->attributes.set("cubepi.run.outcome", shared_name("suspended"));
    }
    finish(turn_, now);
}

void RunTrace::record_run_content() {
    const ContentFilter& content = settings_.content;
    if (!system_prompt_.empty())
        content.add(root_->attributes, "gen_ai.system_instructions",
                    system_instructions(system_prompt_));
    if (!run_input_.empty())
        content.add(root_->attributes, "gen_ai.input.messages", std::exchange(run_input_, {}));
    if (!run_output_.empty())
        content.add(root_->attributes, "gen_ai.output.messages", std::exchange(run_output_, {}));
}

void RunTrace::finish_run(Time now) {
    root_->attributes.add("cubepi.input.messages.count", input_messages_);
    if (aborted_) root_->attributes.set("cubepi.aborted", true);
    if (settings_.content.enabled()) record_run_content();
    finish(root_, now);
    if (failed_ && !context_.sampled && settings_.keep_failed) keep();
}

/// Exports a run that is not sampled, and what is above it.
void RunTrace::keep() {
    exported_ = true;
    held_.release_to(receiver_, *settings_.losses);
    if (hold_) hold_->fail(receiver_, *settings_.losses);
}

void RunTrace::adopt(RunTrace& nested) {
    HeldSpans held;
    bool failed = false;
    {
        const std::lock_guard lock(nested.mutex_);
        held = std::exchange(nested.held_, HeldSpans());
        failed = nested.exported_;
    }
    const std::lock_guard lock(mutex_);
    if (context_.sampled || !settings_.keep_failed) return;
    held_.add(std::move(held));
    if (failed || exported_) keep();
}

}  // namespace cubepi::detail
