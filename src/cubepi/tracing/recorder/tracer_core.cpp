#include <cubepi/tracing/recorder/tracer_core.hpp>

#include <utility>

#include <cubepi/tracing/export/export_thread.hpp>
#include <cubepi/tracing/recorder/conventions.hpp>

namespace cubepi::detail {

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
            return TraceParent{context.trace_id, context.span_id, context.sampled, run->hold()};
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
