#include <cubepi/tracing/recorder/run_trace.hpp>

#include <algorithm>
#include <utility>
#include <variant>

#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/recorder/conventions.hpp>

namespace cubepi::detail {

namespace {

/// Marks a span as failed.
void set_error(SpanData& span, std::string type, std::string description) {
    span.status = SpanStatus::error;
    span.status_description = std::move(description);
    span.attributes.set("error.type", SharedString(std::move(type)));
}

void append(JsonArray& list, JsonArray more) {
    for (Json& one : more) list.push_back(std::move(one));
}

/// The values of a run are redacted together with those of the spans around it.
ContentFilter filter_of(const ContentFilter& all, const RunInfo& info, const TraceParent& parent) {
    if (!all.redacts()) return all;
    std::shared_ptr<Redactions> shared = parent.redactions;
    if (!shared && parent.hold) shared = SpanHold::redactions(parent.hold);
    if (!shared) shared = std::make_shared<Redactions>();
    ContentFilter filter = all.with(std::move(shared));
    return info.origin.parent_tool_call_id.empty() ? filter : filter.for_nested_run();
}

double seconds_between(RunTrace::Time from, RunTrace::Time to) {
    return std::chrono::duration<double>(to - from).count();
}

void record_result(SpanData& span, const ToolExecutionEndEvent& event,
                   const ContentFilter& content) {
    Attributes& attributes = span.attributes;
    attributes.add("cubepi.tool.is_error", event.is_error);
    if (event.terminate) attributes.add("cubepi.tool.terminate", true);
    if (event.blocked_by_hook) attributes.add("cubepi.tool.blocked_by_hook", true);
    if (event.is_error) {
        set_error(span, event.blocked_by_hook ? "cubepi.tool.blocked_by_hook" : "cubepi.tool.error",
                  "tool error");
    }
    if (!content.enabled()) return;
    // The result of a blocked call contains the reason: both are redacted before either is recorded.
    std::optional<Json> reason;
    if (event.blocked_by_hook && !event.block_reason.empty())
        reason = content.value("cubepi.tool.block_reason", Json(event.block_reason));
    std::optional<Json> result = content.value("gen_ai.tool.call.result", to_json(event.result));
    content.set(attributes, "cubepi.tool.block_reason", std::move(reason));
    content.set(attributes, "gen_ai.tool.call.result", std::move(result));
}

}  // namespace

void SpanHold::add(std::shared_ptr<const SpanData> span) {
    const std::lock_guard lock(mutex_);
    if (failed_) return sink_->add(std::move(span));
    const std::size_t bytes = span->memory();
    if (spans_.size() >= max_spans || bytes > max_bytes - bytes_) {
        ++missing_;
        return;
    }
    spans_.push_back(std::move(span));
    bytes_ += bytes;
}

void SpanHold::fail() noexcept {
    std::uint64_t missing = 0;
    {
        const std::lock_guard lock(mutex_);
        failed_ = true;
        for (std::shared_ptr<const SpanData>& span : spans_) sink_->add(std::move(span));
        spans_.clear();
        missing = std::exchange(missing_, 0);
    }
    losses_->add(Loss::held_span,
                 "more than 10,000 of them, or 16 MiB, waited for the end of the run", missing);
    if (above_) above_->fail();
}

/// Leaves a trace to the child process of fork() that cannot use it: another thread of the parent may have been changing it.
struct RunTrace::Deleter {
    void operator()(RunTrace* trace) const noexcept {
        if (!trace->is_forked()) delete trace;
    }
};

std::shared_ptr<RunTrace> RunTrace::create(std::shared_ptr<const Settings> settings,
                                           std::shared_ptr<SpanSink> sink,
                                           std::shared_ptr<const RunInfo> info, TraceParent parent,
                                           Time start) {
    return std::shared_ptr<RunTrace>(new RunTrace(std::move(settings), std::move(sink),
                                                  std::move(info), std::move(parent), start),
                                     Deleter());
}

RunTrace::RunTrace(std::shared_ptr<const Settings> settings, std::shared_ptr<SpanSink> sink,
                   std::shared_ptr<const RunInfo> info, TraceParent parent, Time start)
    : shared_settings_(std::move(settings)),
      settings_(*shared_settings_),
      filter_(filter_of(settings_.content, *info, parent)),
      sink_(std::move(sink)),
      info_(std::move(info)),
      run_id_(info_->run_id),
      context_{parent.trace_id, SpanId::random(), parent.sampled},
      hold_(parent.sampled || !settings_.keep_failed ? nullptr : std::move(parent.hold)),
      content_(filter_.enabled() ? std::make_unique<RunContent>() : nullptr) {
    root_ = open(shared_name("invoke_agent"), start);
    root_->context = context_;
    root_->parent = parent.span_id;
    Attributes& attributes = root_->attributes;
    attributes.add("gen_ai.operation.name", "invoke_agent");
    attributes.add("gen_ai.provider.name", "cubepi");
    attributes.add("cubepi.run_id", run_id_);
    if (!info_->attempt_id.empty()) attributes.add("cubepi.attempt_id", info_->attempt_id);
    if (!info_->thread_id.empty()) {
        attributes.add("cubepi.thread_id", info_->thread_id);
        attributes.add("gen_ai.conversation.id", info_->thread_id);
    }
    if (!settings_.agent_name.empty()) attributes.add("gen_ai.agent.name", settings_.agent_name);
    if (!info_->origin.parent_run_id.empty())
        attributes.add("cubepi.parent_run_id", SharedString(info_->origin.parent_run_id));
    if (parent.remote) attributes.add("cubepi.remote_parent", true);
}

RunTrace::~RunTrace() {
    if (root_) abandon(root_->start);
}

SpanContext RunTrace::context_of_call(std::string_view tool_call_id) const {
    SpanContext context = context_;
    const Lock locked = lock();
    if (!locked) return context;
    const auto tool = find_by_id(tools_, tool_call_id);
    context.span_id = tool == tools_.end() ? turn_or_root() : tool->span->context.span_id;
    return context;
}

void RunTrace::link_to(const SpanContext& earlier) {
    const Lock locked = lock();
    if (!locked || !root_) return;
    SpanLink link;
    link.context = earlier;
    link.attributes.add("cubepi.link.kind", "continues");
    root_->links.push_back(std::move(link));
}

void RunTrace::set_attribute(AttributeKey key, AttributeValue value) {
    const Lock locked = lock();
    if (locked && root_) root_->attributes.set(std::move(key), std::move(value));
}

RunTrace::OpenSpan RunTrace::open(SharedString name, Time start, SpanKind kind) const {
    auto span = std::make_shared<SpanData>();
    // Only spans with content, or with tags and metadata, have more.
    constexpr std::size_t attributes_of_a_call = 18;
    span->attributes.reserve(attributes_of_a_call);
    span->name = std::move(name);
    span->context = context_;
    span->context.span_id = SpanId::random();
    span->kind = kind;
    span->start = start;
    return span;
}

SpanId RunTrace::turn_or_root() const noexcept {
    return turn_ ? turn_->context.span_id : context_.span_id;
}

/// Exports a span, or holds it until the outcome of a run that is not sampled is known.
void RunTrace::finish(OpenSpan& span, Time now) {
    span->end = now;
    std::shared_ptr<const SpanData> ended = std::exchange(span, nullptr);
    if (context_.sampled) {
        sink_->add(std::move(ended));
    } else if (hold_) {
        hold_->add(std::move(ended));
    }
}

void RunTrace::start_turn(std::uint32_t turn, Time now) {
    const Lock locked = lock();
    if (!locked || !records()) return;
    if (turn_) finish(turn_, now);
    turn_ = open(shared_name("cubepi.turn"), now);
    turn_->parent = context_.span_id;
    turn_->attributes.add("cubepi.turn.index", static_cast<std::int64_t>(turn) - 1);
    turn_->attributes.add("cubepi.run_id", run_id_);
    ended_tools_ = terminating_tools_ = 0;
}

void RunTrace::start_message(const Message& message) {
    if (message.role() == Role::assistant || !records()) return;
    // Before the lock: it calls `redact`.
    JsonArray content = content_ ? filter_.messages(message) : JsonArray();
    const Lock locked = lock();
    if (!locked) return;
    ++input_messages_;
    if (!content_) return;
    if (turn_) append(content_->turn_input, content);
    append(content_->input, std::move(content));
}

/// The answers of streams that were dropped come with the end of the turn.
void RunTrace::end_turn(const TurnEndEvent& event, Time now) {
    const AssistantMessage* answer = event.message ? event.message.assistant() : nullptr;
    JsonArray output = content_ && records() ? output_of(event) : JsonArray();
    Lock locked = lock();
    if (!locked || !turn_) return;
    OpenSpan turn = std::move(turn_);
    std::vector<Chat> dropped = take_dropped_chats();
    AnswerFailure failure;
    const bool terminated = ended_tools_ != 0 && terminating_tools_ == ended_tools_;
    if (content_) record_turn_content(locked, *turn, std::move(output));
    if (answer) {
        const ContentPause paused = pause(locked);
        for (Chat& chat : dropped) {
            add_response_attributes(chat.span->attributes, *answer, ResponseDetails(),
                                    cost_of(*answer, *chat.model));
            if (content_) record_output(*chat.span, event.message);
        }
        failure = failure_of(*answer);
        record_turn(*turn, *answer, failure);
    }
    if (terminated) turn->attributes.add("cubepi.turn.terminated_by_tool", true);
    if (answer) failure_ = std::move(failure);
    for (Chat& chat : dropped) finish(chat.span, *chat.dropped);
    finish(turn, now);
}

void RunTrace::record_turn(SpanData& span, const AssistantMessage& answer,
                           const AnswerFailure& failure) {
    const std::int64_t tool_calls =
        std::count_if(answer.content.begin(), answer.content.end(),
                      [](const auto& block) { return std::holds_alternative<ToolCall>(block); });
    Attributes& attributes = span.attributes;
    attributes.add("cubepi.turn.stop_reason", answer.stop_reason);
    attributes.add("cubepi.turn.tool_calls.count", tool_calls);
    if (answer.stop_reason == stop_reason::aborted) attributes.add("cubepi.aborted", true);
    if (!failure.type.empty()) set_error(span, "cubepi.error", failure.text);
}

JsonArray RunTrace::output_of(const TurnEndEvent& event) const {
    JsonArray output;
    if (event.message) append(output, filter_.messages(event.message));
    for (const Message& result : event.tool_results) append(output, filter_.messages(result));
    return output;
}

void RunTrace::record_turn_content(Lock& locked, SpanData& span, JsonArray output) {
    JsonArray input = std::exchange(content_->turn_input, JsonArray());
    content_->output.insert(content_->output.end(), output.begin(), output.end());
    const ContentPause paused = pause(locked);
    if (!input.empty())
        filter_.add_whole(span.attributes, "gen_ai.input.messages", std::move(input));
    filter_.add_whole(span.attributes, "gen_ai.output.messages", std::move(output));
}

RunTrace::AnswerFailure RunTrace::failure_of(const AssistantMessage& answer) const {
    AnswerFailure failure;
    if (answer.stop_reason != stop_reason::error) return failure;
    failure.type = answer.error ? error_type_of_call(*answer.error) : "cubepi.error";
    failure.text = filter_.error_text(answer.error_message.str(), "model error");
    return failure;
}

void RunTrace::end_answer(const Message& message) {
    AnswerFailure failure = failure_of(*message.assistant());
    JsonArray content = content_ ? filter_.messages(message) : JsonArray();
    const Lock locked = lock();
    if (!locked) return;
    failure_ = std::move(failure);
    if (content_) append(content_->output, std::move(content));
}

SpanId RunTrace::parent_of(const ProviderCall& call) const noexcept {
    const SharedString& tool_call_id = call.request.options.tool_call_id();
    if (!tool_call_id.empty()) {
        const auto tool = find_by_id(tools_, tool_call_id);
        if (tool != tools_.end()) return tool->span->context.span_id;
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
    OpenSpan span = open(shared_name("chat " + call.model().id), now, SpanKind::client);
    add_request_attributes(span->attributes, call, payload.built());
    span->attributes.add("cubepi.run_id", run_id_);
    // Before the lock: with content, it takes time in proportion to the whole history.
    if (filter_.enabled()) record_request(span->attributes, call, payload.json());
    const Lock locked = lock();
    if (!root_) return;
    note_first_request(call);
    span->parent = parent_of(call);
    chats_.push_back(Chat{&call, std::move(span), call.purpose().empty()});
}

void RunTrace::record_request(Attributes& attributes, const ProviderCall& call,
                              JsonObject payload) const {
    const ModelRequest& request = call.request;
    // All values are redacted before anything is recorded: one may occur in another, and all occur in the body.
    std::optional<Json> system;
    if (!request.system_prompt.empty())
        system =
            filter_.value("gen_ai.system_instructions", system_instructions(request.system_prompt));
    std::optional<Json> tools;
    if (request.tools && !request.tools->empty()) {
        Json definitions = tool_definitions(*request.tools);
        tools = filter_.value("gen_ai.tool.definitions", definitions);
        // An endpoint has a form of its own for them.
        if (!tools || *tools != definitions) payload.erase("tools");
    }
    JsonArray input = filter_.messages(request.messages);
    filter_.set(attributes, "gen_ai.system_instructions", std::move(system));
    filter_.add_whole(attributes, "gen_ai.input.messages", std::move(input));
    filter_.set(attributes, "gen_ai.tool.definitions", std::move(tools));
    if (!payload.empty())
        filter_.add_whole(attributes, "cubepi.llm.raw_request", std::move(payload));
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
            filter_.add_whole(attributes, "cubepi.llm.raw_response", std::move(body));
    }
    if (answer->stop_reason != stop_reason::error) return;
    const ErrorInfo* error = outcome.error ? &*outcome.error : nullptr;
    const bool has_text = error && !error->message.empty();
    record_failure(
        span, error,
        has_text ? std::string_view(error->message) : std::string_view(answer->error_message), now);
}

void RunTrace::record_output(SpanData& span, const Message& answer) const {
    filter_.add_whole(span.attributes, "gen_ai.output.messages", filter_.messages(answer));
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
              filter_.error_text(text, "provider error"));
    if (error && error->status_code)
        span.attributes.set("http.response.status_code",
                            static_cast<std::int64_t>(*error->status_code));
    SpanEvent event;
    event.name = SharedString("gen_ai.client.operation.exception");
    event.time = now;
    if (error && !error->type.empty())
        event.attributes.add("exception.type", SharedString(error->type));
    const std::string message = filter_.error_text(text, "");
    if (!message.empty()) event.attributes.add("exception.message", SharedString(message));
    span.events.push_back(std::move(event));
}

