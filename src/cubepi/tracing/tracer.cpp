#include <cubepi/tracing/tracer.hpp>

#include <utility>

#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/recorder/agent_recorder.hpp>
#include <cubepi/tracing/recorder/trace_attributes.hpp>
#include <cubepi/tracing/recorder/tracer_core.hpp>

namespace cubepi {

namespace {

constexpr std::chrono::seconds destructor_limit{5};

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

// The attachment.

TraceAttachment::TraceAttachment(std::shared_ptr<detail::AgentRecorder> recorder)
    : recorder_(std::move(recorder)) {}

TraceAttachment::TraceAttachment(TraceAttachment&&) noexcept = default;

TraceAttachment& TraceAttachment::operator=(TraceAttachment&& other) noexcept {
    if (this == &other) return *this;
    detach();
    recorder_ = std::move(other.recorder_);
    return *this;
}

TraceAttachment::~TraceAttachment() { detach(); }

void TraceAttachment::detach() noexcept {
    if (recorder_) recorder_->detach();
    recorder_.reset();
}

// The tracer.

Tracer::Tracer(TracerOptions options) : core_(detail::TracerCore::create(std::move(options))) {}

Tracer::~Tracer() { (void)shutdown(destructor_limit); }

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
