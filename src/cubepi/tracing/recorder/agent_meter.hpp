#pragma once

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
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/recorder/provider_watch.hpp>
#include <cubepi/tracing/recorder/recorder_cache.hpp>
#include <cubepi/tracing/recorder/run_table.hpp>

namespace cubepi::detail {

class MeterCore;

/// An active run. The table of runs guards it: it is used under the lock of its part, or when it is not in the table.
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
    const Counter& questions() const noexcept { return questions_; }
    /// Reports an exception inside a recorder; only the first one.
    void report_failure() noexcept;

private:
    struct Call;
    struct CallRecorders {
        AttributeValue provider;
        HistogramRecorder duration;
        std::optional<HistogramRecorder> first_chunk = {};
        std::optional<HistogramRecorder> input = {};
        std::optional<HistogramRecorder> output = {};
        std::optional<CounterRecorder> cost = {};
    };

    struct RunRecorders {
        HistogramRecorder duration;
        std::optional<CounterRecorder> cost = {};
    };

    static void record_call(MeteredRun& run, const ProviderCall& call,
                            const ProviderOutcome& outcome);
    CallRecorders recorders_of(const Call& call) const;
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
    RecorderCache<CallRecorders> calls_;  // without an error
    RecorderCache<RunRecorders> ended_runs_;
    RecorderCache<HistogramRecorder> tools_;
    // Shared with the observers of providers, which may outlive the core.
    const std::shared_ptr<RunTable<MeteredRun>> runs_ = std::make_shared<RunTable<MeteredRun>>();
    MetricReader reader_;
    std::shared_ptr<ProviderWatch> watch_;
    std::atomic<bool> failure_reported_ = false;
};

/// Measures the runs of one agent. Used on the agent's executor.
class AgentMeter {
public:
    AgentMeter(std::shared_ptr<MeterCore> core, Agent& agent)
        : core_(std::move(core)), agent_(agent), run_(std::make_shared<MeteredRun>()) {
        run_->core = core_.get();
    }
    ~AgentMeter() { detach(); }
    AgentMeter(const AgentMeter&) = delete;
    AgentMeter& operator=(const AgentMeter&) = delete;

    static std::shared_ptr<AgentMeter> attach(std::shared_ptr<MeterCore> core, Agent& agent);
    void detach() noexcept;

private:
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
};

}  // namespace cubepi::detail
