#include <cubepi/tracing/tracer.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/export/export_thread.hpp>
#include <cubepi/tracing/recorder/conventions.hpp>
#include <cubepi/tracing/recorder/run_trace.hpp>
#include <cubepi/tracing/recorder/shared_tables.hpp>
#include <cubepi/tracing/recorder/stream_file.hpp>

namespace cubepi::detail {

class AgentRecorder;

/// The state shared by the recorders of all agents of a tracer. Thread-safe.
class TracerCore {
public:
    explicit TracerCore(TracerOptions options);
    /// Creates a core that observes providers.
    static std::shared_ptr<TracerCore> create(TracerOptions options);

    /// Begins the trace of a run, which is in the table until forget(). `own`: other settings than the tracer's.
    std::shared_ptr<RunTrace> start_run(std::shared_ptr<const RunInfo> info, RunTrace::Time start,
                                        std::shared_ptr<const RunTrace::Settings> own = nullptr);
    /// Returns the caller's span if `traceparent` is valid, else a new trace.
    TraceParent parent_of_caller(std::string_view traceparent) const;
    /// Takes the run, which has ended, off the table.
    void forget(const RunTrace& run) noexcept { runs_->remove(run.info().run_id, &run); }

    ProviderWatch::Lease watch(const std::vector<BoundModel>& models) {
        return ProviderWatch::watch(watch_, models);
    }
    const TracerOptions& options() const noexcept { return options_; }
    const RunTrace::Settings& settings() const noexcept { return *settings_; }
    const std::shared_ptr<const Resource>& resource() const noexcept { return resource_; }
    /// Null if the options have no directory for stream files.
    StreamWriter* streams() const noexcept { return streams_.get(); }
    bool flush(std::chrono::milliseconds limit);
    bool shutdown(std::chrono::milliseconds limit);
    SpanSink& sink() const noexcept { return *sink_; }
    AttachedAgents<AgentRecorder>& agents() noexcept { return agents_; }
    /// Registers a span of the program until end_hold(). Returns the hold that it shares with the spans of the program above it.
    std::shared_ptr<SpanHold> hold_for(const TraceParent& parent, const SpanContext& span);
    void end_hold(const SpanContext& span, const SpanHold* hold) noexcept;
    LossReport& losses() const noexcept { return *settings_->losses; }
    const std::shared_ptr<LossReport>& shared_losses() const noexcept { return settings_->losses; }
    /// Counts an exception inside a recorder.
    void report_failure(const char* where) noexcept { losses().add(Loss::event, where); }

private:
    TraceParent parent_of(const RunInfo& info) const;

