#include <cubepi/tracing/recorder/run_trace.hpp>

#include <utility>

#include <cubepi/tracing/recorder/chat_attributes.hpp>

namespace cubepi::detail {

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
      sink_(std::move(sink)),
      info_(std::move(info)),
      run_id_(info_->run_id),
      context_{parent.trace_id, SpanId::random(), parent.sampled},
      hold_(parent.sampled || !settings_.keep_failed ? nullptr : std::move(parent.hold)),
      content_(settings_.content.enabled() ? std::make_unique<RunContent>() : nullptr) {
    root_ =
        OpenSpan(shared_name("invoke_agent"), context_, parent.span_id, SpanKind::internal, start);
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
    context.span_id = tool == tools_.end() ? turn_or_root() : tool->span.context().span_id;
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

OpenSpan RunTrace::open(SharedString name, SpanId parent, SpanKind kind, Time start) const {
    SpanContext context = context_;
    context.span_id = SpanId::random();
    return OpenSpan(std::move(name), context, parent, kind, start);
}

SpanId RunTrace::turn_or_root() const noexcept {
    return turn_ ? turn_.context().span_id : context_.span_id;
}

/// Exports a span, or holds it until the outcome of a run that is not sampled is known.
void RunTrace::finish(OpenSpan& span, Time now) {
    std::shared_ptr<const SpanData> ended = span.end(now);
    if (context_.sampled) {
        sink_->add(std::move(ended));
    } else if (hold_) {
        hold_->add(std::move(ended));
    }
}

// The end.

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
        set_error(span, error_type_of_run(*error),
                  settings_.content.error_text(error->what(), "run error"));
    } else {
        set_error(span, "cubepi.error", "run error");
    }
}

void RunTrace::record_run_content(SpanData& span, RunContent& content) const {
    const ContentFilter& filter = settings_.content;
    if (!content.system_prompt.empty())
        filter.add(span.attributes, "gen_ai.system_instructions",
                   system_instructions(content.system_prompt));
    if (!content.input.empty())
        filter.add(span.attributes, "gen_ai.input.messages", std::move(content.input));
    if (!content.output.empty())
        filter.add(span.attributes, "gen_ai.output.messages", std::move(content.output));
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