void RunTrace::start_tool(const ToolExecutionStartEvent& event, const ToolInfo& info, Time now) {
    if (!records()) return;
    Tool tool{event.tool_call_id, open(shared_name("execute_tool " + event.tool_name.str()), now)};
    Attributes& attributes = tool.span->attributes;
    attributes.add("gen_ai.operation.name", "execute_tool");
    attributes.add("gen_ai.tool.name", event.tool_name);
    attributes.add("gen_ai.tool.call.id", event.tool_call_id);
    attributes.add("gen_ai.tool.type", "function");
    attributes.add("cubepi.run_id", run_id_);
    if (!info.description.empty()) attributes.add("gen_ai.tool.description", info.description);
    if (info.execution_mode) {
        const bool sequential = *info.execution_mode == ExecutionMode::sequential;
        attributes.add("cubepi.tool.execution_mode",
                       AttributeValue::of_literal(sequential ? "sequential" : "parallel"));
    }
    if (filter_.enabled())
        filter_.set(attributes, "gen_ai.tool.call.arguments",
                    filter_.value("gen_ai.tool.call.arguments", event.args));
    const Lock locked = lock();
    tool.span->parent = turn_or_root();
    tools_.push_back(std::move(tool));
}

void RunTrace::end_tool(const ToolExecutionEndEvent& event, Time now) {
    Lock locked = lock();
    if (!locked) return;
    const auto tool = find_by_id(tools_, event.tool_call_id);
    if (tool == tools_.end()) return;
    OpenSpan span = std::move(tool->span);
    tools_.erase(tool);
    ++ended_tools_;
    if (event.terminate) ++terminating_tools_;
    {
        const ContentPause paused = pause(locked);
        record_result(*span, event, filter_);
    }
    finish(span, now);
}