    const TracerOptions options_;
    const std::shared_ptr<const RunTrace::Settings> settings_;
    const std::shared_ptr<const Resource> resource_;
    // Shared with runs, which may outlive the core.
    const std::shared_ptr<SpanSink> sink_;
    // Shared with the observers of providers, which may outlive the core.
    const std::shared_ptr<RunTable<RunTrace>> runs_ = std::make_shared<RunTable<RunTrace>>();
    const std::unique_ptr<StreamWriter> streams_;
    AttachedAgents<AgentRecorder> agents_;
    RunTable<SpanHold> holds_;  // by the ids of spans of the program that have not ended
    std::shared_ptr<ProviderWatch> watch_;
};

namespace {

RunTrace::Settings settings_of(const TracerOptions& options) {
    auto losses = std::make_shared<LossReport>(options.on_notice);
    return RunTrace::Settings{ContentFilter(options.record_content, options.redact, losses),
                              SharedString(options.agent_name), options.sampling.failed_runs,
                              losses};
}

/// Decides by the random part of the trace id, so that all services of a trace decide alike.
bool is_sampled(const TraceId& id, double ratio) {
    if (ratio >= 1) return true;
    if (ratio <= 0) return false;
    std::uint64_t low = 0;
    for (std::size_t i = 9; i < 16; ++i) low = (low << 8U) | id.bytes[i];
    constexpr double range = 72057594037927936.0;  // 2^56
    return static_cast<double>(low) < ratio * range;
}

}  // namespace

TracerCore::TracerCore(TracerOptions options)
    : options_(std::move(options)),
      settings_(std::make_shared<const RunTrace::Settings>(settings_of(options_))),
      resource_(std::make_shared<const Resource>(options_.resource ? *options_.resource
                                                                   : resource_of(options_))),
      sink_(std::make_shared<SpanSink>(options_.exporters, resource_, options_.on_notice)),
      streams_(options_.stream_directory.empty()
                   ? nullptr
                   : std::make_unique<StreamWriter>(options_.stream_directory, settings_->losses)) {
}

std::shared_ptr<TracerCore> TracerCore::create(TracerOptions options) {
    auto core = std::make_shared<TracerCore>(std::move(options));
    // They may outlive the core, and count their exceptions: recording must not fail a call.
    auto on_request = [runs = core->runs_, losses = core->settings_->losses](
                          const RequestPayload& payload, const ProviderCall& call) {
        if (call.run_id().empty()) return;
        try {
            if (const auto run = runs->find(call.run_id()))
                run->start_chat(call, payload, run->info().wall_time(call.started));
        } catch (...) {
            losses->add(Loss::event, "a model call");
        }
    };
    auto on_response = [runs = core->runs_, losses = core->settings_->losses](
                           const ProviderOutcome& outcome, const ProviderCall& call) {
        if (call.run_id().empty()) return;
        try {
            if (const auto run = runs->find(call.run_id()))
                run->end_chat(call, outcome, run->info().wall_time(outcome.ended));
        } catch (...) {
            losses->add(Loss::event, "a model call");
        }
    };
    core->watch_ = std::make_shared<ProviderWatch>(RequestObserver(std::move(on_request)),
                                                   ResponseObserver(std::move(on_response)));
    return core;
}

TraceParent TracerCore::parent_of(const RunInfo& info) const {
    if (!info.origin.parent_run_id.empty()) {
        if (const auto run = runs_->find(info.origin.parent_run_id)) {
            const SpanContext context = run->context_of_call(info.origin.parent_tool_call_id);
            TraceParent parent{context.trace_id, context.span_id, context.sampled, run->hold()};
            parent.redactions = run->content().redactions();
            return parent;
        }
    }
    const TraceContext* trace = info.origin.trace.get();
    TraceParent parent =
        parent_of_caller(trace ? std::string_view(trace->traceparent) : std::string_view());
    if (!parent.sampled)
        parent.hold = std::make_shared<SpanHold>(sink_, settings_->losses, std::move(parent.hold));
    return parent;
}

TraceParent TracerCore::parent_of_caller(std::string_view traceparent) const {
    if (const std::optional<SpanContext> caller = SpanContext::parse(traceparent)) {
        const bool sampled = options_.sampling.follow_caller
                                 ? caller->sampled
                                 : is_sampled(caller->trace_id, options_.sampling.ratio);
        TraceParent parent{caller->trace_id, caller->span_id, sampled};
        parent.hold = holds_.find(caller->span_id.hex());
        parent.remote = !parent.hold;
        return parent;
    }
    TraceParent parent;
    parent.trace_id = TraceId::random();
    parent.sampled = is_sampled(parent.trace_id, options_.sampling.ratio);
    return parent;
}

std::shared_ptr<RunTrace> TracerCore::start_run(std::shared_ptr<const RunInfo> info,
                                                RunTrace::Time start,
                                                std::shared_ptr<const RunTrace::Settings> own) {
    TraceParent parent = parent_of(*info);
    std::shared_ptr<const RunTrace::Settings> settings = own ? std::move(own) : settings_;
    auto run =
        RunTrace::create(std::move(settings), sink_, std::move(info), std::move(parent), start);
    if (const TraceContext* context = run->info().origin.trace.get()) {
        for (Attribute& one : attributes_of(*context))
            run->set_attribute(std::move(one.key), std::move(one.value));
    }
    runs_->add(run->info().run_id, run);
    return run;
}

bool TracerCore::flush(std::chrono::milliseconds limit) {
    const auto end = deadline_after(std::chrono::steady_clock::now(), limit);
    const bool exported = sink_->force_flush(limit);
    return (!streams_ || streams_->flush(time_until(end))) && exported;
}

bool TracerCore::shutdown(std::chrono::milliseconds limit) {
    const auto end = deadline_after(std::chrono::steady_clock::now(), limit);
    const bool exported = sink_->shutdown(limit);
    const bool written = !streams_ || streams_->close(time_until(end));
    losses().end();
    return exported && written;
}

std::shared_ptr<SpanHold> TracerCore::hold_for(const TraceParent& parent, const SpanContext& span) {
    std::shared_ptr<SpanHold> hold =
        parent.hold ? parent.hold : std::make_shared<SpanHold>(sink_, settings_->losses);
    holds_.add(span.span_id.hex(), hold);
    return hold;
}

void TracerCore::end_hold(const SpanContext& span, const SpanHold* hold) noexcept {
    try {
        holds_.remove(span.span_id.hex(), hold);
    } catch (...) {
        report_failure("the end of a span");
    }
}

}  // namespace cubepi::detail

