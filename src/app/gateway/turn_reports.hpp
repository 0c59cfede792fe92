#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/tracing/meter.hpp>

namespace cubepi::app {

/// The text for senders about a failure that has none of its own.
inline constexpr std::string_view general_failure =
    "The message could not be processed because of a technical problem.";

/// Reports the turns of a gateway (D98): to operators as a line of the log for each turn and as metrics by channel, to senders as a text
/// for each failure, with an id under which the log has the details. Thread-safe.
class TurnReports final : public bub::ManagerObserver {
public:
    TurnReports(MetricRegistry& registry, bub::WarningHandler warn);

    /// The metrics of these channels are shown from now on, beginning with zeros. Other channels are not distinguished.
    void add_channels(const std::vector<std::string>& names);
    /// Returns the function that describes failures to senders. `with_details`: the description of the failure follows.
    static bub::FailureText failure_text(std::shared_ptr<const TurnReports> reports,
                                         bool with_details);
    /// Notes the tokens and the cost of a turn before its end.
    void note_result(const std::string& session_id, const RunResult& result);

    void received(const bub::Envelope& message) noexcept override;
    void turn_ended(const bub::EndedTurn& turn) noexcept override;

    /// Returns the name of a channel as the value of a label.
    std::string label_of(const std::string& channel) const;
    std::vector<std::string> channels() const;

private:
    struct Spending {
        Usage usage = {};
        std::optional<double> cost = {};
        std::string model = {};
    };

    std::string describe(const std::exception_ptr& failure, bool with_details) const;
    std::string label_of(const bub::Envelope& message) const;
    Spending take_spending(const std::string& session_id);
    void log(const bub::EndedTurn& turn, const Spending& spent) const;
    void measure(const bub::EndedTurn& turn, const Spending& spent) const;

    const bub::WarningHandler warn_;
    const Counter received_;
    const Counter answered_;
    const Counter failed_;
    const Counter held_;
    const Histogram latency_;
    const Counter tokens_;
    const Counter cost_;
    mutable std::mutex mutex_;
    std::map<std::string, Spending> spending_;  // by session, of turns in progress
    std::vector<std::string> channels_;
};

/// Passes the messages whose turns report the results of sub-agents in the background to the channel manager of a gateway, as if their
/// channels had received them (D127). Created and destroyed on the executor of the manager.
class TaskResults {
public:
    TaskResults(Executor executor, bub::WarningHandler on_warning);
    ~TaskResults();
    TaskResults(const TaskResults&) = delete;
    TaskResults& operator=(const TaskResults&) = delete;

    /// Must be called before the first turn. `manager` must outlive this object.
    void connect(bub::ChannelManager& manager);
    /// Thread-safe. A message that the manager does not accept is dropped: the next turn of its session has the results.
    void deliver(bub::Envelope message) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi::app
