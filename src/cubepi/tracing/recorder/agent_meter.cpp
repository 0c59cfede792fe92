#include <cubepi/tracing/recorder/agent_meter.hpp>

#include <algorithm>

#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/recorder/chat_attributes.hpp>
#include <cubepi/tracing/recorder/question_facts.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace cubepi::detail {

namespace {

/// The bounds of durations in the reference, in seconds.
std::vector<double> duration_bounds() {
    return {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300};
}

Resource resource_of_meter(const MeterOptions& options) {
    if (options.resource) return *options.resource;
    Resource resource;
    resource.attributes = options.resource_attributes;
    if (!options.service_name.empty()) {
        resource.attributes.set("service.name", SharedString(options.service_name));
    } else if (!resource.attributes.find("service.name")) {
        resource.attributes.add("service.name", "cubepi");
    }
    return resource;
}

double seconds(std::chrono::steady_clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
}

}  // namespace

MeterCore::MeterCore(MeterOptions options)
    : agent_name_(options.agent_name),
      resource_(std::make_shared<const Resource>(resource_of_meter(options))),
      registry_(std::make_shared<MetricRegistry>()),
      durations_(registry_->histogram("gen_ai.client.operation.duration", "s",
                                      "Duration of runs, model calls and tool calls.",
                                      duration_bounds())),
      tokens_(registry_->histogram("gen_ai.client.token.usage", "{token}",
                                   "Tokens of model calls; input includes cached tokens.")),
      first_chunks_(registry_->histogram("gen_ai.client.operation.time_to_first_chunk", "s",
                                         "Time from the request to the first output.",
                                         duration_bounds())),
      cost_(registry_->counter("cubepi.client.cost", "USD",
                               "Cost of model calls with a known price.")),
      questions_(registry_->counter("cubepi.hitl.requests", "{request}",
                                    "Questions to the user that have ended.")),
      reader_(registry_, std::move(options.exporters), resource_, options.reader,
              std::move(options.on_notice)) {}

std::shared_ptr<MeterCore> MeterCore::create(MeterOptions options) {
    auto core = std::make_shared<MeterCore>(std::move(options));
    // The providers may outlive the meter.
    const std::weak_ptr<MeterCore> weak = core;
    core->watch_ = std::make_shared<ProviderWatch>(
        RequestObserver(),
        ResponseObserver([weak](const ProviderOutcome& outcome, const ProviderCall& call) {
            if (const auto self = weak.lock()) self->record_call(call, outcome);
        }));
    return core;
}

Attributes MeterCore::attributes_of(std::string_view operation, SharedString provider) const {
    Attributes attributes;
    attributes.reserve(8);
    attributes.add("gen_ai.operation.name", shared_name(operation));
    attributes.add("gen_ai.provider.name", std::move(provider));
    if (!agent_name_.empty()) attributes.add("gen_ai.agent.name", agent_name_);
    return attributes;
}

void MeterCore::record_call(const ProviderCall& call, const ProviderOutcome& outcome) {
    // Calls of agents that are not attached are not measured.
    const std::shared_ptr<MeteredRun> run =
        call.run_id().empty() ? nullptr : runs_.find(call.run_id());
    if (!run) return;
    const SharedString provider = provider_name(call.model().provider_id);
    if (call.purpose().empty()) run->set_provider(provider);
    Attributes attributes = attributes_of("chat", provider);
    attributes.add("gen_ai.request.model", shared_name(call.model().id));
    const AssistantMessage* answer = outcome.message ? outcome.message.assistant() : nullptr;
    if (!answer || answer->stop_reason == stop_reason::aborted) {
        attributes.add("error.type", SharedString("cubepi.aborted"));
    } else if (outcome.error) {
        attributes.add("error.type", SharedString(error_type_of_call(*outcome.error)));
    } else if (!answer->model_id.empty()) {
        attributes.add("gen_ai.response.model", answer->model_id);
    }
    const auto now = call.request.options.runtime()->clock->now();
    durations_.record(seconds(now - outcome.started), attributes);
    if (outcome.first_chunk)
        first_chunks_.record(seconds(*outcome.first_chunk - outcome.started), attributes);
    if (!answer || !answer->usage) return;
    record_tokens(*answer->usage, attributes);
    const std::optional<double> cost = cost_of(*answer, call.model());
    if (cost && *cost > 0) cost_.add(*cost, attributes);
}

void MeterCore::record_tokens(const Usage& usage, const Attributes& attributes) const {
    const auto record = [&](const char* type, std::int64_t count) {
        if (count <= 0) return;
        Attributes typed = attributes;
        typed.add("gen_ai.token.type", shared_name(type));
        tokens_.record(static_cast<double>(count), typed);
    };
    record("input", usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0) +
                        usage.cache_write_tokens.value_or(0));
    record("output", usage.output_tokens.value_or(0));
}

// The agent.

std::shared_ptr<AgentMeter> AgentMeter::attach(std::shared_ptr<MeterCore> core, Agent& agent) {
    auto meter = std::make_shared<AgentMeter>(std::move(core), agent);
    meter->follow_model();
    const std::weak_ptr<AgentMeter> weak = meter;
    meter->subscription_ = agent.subscribe([weak](const AgentEvent& event) {
        if (const auto self = weak.lock()) self->on_event(event);
    });
    return meter;
}