namespace cubepi {

namespace {

/// The key in the thread's `extra` with the span of a run that waits for the user: `{"run_id", "traceparent"}`. The run may be
/// continued by another process, whose span links to it (D26).
constexpr std::string_view context_key = "cubepi.trace";

std::shared_ptr<const RunInfo> info_of_oneshot(const Runtime& runtime, OneshotOptions& options) {
    auto info = std::make_shared<RunInfo>();
    info->run_id = runtime.ids->next();
    info->created = runtime.clock->now();
    info->created_wall = runtime.clock->wall();
    options.trace.metadata["oneshot_operation"] = options.operation;
    info->origin.trace = std::make_shared<const TraceContext>(std::move(options.trace));
    return info;
}

std::shared_ptr<const detail::RunTrace::Settings> settings_of_oneshot(
    const detail::TracerCore& core, const OneshotOptions& options) {
    const bool content = options.record_content.value_or(core.options().record_content);
    return std::make_shared<const detail::RunTrace::Settings>(detail::RunTrace::Settings{
        detail::ContentFilter(content, core.options().redact, core.shared_losses()),
        core.settings().agent_name, core.settings().keep_failed, core.shared_losses()});
}

detail::RunEnding ending_of(const AssistantMessage& answer, const Model& model,
                            std::size_t message_count) {
    detail::RunEnding ending;
    if (answer.stop_reason == stop_reason::error) ending.outcome = RunOutcome::failed;
    if (answer.stop_reason == stop_reason::aborted) ending.outcome = RunOutcome::aborted;
    ending.message_count = message_count;
    ending.cost = cost_of(answer, model);
    return ending;
}

/// Takes a run off the table, also if the coroutine is destroyed.
struct ForgetAtEnd {
    detail::TracerCore& core;
    const detail::RunTrace& run;
    ~ForgetAtEnd() { core.forget(run); }
};

}  // namespace

namespace detail {

/// Turns the events of one agent into spans. Used on the agent's executor.
class AgentRecorder {
public:
    AgentRecorder(std::shared_ptr<TracerCore> core, Agent& agent);
    ~AgentRecorder() {
        detach();
        core_->agents().remove(&agent_);
    }
    AgentRecorder(const AgentRecorder&) = delete;
    AgentRecorder& operator=(const AgentRecorder&) = delete;