void RunTrace::start_question(const HitlRequest& request, Time now) {
    if (!records()) return;
    const std::string_view kind = question_kind(request);
    Question question{request.question_id, kind, now,
                      open(SharedString("hitl." + std::string(kind)), now)};
    Attributes& attributes = question.span->attributes;
    attributes.add("hitl.question_id", SharedString(request.question_id));
    attributes.add("hitl.run_id", run_id_);
    if (request.timeout_seconds) attributes.add("hitl.timeout_seconds", *request.timeout_seconds);
    if (const auto* approve = std::get_if<ApproveRequest>(&request.payload)) {
        attributes.add("hitl.tool_call_id", SharedString(approve->tool_call_id));
        attributes.add("hitl.tool_name", SharedString(approve->tool_name));
    }
    if (filter_.enabled()) {
        if (const auto* approve = std::get_if<ApproveRequest>(&request.payload))
            (void)filter_.value("gen_ai.tool.call.arguments", approve->args);
        filter_.set(attributes, "hitl.request", filter_.value("hitl.request", to_json(request)));
    }
    const Lock locked = lock();
    question.span->parent = turn_or_root();
    questions_.push_back(std::move(question));
}

void RunTrace::end_question(std::string_view question_id, std::string_view outcome, Time now) {
    const Lock locked = lock();
    if (!locked) return;
    const auto question = find_by_id(questions_, question_id);
    if (question == questions_.end()) return;
    finish_question(*question, outcome, now);
    questions_.erase(question);
}

