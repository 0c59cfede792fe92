#include <cubepi/tracing/recorder/agent_recorder.hpp>

#include <chrono>
#include <utility>

#include <cubepi/tracing/recorder/question_facts.hpp>

namespace cubepi::detail {

namespace {

/// The key in the thread's `extra` with the span of a run that waits for the user: `{"run_id", "traceparent"}`. The run may be
/// continued by another process, whose span links to it (D26).
constexpr std::string_view context_key = "cubepi.trace";

std::string_view text_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

}  // namespace

AgentRecorder::AgentRecorder(std::shared_ptr<TracerCore> core, Agent& agent)
    : core_(std::move(core)), agent_(agent) {}

std::shared_ptr<AgentRecorder> AgentRecorder::attach(std::shared_ptr<TracerCore> core,
                                                     Agent& agent) {
    auto recorder = std::make_shared<AgentRecorder>(std::move(core), agent);
    recorder->follow_model();
    // The listener owns the recorder, which is in use until the event ends: `redact` or a notice may detach it meanwhile.
    const bool writes_streams = !recorder->core_->options().stream_directory.empty();
    constexpr EventTypes without_updates =
        EventTypes::all_but({AgentEventType::message_update, AgentEventType::message_end});
    recorder->subscription_ =
        agent.subscribe([recorder](const AgentEvent& event) { recorder->on_event(event); },
                        writes_streams ? EventTypes() : without_updates);
    return recorder;
}

void AgentRecorder::detach() noexcept {
    subscription_.cancel();
    if (run_) {
        try {
            run_->abandon(std::chrono::system_clock::now());
        } catch (...) {
            core_->report_failure("the end of a run");
        }
        forget_run();
    }
    providers_ = ProviderWatch::Lease();
}

void AgentRecorder::on_event(const AgentEvent& event) noexcept {
    try {
        if (event.type() == AgentEventType::message_update) {
            if (stream_file_) record_update(event);
        } else {
            record(event);
        }
    } catch (...) {
        core_->report_failure("a run");
    }
}

void AgentRecorder::record_update(const AgentEvent& event) {
    stream_file_->write(*event.stream_event(), event.timestamp);
}

void AgentRecorder::record(const AgentEvent& event) {
    if (event.type() == AgentEventType::agent_start) return start_run(event);
    if (!run_) return;
    const RunTrace::Time now = event.wall_time();
    if (event.get_if<TurnStartEvent>()) {
        follow_model();
        run_->start_turn(event.turn, now);
    } else if (const auto* message = event.get_if<MessageStartEvent>()) {
        run_->start_message(message->message);
    } else if (const auto* turn = event.get_if<TurnEndEvent>()) {
        run_->end_turn(*turn, now);
    } else if (const auto* started = event.get_if<ToolExecutionStartEvent>()) {
        run_->start_tool(*started, facts_of(started->tool_name), now);
    } else if (const auto* ended = event.get_if<ToolExecutionEndEvent>()) {
        run_->end_tool(*ended, now);
    } else if (const auto* question = event.get_if<HitlRequestEvent>()) {
        on_question(*question, now);
    } else if (const auto* answer = event.get_if<HitlAnswerEvent>()) {
        run_->end_answered_question(*answer, now);
        on_question_end();
    } else if (const auto* notice = event.get_if<NoticeEvent>()) {
        on_notice(notice->notice, now);
    } else if (const auto* end = event.get_if<AgentEndEvent>()) {
        end_run(*end, now);
    } else if (const auto* suspended = event.get_if<AgentSuspendedEvent>()) {
        suspend_run(*suspended, now);
    }
}

void AgentRecorder::start_run(const AgentEvent& event) {
    if (run_) {
        // A run that was cut off, for example by the end of its agent's executor.
        run_->abandon(event.wall_time());
        forget_run();
    }
    run_ = core_->start_run(event.run, event.wall_time());
    open_questions_ = 0;
    link_to_suspended_run();
    if (core_->streams()) {
        stream_file_.emplace(*core_->streams(), event.run_id(), core_->settings().content,
                             event.timestamp);
    }
}

/// Links a run that continues to the span that it had when it was suspended.
void AgentRecorder::link_to_suspended_run() {
    const Json* stored = agent_.state().extra.if_contains(context_key);
    const JsonObject* context = stored ? stored->if_object() : nullptr;
    has_stored_context_ = stored != nullptr && !stored->is_null();
    if (!context || text_of(*context, "run_id") != run_->info().run_id) return;
    const auto earlier = SpanContext::parse(text_of(*context, "traceparent"));
    if (earlier) run_->link_to(*earlier);
    // Stored with the next message.
    agent_.set_extra(context_key, Json());
    has_stored_context_ = false;
}

void AgentRecorder::end_run(const AgentEndEvent& event, RunTrace::Time now) {
    RunEnding ending;
    ending.outcome = event.outcome;
    ending.error = event.error;
    ending.message_count = event.messages.size();
    ending.cost = event.cost;
    run_->end(ending, now);
    forget_run();
}

void AgentRecorder::suspend_run(const AgentSuspendedEvent& event, RunTrace::Time now) {
    run_->suspend(event.cost, now);
    forget_run();
}

void AgentRecorder::on_question(const HitlRequestEvent& event, RunTrace::Time now) {
    run_->start_question(event.request, now);
    ++open_questions_;
    if (has_stored_context_ || agent_.thread_id().empty()) return;
    // Before the run can be suspended, which stores `extra`.
    agent_.set_extra(context_key, JsonObject{{"run_id", run_->info().run_id.str()},
                                             {"traceparent", run_->context().traceparent()}});
    has_stored_context_ = true;
}

/// A question of the run was answered or has ended in another way.
void AgentRecorder::on_question_end() {
    if (open_questions_ == 0 || --open_questions_ != 0 || !has_stored_context_) return;
    agent_.set_extra(context_key, Json());
    has_stored_context_ = false;
}

void AgentRecorder::on_notice(const Notice& notice, RunTrace::Time now) {
    const std::optional<QuestionEnd> end = question_end(notice);
    if (!end) return;
    run_->end_question(end->question_id, end->outcome, now);
    // The requests of a run that is being suspended stay open.
    if (end->outcome != "detached") on_question_end();
}

/// Observes the providers of the agent's models. The model may change between two calls.
void AgentRecorder::follow_model() {
    const std::shared_ptr<const Model>& current = agent_.state().model;
    if (current == model_) return;
    ProviderWatch::Lease providers = core_->watch(agent_.models());
    providers_ = std::move(providers);
    model_ = current;
}

ToolFacts AgentRecorder::facts_of(const SharedString& tool_name) const {
    ToolFacts facts;
    const AgentTool* tool = agent_.state().tools.find(tool_name.str());
    if (!tool) return facts;
    facts.description = tool->description;
    facts.execution_mode = tool->execution_mode.value_or(ExecutionMode::parallel);
    return facts;
}

void AgentRecorder::forget_run() noexcept {
    stream_file_.reset();
    core_->forget(*run_);
    run_.reset();
}

}  // namespace cubepi::detail
