#include <cubepi/tracing/meter.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <cubepi/agent/agent.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/recorder/conventions.hpp>
#include <cubepi/tracing/recorder/shared_tables.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace cubepi {

namespace detail {

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

class AgentMeter;
class MeterCore;

/// An active run. The table of runs guards it: it is used under the lock of the table, or when it is not in the table.
struct MeteredRun {
    MeterCore* core = nullptr;  ///< exists while the run is in the table
    /// Of the last answer, "cubepi" before the first one: the points of the run and of its tools name it.
    AttributeValue provider = "cubepi";
};

/// The instruments, and the state shared by all agents of a meter. Thread-safe.
class MeterCore {
public:
    explicit MeterCore(MeterOptions options);
    static std::shared_ptr<MeterCore> create(MeterOptions options);

    ProviderWatch::Lease watch(const std::vector<BoundModel>& models) {
        return ProviderWatch::watch(watch_, models);
    }
    /// `error_type`: empty if there was no error. `cost`: 0: none, unknown, or that of a nested run.
    void record_run(const AttributeValue& provider, std::string_view outcome,
                    std::string_view error_type, double duration, double cost);
    void record_tool(const AttributeValue& provider, std::string_view tool,
                     std::string_view error_type, double duration);

    const std::shared_ptr<MetricRegistry>& registry() const noexcept { return registry_; }
    const std::shared_ptr<const Resource>& resource() const noexcept { return resource_; }
    MetricReader& reader() noexcept { return reader_; }
    RunTable<MeteredRun>& runs() noexcept { return *runs_; }
    AttachedAgents<AgentMeter>& agents() noexcept { return agents_; }
    const Counter& questions() const noexcept { return questions_; }
    /// Reports an exception inside a recorder; only the first one.
    void report_failure() noexcept;

private:
    static void record_call(MeteredRun& run, const ProviderCall& call,
                            const ProviderOutcome& outcome);
    /// Returns the attributes that all points of an operation have.
    Attributes attributes_of(AttributeValue operation, AttributeValue provider) const;

    const std::function<void(const Notice&)> on_notice_;
    const SharedString agent_name_;
    const std::shared_ptr<const Resource> resource_;
    const std::shared_ptr<MetricRegistry> registry_;
    const Histogram durations_;
    const Histogram tokens_;
    const Histogram first_chunks_;
    const Counter cost_;
    const Counter run_cost_;
    const Counter questions_;
    // Shared with the observers of providers, which may outlive the core.
    const std::shared_ptr<RunTable<MeteredRun>> runs_ = std::make_shared<RunTable<MeteredRun>>();
    AttachedAgents<AgentMeter> agents_;
    MetricReader reader_;
    std::shared_ptr<ProviderWatch> watch_;
    std::atomic<bool> failure_reported_ = false;
};

MeterCore::MeterCore(MeterOptions options)
    : on_notice_(options.on_notice),
      agent_name_(options.agent_name),
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
      run_cost_(registry_->counter("cubepi.run.cost", "USD",
                                   "Cost of runs with what tools charged, sub-agents included.")),
      questions_(registry_->counter("cubepi.hitl.requests", "{request}",
                                    "Questions to the user that have ended.")),
      reader_(registry_, std::move(options.exporters), resource_, options.reader,
              std::move(options.on_notice)) {}

std::shared_ptr<MeterCore> MeterCore::create(MeterOptions options) {
    auto core = std::make_shared<MeterCore>(std::move(options));
    // Calls of runs that are not in the table are those of agents that are not attached.
    auto on_response = [runs = core->runs_](const ProviderOutcome& outcome,
                                            const ProviderCall& call) {
        if (call.run_id().empty()) return;
        runs->with(call.run_id(), [&](MeteredRun& run) { record_call(run, call, outcome); });
    };
    core->watch_ = std::make_shared<ProviderWatch>(RequestObserver(),
                                                   ResponseObserver(std::move(on_response)));
    return core;
}

Attributes MeterCore::attributes_of(AttributeValue operation, AttributeValue provider) const {
    Attributes attributes;
    attributes.reserve(8);
    attributes.add("gen_ai.operation.name", std::move(operation));
    attributes.add("gen_ai.provider.name", std::move(provider));
    if (!agent_name_.empty()) attributes.add("gen_ai.agent.name", agent_name_);
    return attributes;
}

/// Creates only the points that have a value.
void MeterCore::record_call(MeteredRun& run, const ProviderCall& call,
                            const ProviderOutcome& outcome) {
    const AssistantMessage* answer = outcome.message ? outcome.message.assistant() : nullptr;
    std::string error_type;
    if (!answer || answer->stop_reason == stop_reason::aborted) {
        error_type = "cubepi.aborted";
    } else if (outcome.error) {
        error_type = error_type_of_call(*outcome.error);
    } else if (answer->stop_reason == stop_reason::error) {
        error_type = "cubepi.error";
    }
    const MeterCore& core = *run.core;
    const AttributeValue provider = provider_name(call.model().provider_id);
    if (call.purpose().empty()) run.provider = provider;
    Attributes attributes = core.attributes_of("chat", provider);
    attributes.add("gen_ai.request.model", shared_name(call.model().id));
    if (error_type.empty()) {
        attributes.add("gen_ai.response.model",
                       shared_name(outcome.details.model.empty() ? answer->model_id.str()
                                                                 : outcome.details.model));
    } else {
        attributes.add("error.type", SharedString(error_type));
    }
    core.durations_.record(seconds(outcome.ended - outcome.started), attributes);
    if (outcome.first_chunk)
        core.first_chunks_.record(seconds(*outcome.first_chunk - outcome.started), attributes);
    if (!answer || !answer->usage) return;
    const double cost = cost_of(*answer, call.model()).value_or(0);
    if (cost > 0) core.cost_.add(cost, attributes);
    const Usage& usage = *answer->usage;
    const auto record_tokens = [&](const char* type, std::int64_t tokens) {
        if (tokens <= 0) return;
        Attributes typed = attributes;
        typed.add("gen_ai.token.type", shared_name(type));
        core.tokens_.record(static_cast<double>(tokens), typed);
    };
    record_tokens("input", usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0) +
                               usage.cache_write_tokens.value_or(0));
    record_tokens("output", usage.output_tokens.value_or(0));
}