void RunTrace::end_answered_question(const HitlAnswerEvent& event, Time now) {
    Lock locked = lock();
    if (!locked) return;
    const auto found = find_by_id(questions_, event.question_id);
    if (found == questions_.end()) return;
    Question question = std::move(*found);
    questions_.erase(found);
    {
        const ContentPause paused = pause(locked);
        if (filter_.enabled()) record_answer(*question.span, event.answer);
    }
    finish_question(question, answer_outcome(question.kind, event), now);
}

/// The texts of an answer, such as the reason of a denial, become a part of the result of the call.
void RunTrace::redact_as_result(const Json& answer) const {
    if (const auto* text = answer.if_string()) (void)filter_.result_text(*text);
    if (const JsonArray* list = answer.if_array())
        for (const Json& item : *list) redact_as_result(item);
    const JsonObject* object = answer.if_object();
    if (!object) return;
    for (const auto& [key, item] : *object) {
        if (key != "decision" && key != "edited_args") redact_as_result(item);
    }
}

void RunTrace::record_answer(SpanData& span, const Json& answer) const {
    const JsonObject* object = answer.if_object();
    const Json* edited = object ? object->if_contains("edited_args") : nullptr;
    if (edited && edited->is_object()) (void)filter_.value("gen_ai.tool.call.arguments", *edited);
    if (filter_.redacts()) redact_as_result(answer);
    filter_.set(span.attributes, "hitl.answer", filter_.value("hitl.answer", answer));
}

