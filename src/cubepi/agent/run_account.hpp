#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/core/usage.hpp>

namespace cubepi {

class HitlChannel;
struct HookSet;
class StreamOptions;

/// The model calls of a run, summed.
struct Spending {
    Usage usage = {};
    std::optional<double> cost = 0.0;  ///< USD; absent: unknown
};

/// The part of a run that the code it calls may use: its identity, what decides about its calls, and an account for model calls
/// that are made on its behalf (D67). Thread-safe. May outlive the run.
///
/// An account may have a limit, and share that of another one, its budget: what a call of the run can cost is reserved in both
/// before it is made (D120), so that runs that share a budget do not exceed it together. When a run ends, it is charged to its
/// budget.
class RunAccount {
public:
    RunAccount() = default;
    explicit RunAccount(RunInfo info, std::shared_ptr<RunAccount> budget = {},
                        std::shared_ptr<HitlChannel> channel = {},
                        std::shared_ptr<const HookSet> hooks = {})
        : info_(std::move(info)),
          budget_(std::move(budget)),
          channel_(std::move(channel)),
          hooks_(std::move(hooks)) {}

    const RunInfo& info() const noexcept { return info_; }
    /// Returns the channel of the agent of the run; null if it has none.
    const std::shared_ptr<HitlChannel>& channel() const noexcept { return channel_; }
    /// Returns the composed hooks that decide about the calls of the run, and about those of its sub-agents (D114): only
    /// `before_tool_call`. Null if the agent has none.
    const std::shared_ptr<const HookSet>& hooks() const noexcept { return hooks_; }
    /// Adds model calls to the run: they count in the usage and cost of its result, and toward `max_spend`. An absent cost
    /// makes the cost of the run unknown. A run that has this account as its budget charges itself when it ends.
    void charge(const Usage& usage, std::optional<double> cost);
    /// Charges what was charged to this account to `payer`, once. The budget, which may be another account, no longer counts it.
    void charge_to(RunAccount& payer);
    /// Charges it to the budget, if there is one.
    void charge_to_budget();
    /// Adds a model call of the run itself.
    void count(const Usage& usage, std::optional<double> cost);
    /// Returns what was charged, and the earlier spending.
    Spending spending() const;
    /// Returns what was charged.
    Spending own_spending() const;
    /// Sets what was spent before the run (PromptOptions::prior_spending()).
    void set_earlier_spending(Spending value);

    /// Adds tools to the run, and to no other one (D122): calls find them at once, and requests advertise those that are exposed
    /// to the model from the next one on, after the agent's. Tools whose names the run has already are left out.
    void add_tools(const std::vector<AgentTool>& tools);
    ToolList added_tools() const;
    /// Announces that the next request does not begin with the previous one, so that this is not reported (D56).
    void expect_prefix_break() noexcept { expects_break_.store(true, std::memory_order_relaxed); }
    /// Returns true if it was announced since the last call of this function.
    bool take_expected_break() noexcept { return expects_break_.exchange(false); }

    /// Sets the USD that the run may spend, with all runs whose budget it is. Zero: no limit.
    void set_max_spend(double usd);
    /// Returns true if this account or its budget has a limit.
    bool has_limit() const;
    /// Reserves `most` USD for a call, or what the limits leave for it, if that is at least `least`; empty if it is less. A call
    /// gets at most half of what is left of a shared budget, for calls that other runs make at the same time.
    std::optional<double> reserve(double least, double most);
    /// Ends a reservation for a call that cost `cost`. The budget counts the cost until the run is charged to it.
    void end_reservation(double reserved, double cost);

private:
    double left() const;
    double left_for_call() const;
    bool try_reserve(double usd);
    void add_to_budgets(double cost);

    const RunInfo info_;
    const std::shared_ptr<RunAccount> budget_;  // null: none
    const std::shared_ptr<HitlChannel> channel_;
    const std::shared_ptr<const HookSet> hooks_;
    mutable std::mutex mutex_;
    Spending own_;
    Spending earlier_;
    ToolList added_tools_;
    std::atomic<bool> expects_break_ = false;
    double max_spend_ = 0.0;
    double reserved_ = 0.0;   // for calls of this run, and of runs whose budget this is
    double uncharged_ = 0.0;  // spent by such runs, and not charged yet
    double in_budget_ = 0.0;  // spent by this run: the part of the budget's `uncharged_`
    bool is_charged_ = false;
};

/// Returns the options of a model call that a hook or a tool makes for a run, so that observers know which run it belongs to.
/// `purpose` is a short name such as "compaction"; `tool_call_id` is empty for a hook.
StreamOptions options_for_call(const RunInfo& run, std::string_view purpose,
                               std::string_view tool_call_id = {});

}  // namespace cubepi