    /// Subscribes to the agent, which must outlive the subscription or be destroyed with it. Returns the connection, which detaches
    /// when it is released.
    static std::shared_ptr<void> attach(std::shared_ptr<TracerCore> core, Agent& agent);

private:
    void detach() noexcept;
    void on_event(const AgentEvent& event) noexcept;
    void record(const AgentEvent& event);
    void record_update(const AgentEvent& event);
    void start_run(const AgentEvent& event);
    void end_run(const AgentEndEvent& event, RunTrace::Time now);
    void suspend_run(const AgentSuspendedEvent& event, RunTrace::Time now);
    void on_question(const HitlRequestEvent& event, RunTrace::Time now);
    void on_question_end();
    void on_notice(const Notice& notice, RunTrace::Time now);
    void follow_model();
    void link_to_suspended_run();
    ToolInfo info_of(const SharedString& tool_name) const;
    void forget_run() noexcept;

    const std::shared_ptr<TracerCore> core_;
    Agent& agent_;  // used in its listener only
    Subscription subscription_;
    ProviderWatch::Lease providers_;
    std::shared_ptr<const Model> model_;  // whose providers are observed
    std::shared_ptr<RunTrace> run_;       // null: none is active
    std::shared_ptr<StreamFile> stream_file_;
    std::weak_ptr<void> connection_;  // of all attachments
    std::size_t open_questions_ = 0;
    bool has_stored_context_ = false;  // in the thread's `extra`
};

AgentRecorder::AgentRecorder(std::shared_ptr<TracerCore> core, Agent& agent)
    : core_(std::move(core)), agent_(agent) {}

std::shared_ptr<void> AgentRecorder::attach(std::shared_ptr<TracerCore> core, Agent& agent) {
    if (std::shared_ptr<AgentRecorder> known = core->agents().find(&agent);
        known && known->subscription_.active()) {
        return known->connection_.lock();
    }
    auto recorder = std::make_shared<AgentRecorder>(std::move(core), agent);
    recorder->core_->agents().add(&agent, recorder);
    recorder->follow_model();
    // The listener owns the recorder, which is in use until the event ends: `redact` or a notice may detach it meanwhile.
    const bool writes_streams = !recorder->core_->options().stream_directory.empty();
    constexpr EventTypes without_updates =
        EventTypes::all_but({AgentEventType::message_update, AgentEventType::message_end});
    recorder->subscription_ =
        agent.subscribe([recorder](const AgentEvent& event) { recorder->on_event(event); },
                        writes_streams ? EventTypes() : without_updates);
    std::shared_ptr<void> connection(recorder.get(), [recorder](void*) { recorder->detach(); });
    recorder->connection_ = connection;
    return connection;
}

void AgentRecorder::detach() noexcept {
    connection_.reset();  // whose deleter owns this object
    subscription_.cancel();
    if (const std::shared_ptr<RunTrace> run = run_) {
        try {
            run->abandon(std::chrono::system_clock::now());
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
    const std::shared_ptr<StreamFile> file = stream_file_;  // `redact` may detach the recorder
    file->write(*event.stream_event(), event.timestamp);
}

void AgentRecorder::record(const AgentEvent& event) {
    if (event.type() == AgentEventType::agent_start) return start_run(event);
    const std::shared_ptr<RunTrace> run =
        run_;  // `redact` may detach the recorder, which releases the run
    if (!run) return;
    const RunTrace::Time now = event.wall_time();
    if (event.get_if<TurnStartEvent>()) {
        follow_model();
        run->start_turn(event.turn, now);
    } else if (const auto* message = event.get_if<MessageStartEvent>()) {
        run->start_message(message->message);
    } else if (const auto* turn = event.get_if<TurnEndEvent>()) {
        run->end_turn(*turn, now);
    } else if (const auto* started = event.get_if<ToolExecutionStartEvent>()) {
        run->start_tool(*started, info_of(started->tool_name), now);
    } else if (const auto* ended = event.get_if<ToolExecutionEndEvent>()) {
        run->end_tool(*ended, now);
    } else if (const auto* question = event.get_if<HitlRequestEvent>()) {
        on_question(*question, now);
    } else if (const auto* answer = event.get_if<HitlAnswerEvent>()) {
        run->end_answered_question(*answer, now);
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
    if (const std::shared_ptr<RunTrace> run = run_) {
        // A run that was cut off, for example by the end of its agent's executor.
        run->abandon(event.wall_time());
        forget_run();
    }
    run_ = core_->start_run(event.run, event.wall_time());
    open_questions_ = 0;
    link_to_suspended_run();
    if (core_->streams()) {
        stream_file_ = std::make_shared<StreamFile>(*core_->streams(), event.run_id(),
                                                    run_->content(), event.timestamp);
    }
}

/// Links a run that continues to the span that it had when it was suspended.
void AgentRecorder::link_to_suspended_run() {
    const Json* stored = agent_.state().extra.if_contains(context_key);
    const JsonObject* context = stored ? stored->if_object() : nullptr;
    has_stored_context_ = stored != nullptr && !stored->is_null();
    if (!context || detail::string_member(*context, "run_id") != run_->info().run_id) return;
    const auto earlier = SpanContext::parse(detail::string_member(*context, "traceparent"));
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
    const std::shared_ptr<RunTrace> run = run_;
    run->end(ending, now);
    forget_run();
}

void AgentRecorder::suspend_run(const AgentSuspendedEvent& event, RunTrace::Time now) {
    const std::shared_ptr<RunTrace> run = run_;
    run->suspend(event.cost, now);
    forget_run();
}

void AgentRecorder::on_question(const HitlRequestEvent& event, RunTrace::Time now) {
    const std::shared_ptr<RunTrace> run = run_;
    run->start_question(event.request, now);
    if (!run_) return;
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

ToolInfo AgentRecorder::info_of(const SharedString& tool_name) const {
    ToolInfo info;
    const AgentTool* tool = agent_.state().tools.find(tool_name.str());
    if (!tool) return info;
    info.description = tool->description;
    info.execution_mode = tool->execution_mode.value_or(ExecutionMode::parallel);
    return info;
}

/// Does nothing if `redact` has detached the recorder meanwhile.
void AgentRecorder::forget_run() noexcept {
    if (!run_) return;
    stream_file_.reset();
    core_->forget(*run_);
    run_.reset();
}

}  // namespace detail

ActiveSpan::ActiveSpan(std::shared_ptr<detail::TracerCore> core, std::shared_ptr<SpanData> data,
                       std::shared_ptr<detail::SpanHold> hold)
    : core_(std::move(core)), data_(std::move(data)), hold_(std::move(hold)) {}

ActiveSpan::ActiveSpan(ActiveSpan&&) noexcept = default;

ActiveSpan& ActiveSpan::operator=(ActiveSpan&& other) noexcept {
    if (this == &other) return *this;
    end();
    core_ = std::move(other.core_);
    data_ = std::move(other.data_);
    hold_ = std::move(other.hold_);
    return *this;
}

ActiveSpan::~ActiveSpan() { end(); }

void ActiveSpan::set_attribute(AttributeKey key, AttributeValue value) {
    if (data_) data_->attributes.set(std::move(key), std::move(value));
}

void ActiveSpan::set_error(std::string type, std::string_view text) {
    if (!data_) return;
    data_->status = SpanStatus::error;
    const detail::ContentFilter content =
        core_->settings().content.with(detail::SpanHold::redactions(hold_));
    data_->status_description = content.error_text(text, type);
    data_->attributes.set("error.type", SharedString(std::move(type)));
}

void ActiveSpan::end(Time time) noexcept {
    if (!data_) return;
    data_->end = time;
    const bool failed = data_->status == SpanStatus::error;
    const std::shared_ptr<detail::TracerCore> core = std::exchange(core_, nullptr);
    const std::shared_ptr<detail::SpanHold> hold = std::exchange(hold_, nullptr);
    std::shared_ptr<const SpanData> ended = std::exchange(data_, nullptr);
    core->end_hold(ended->context, hold.get());
    if (ended->context.sampled) return core->sink().add(std::move(ended));
    if (!core->settings().keep_failed) return;
    try {
        if (failed) hold->fail();
        hold->add(std::move(ended));
    } catch (...) {
        core->report_failure("a span");
    }
}

Tracer::Tracer(TracerOptions options) : core_(detail::TracerCore::create(std::move(options))) {}

Tracer::~Tracer() { (void)shutdown(std::chrono::seconds(5)); }

TraceAttachment Tracer::attach(Agent& agent) {
    return TraceAttachment(detail::AgentRecorder::attach(core_, agent));
}

ActiveSpan Tracer::start_span(SharedString name, ActiveSpanOptions options) {
    const detail::TraceParent parent = core_->parent_of_caller(options.trace.traceparent);
    auto data = std::make_shared<SpanData>();
    data->name = std::move(name);
    data->context = SpanContext{parent.trace_id, SpanId::random(), parent.sampled};
    data->parent = parent.span_id;
    if (parent.remote) data->attributes.add("cubepi.remote_parent", true);
    data->kind = options.kind;
    for (Attribute& one : detail::attributes_of(options.trace))
        data->attributes.set(std::move(one.key), std::move(one.value));
    data->start = options.start.value_or(std::chrono::system_clock::now());
    std::shared_ptr<detail::SpanHold> hold = core_->hold_for(parent, data->context);
    return ActiveSpan(core_, std::move(data), std::move(hold));
}

Task<AssistantMessage> Tracer::oneshot(BoundModel model, std::string system_prompt,
                                       MessageList messages, OneshotOptions options) {
    const std::shared_ptr<detail::TracerCore> core = core_;
    const std::shared_ptr<const Runtime> runtime =
        options.runtime ? options.runtime : Runtime::standard();
    const detail::ProviderWatch::Lease providers = core->watch({model});
    std::shared_ptr<const detail::RunTrace::Settings> settings =
        settings_of_oneshot(*core, options);
    const std::string operation = options.operation;
    std::shared_ptr<const RunInfo> info = info_of_oneshot(*runtime, options);
    StreamOptions call = StreamOptions().run_id(info->run_id).runtime(runtime);
    const auto run = core->start_run(std::move(info), runtime->clock->wall(), std::move(settings));
    const ForgetAtEnd forget{*core, *run};
    run->set_attribute("cubepi.oneshot.operation", SharedString(operation));
    for (const Message& message : messages) run->start_message(message);
    const std::size_t sent = messages.size();
    Task<AssistantMessage> calling =
        model.generate(std::move(messages), SharedString(system_prompt), {}, std::move(call));
    Outcome<AssistantMessage> answer = co_await outcome_of(std::move(calling));
    const auto now = run->info().wall_time(runtime->clock->now());
    if (answer.ok()) {
        run->end_answer(Message(answer.value()));
        run->end(ending_of(answer.value(), model.spec(), sent + 1), now);
    } else {
        run->abandon(now);
    }
    co_return std::move(answer).value();
}

bool Tracer::force_flush(std::chrono::milliseconds limit) { return core_->flush(limit); }

Task<bool> Tracer::flush(std::chrono::milliseconds limit) {
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    std::function<bool()> work = [core = core_, limit] { return core->flush(limit); };
    co_return co_await offload(*runtime->workers, std::move(work));
}

bool Tracer::shutdown(std::chrono::milliseconds limit) { return core_->shutdown(limit); }

const Resource& Tracer::resource() const noexcept { return *core_->resource(); }

std::vector<ExportCounts> Tracer::export_counts() const { return core_->sink().counts(); }

RecordingLosses Tracer::recording_losses() const {
    const detail::LossReport& losses = core_->losses();
    RecordingLosses counts;
    counts.redacted_values = losses.count(detail::Loss::redacted_value);
    counts.held_spans = losses.count(detail::Loss::held_span);
    counts.stream_lines = losses.count(detail::Loss::stream_line);
    counts.events = losses.count(detail::Loss::event);
    return counts;
}

}  // namespace cubepi