void RunTrace::finish_question(Question& question, std::string_view outcome, Time now) {
    Attributes& attributes = question.span->attributes;
    attributes.add("hitl.outcome", shared_name(outcome));
    if (outcome == "detached") attributes.add("hitl.detached", true);
    attributes.add("hitl.duration_seconds", seconds_between(question.start, now));
    finish(question.span, now);
}

void RunTrace::suspend(std::optional<double> cost, Time now) {
    Lock locked = lock();
    if (!locked || !root_) return;
    // A call that waits has not run; the run that continues records it.
    tools_.clear();
    close_open_spans("detached", false, now);
    root_->attributes.set("cubepi.run.outcome", "suspended");
    if (cost) root_->attributes.set("cubepi.usage.cost", *cost);
    finish_run(locked, nullptr, now);
}

void RunTrace::end(const RunEnding& ending, Time now) {
    Lock locked = lock();
    if (!locked || !root_) return;
    close_open_spans("aborted", true, now);
    failed_ = ending.outcome == RunOutcome::failed;
    aborted_ = ending.outcome == RunOutcome::aborted;
    Attributes& attributes = root_->attributes;
    attributes.add("cubepi.output.messages.count", static_cast<std::int64_t>(ending.message_count));
    attributes.set("cubepi.run.outcome", AttributeValue::of_literal(to_string(ending.outcome)));
    if (ending.cost) attributes.set("cubepi.usage.cost", *ending.cost);
    if (const auto* reached = dynamic_cast<const LimitReachedError*>(ending.error.get()))
        attributes.set("cubepi.run.limit", shared_name(reached->limit()));
    finish_run(locked, ending.error.get(), now);
}