void MeterCore::record_run(const AttributeValue& provider, std::string_view outcome,
                           std::string_view error_type, double duration, double cost) {
    Attributes attributes = attributes_of("invoke_agent", provider);
    attributes.add("cubepi.run.outcome", shared_name(outcome));
    if (!error_type.empty()) attributes.add("error.type", SharedString(error_type));
    durations_.record(duration, attributes);
    if (cost > 0) run_cost_.add(cost, attributes);
}

void MeterCore::record_tool(const AttributeValue& provider, std::string_view tool,
                            std::string_view error_type, double duration) {
    Attributes attributes = attributes_of("execute_tool", provider);
    attributes.add("gen_ai.tool.name", shared_name(tool));
    if (!error_type.empty()) attributes.add("error.type", shared_name(error_type));
    durations_.record(duration, attributes);
}

void MeterCore::report_failure() noexcept {
    if (failure_reported_.exchange(true) || !on_notice_) return;
    try {
        Notice notice;
        notice.code = "metrics_failed";
        notice.text = "An event of a run was not measured: an exception in the meter.";
        on_notice_(notice);
    } catch (...) {
        // Measuring must not fail a run.
    }
}

/// Measures the runs of one agent. Used on the agent's executor.
class AgentMeter {
public:
    AgentMeter(std::shared_ptr<MeterCore> core, Agent& agent)
        : core_(std::move(core)), agent_(agent), run_(std::make_shared<MeteredRun>()) {
        run_->core = core_.get();
    }
    ~AgentMeter() {
        detach();
        core_->agents().remove(&agent_);
    }
    AgentMeter(const AgentMeter&) = delete;
    AgentMeter& operator=(const AgentMeter&) = delete;

    /// Returns the connection, which detaches when it is released.
    static std::shared_ptr<void> attach(std::shared_ptr<MeterCore> core, Agent& agent);

private:
    void detach() noexcept;
    using Time = std::chrono::steady_clock::time_point;
    struct Tool {
        SharedString id;
        Time start;
    };
    struct Question {
        std::string id;
        std::string_view kind;
    };

    void on_event(const AgentEvent& event) noexcept;
    void record(const AgentEvent& event);
    void start_run(const AgentEvent& event);
    void end_run(const AgentEvent& event, const AgentEndEvent& end);
    void count_run(const AgentEvent& event, RunOutcome outcome, std::string_view error_type,
                   std::optional<double> cost);
    void end_tool(const ToolExecutionEndEvent& event, Time now);
    void end_question(std::string_view question_id, std::string_view outcome);
    void note_answer(const TurnEndEvent& event);
    void follow_model();
    void forget_run() noexcept;

    const std::shared_ptr<MeterCore> core_;
    Agent& agent_;  // used in its listener only
    Subscription subscription_;
    ProviderWatch::Lease providers_;
    std::shared_ptr<const Model> model_;
    std::shared_ptr<const RunInfo> info_;  // null: no run is active
    std::shared_ptr<MeteredRun> run_;      // in the table during a run
    Time start_;
    std::string error_type_;  // of the last answer; empty: it has not failed
    boost::container::small_vector<Tool, 2> tools_;
    std::vector<Question> questions_;
    std::weak_ptr<void> connection_;  // of all attachments
};