void AgentMeter::detach() noexcept {
    subscription_.cancel();
    if (run_) forget_run();
    providers_ = ProviderWatch::Lease();
}

void AgentMeter::on_event(const AgentEvent& event) noexcept {
    try {
        if (event.type() != AgentEventType::message_update) record(event);
    } catch (...) {
        // A value that could not be recorded must not fail the run: memory is exhausted.
    }
}

void AgentMeter::record(const AgentEvent& event) {
    if (event.get_if<AgentStartEvent>()) return start_run(event);
    if (!run_) return;
    if (event.get_if<TurnStartEvent>()) {
        follow_model();
    } else if (const auto* started = event.get_if<ToolExecutionStartEvent>()) {
        tools_.push_back(Tool{started->tool_call_id, event.timestamp});
    } else if (const auto* ended = event.get_if<ToolExecutionEndEvent>()) {
        end_tool(*ended, event.timestamp);
    } else if (const auto* turn = event.get_if<TurnEndEvent>()) {
        note_answer(*turn);
    } else if (const auto* question = event.get_if<HitlRequestEvent>()) {
        questions_.push_back(
            Question{question->request.question_id, question_kind(question->request)});
    } else if (const auto* answer = event.get_if<HitlAnswerEvent>()) {
        const auto found =
            std::find_if(questions_.begin(), questions_.end(),
                         [&](const Question& one) { return one.id == answer->question_id; });
        if (found != questions_.end())
            end_question(answer->question_id, answer_outcome(found->kind, *answer));
    } else if (const auto* notice = event.get_if<NoticeEvent>()) {
        if (const auto end = question_end(notice->notice))
            end_question(end->question_id, end->outcome);
    } else if (event.get_if<AgentEndEvent>()) {
        end_run(event, outcome_);
    } else if (event.get_if<AgentSuspendedEvent>()) {
        end_run(event, "suspended");
    }
}

void AgentMeter::start_run(const AgentEvent& event) {
    if (run_) forget_run();
    run_ = std::make_shared<MeteredRun>();
    run_id_ = event.run_id();
    start_ = event.timestamp;
    outcome_ = "completed";
    error_type_.clear();
    tools_.clear();
    questions_.clear();
    core_->runs().add(run_id_, run_);
}

void AgentMeter::note_answer(const TurnEndEvent& event) {
    const AssistantMessage* answer = event.message ? event.message.assistant() : nullptr;
    if (!answer) return;
    const bool failed = answer->stop_reason == stop_reason::error;
    const bool aborted = answer->stop_reason == stop_reason::aborted;
    outcome_ = failed ? "failed" : aborted ? "aborted" : "completed";
    error_type_.clear();
    if (failed) error_type_ = answer->error ? error_type_of_call(*answer->error) : "cubepi.error";
    if (aborted) error_type_ = "cubepi.aborted";
}

void AgentMeter::end_run(const AgentEvent& event, std::string_view outcome) {
    Attributes attributes = core_->attributes_of("invoke_agent", run_->provider());
    attributes.add("cubepi.run.outcome", shared_name(outcome));
    if (!error_type_.empty()) attributes.add("error.type", SharedString(error_type_));
    core_->durations().record(seconds(event.timestamp - start_), attributes);
    forget_run();
}

void AgentMeter::end_tool(const ToolExecutionEndEvent& event, Time now) {
    const auto tool = std::find_if(tools_.begin(), tools_.end(),
                                   [&](const Tool& one) { return one.id == event.tool_call_id; });
    if (tool == tools_.end()) return;
    Attributes attributes = core_->attributes_of("execute_tool", run_->provider());
    // A name that the model has invented would be a point of its own.
    const bool known = agent_.state().tools.find(event.tool_name.str()) != nullptr;
    attributes.add("gen_ai.tool.name", known ? event.tool_name : shared_name("(unknown)"));
    if (event.is_error) {
        attributes.add("error.type",
                       shared_name(event.blocked_by_hook ? "cubepi.tool.blocked_by_hook"
                                                         : "cubepi.tool.error"));
    }
    core_->durations().record(seconds(now - tool->start), attributes);
    tools_.erase(tool);
}

void AgentMeter::end_question(std::string_view question_id, std::string_view outcome) {
    const auto found = std::find_if(questions_.begin(), questions_.end(),
                                    [&](const Question& one) { return one.id == question_id; });
    if (found == questions_.end()) return;
    Attributes attributes;
    attributes.add("hitl.kind", shared_name(found->kind));
    attributes.add("hitl.outcome", shared_name(outcome));
    core_->questions().add(1, attributes);
    questions_.erase(found);
}

void AgentMeter::follow_model() {
    const std::shared_ptr<const Model>& current = agent_.state().model;
    if (current == model_) return;
    ProviderWatch::Lease providers = core_->watch(agent_.models());
    providers_ = std::move(providers);
    model_ = current;
}

void AgentMeter::forget_run() noexcept {
    core_->runs().remove(run_id_, run_.get());
    run_.reset();
}

}  // namespace cubepi::detail