void RunTrace::abandon(Time now) {
    Lock locked = lock();
    if (!locked || !root_) return;
    close_open_spans("aborted", true, now);
    aborted_ = true;
    root_->attributes.set("cubepi.run.outcome", "aborted");
    finish_run(locked, nullptr, now);
}

void RunTrace::close_open_spans(std::string_view question_outcome, bool aborted, Time now) {
    for (Question& question : questions_) finish_question(question, question_outcome, now);
    questions_.clear();
    for (Chat& chat : chats_) {
        chat.span->attributes.set("cubepi.aborted", true);
        chat.span->attributes.set("error.type", "cubepi.aborted");
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
        turn_->attributes.set("cubepi.run.outcome", "suspended");
    }
    finish(turn_, now);
}

/// Sets the error of a run that has failed: that of its answer, or of what else ended it. `error`: may be null.
void RunTrace::record_error(SpanData& span, const AnswerFailure& failure,
                            const Error* error) const {
    if (!failure.type.empty()) {
        set_error(span, failure.type, failure.text);
    } else if (error) {
        set_error(span, error_type_of_run(*error), filter_.error_text(error->what(), "run error"));
    } else {
        set_error(span, "cubepi.error", "run error");
    }
}

void RunTrace::record_run_content(SpanData& span, RunContent& content) const {
    if (!content.system_prompt.empty())
        filter_.set(span.attributes, "gen_ai.system_instructions",
                    filter_.value("gen_ai.system_instructions",
                                  system_instructions(content.system_prompt)));
    if (!content.input.empty())
        filter_.add_whole(span.attributes, "gen_ai.input.messages", std::move(content.input));
    if (!content.output.empty())
        filter_.add_whole(span.attributes, "gen_ai.output.messages", std::move(content.output));
}

/// `error`: what ended a run that has failed; may be null.
void RunTrace::finish_run(Lock& locked, const Error* error, Time now) {
    OpenSpan root = std::move(root_);
    root->attributes.add("cubepi.input.messages.count", input_messages_);
    if (aborted_) root->attributes.set("cubepi.aborted", true);
    const AnswerFailure failure = std::exchange(failure_, AnswerFailure());
    const bool failed = failed_;
    if (failed || content_) {
        const std::unique_ptr<RunContent> content =
            content_ ? std::make_unique<RunContent>(std::move(*content_)) : nullptr;
        const ContentPause paused = pause(locked);
        if (failed) record_error(*root, failure, error);
        if (content) record_run_content(*root, *content);
    }
    finish(root, now);
    locked.unlock();
    if (failed && hold_) hold_->fail();
}

}  // namespace cubepi::detail