std::shared_ptr<void> AgentMeter::attach(std::shared_ptr<MeterCore> core, Agent& agent) {
    if (std::shared_ptr<AgentMeter> known = core->agents().find(&agent);
        known && known->subscription_.active()) {
        return known->connection_.lock();
    }
    auto meter = std::make_shared<AgentMeter>(std::move(core), agent);
    meter->core_->agents().add(&agent, meter);
    meter->follow_model();
    // The listener owns the meter, which is in use until the event ends: a notice may detach it meanwhile.
    meter->subscription_ = agent.subscribe(
        [meter](const AgentEvent& event) { meter->on_event(event); },
        EventTypes::all_but({AgentEventType::message_start, AgentEventType::message_update,
                             AgentEventType::message_end}));
    std::shared_ptr<void> connection(meter.get(), [meter](void*) { meter->detach(); });
    meter->connection_ = connection;
    return connection;
}

void AgentMeter::detach() noexcept {
    connection_.reset();  // whose deleter owns this object
    subscription_.cancel();
    if (info_) forget_run();
    providers_ = ProviderWatch::Lease();
}

void AgentMeter::on_event(const AgentEvent& event) noexcept {
    try {
        record(event);
    } catch (...) {
        core_->report_failure();
    }
}

void AgentMeter::record(const AgentEvent& event) {
    if (event.get_if<AgentStartEvent>()) return start_run(event);
    if (!info_) return;
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
    } else if (const auto* end = event.get_if<AgentEndEvent>()) {
        end_run(event, *end);
    } else if (const auto* suspended = event.get_if<AgentSuspendedEvent>()) {
        count_run(event, RunOutcome::suspended, std::string_view(), suspended->cost);
    }
}

void AgentMeter::start_run(const AgentEvent& event) {
    if (info_) forget_run();
    run_->provider = "cubepi";
    info_ = event.run;
    start_ = event.timestamp;
    error_type_.clear();
    tools_.clear();
    questions_.clear();
    core_->runs().add(info_->run_id, run_);
}

void AgentMeter::note_answer(const TurnEndEvent& event) {
    const AssistantMessage* answer = event.message ? event.message.assistant() : nullptr;
    if (!answer) return;
    error_type_.clear();
    if (answer->stop_reason == stop_reason::error)
        error_type_ = answer->error ? error_type_of_call(*answer->error) : "cubepi.error";
}

void AgentMeter::end_run(const AgentEvent& event, const AgentEndEvent& end) {
    std::string error_type;
    if (end.outcome == RunOutcome::aborted) error_type = "cubepi.aborted";
    if (end.outcome == RunOutcome::failed) {
        error_type = error_type_;
        if (error_type.empty())
            error_type = end.error ? error_type_of_run(*end.error) : "cubepi.error";
    }
    count_run(event, end.outcome, error_type, end.cost);
}

/// A run includes the cost of its nested runs.
void AgentMeter::count_run(const AgentEvent& event, RunOutcome outcome, std::string_view error_type,
                           std::optional<double> cost) {
    const bool is_nested = !event.run->origin.parent_run_id.empty();
    forget_run();
    core_->record_run(run_->provider, to_string(outcome), error_type,
                      seconds(event.timestamp - start_), is_nested ? 0 : cost.value_or(0));
}

void AgentMeter::end_tool(const ToolExecutionEndEvent& event, Time now) {
    const auto tool = std::find_if(tools_.begin(), tools_.end(),
                                   [&](const Tool& one) { return one.id == event.tool_call_id; });
    if (tool == tools_.end()) return;
    // A name that the model has invented would be a point of its own.
    const bool known = agent_.state().tools.find(event.tool_name.str()) != nullptr;
    const std::string_view name = known ? std::string_view(event.tool_name) : "(unknown)";
    std::string_view error_type;
    if (event.is_error)
        error_type = event.blocked_by_hook ? "cubepi.tool.blocked_by_hook" : "cubepi.tool.error";
    std::unique_lock lock = core_->runs().lock();
    const AttributeValue provider = run_->provider;
    lock.unlock();
    core_->record_tool(provider, name, error_type, seconds(now - tool->start));
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
    core_->runs().remove(info_->run_id, run_.get());
    info_.reset();
}

}  // namespace detail

Meter::Meter(MeterOptions options) : core_(detail::MeterCore::create(std::move(options))) {}

Meter::~Meter() { (void)shutdown(std::chrono::seconds(5)); }

MeterAttachment Meter::attach(Agent& agent) {
    return MeterAttachment(detail::AgentMeter::attach(core_, agent));
}

MetricRegistry& Meter::registry() noexcept { return *core_->registry(); }

MetricSnapshot Meter::snapshot() const { return core_->registry()->snapshot(); }

std::string Meter::prometheus_text() const {
    return cubepi::prometheus_text(snapshot(), *core_->resource());
}

bool Meter::force_flush(std::chrono::milliseconds limit) {
    return core_->reader().force_flush(limit);
}

bool Meter::shutdown(std::chrono::milliseconds limit) { return core_->reader().shutdown(limit); }

}  // namespace cubepi
