#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

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
class RunAccount {
public:
    explicit RunAccount(RunInfo info, std::shared_ptr<HitlChannel> channel = {},
                        std::shared_ptr<const HookSet> hooks = {})
        : info_(std::move(info)), channel_(std::move(channel)), hooks_(std::move(hooks)) {}

    const RunInfo& info() const noexcept { return info_; }
    /// Returns the channel of the agent of the run; null if it has none.
    const std::shared_ptr<HitlChannel>& channel() const noexcept { return channel_; }
    /// Returns the composed hooks that decide about the calls of the run, and about those of its sub-agents (D114): only
    /// `before_tool_call`. Null if the agent has none.
    const std::shared_ptr<const HookSet>& hooks() const noexcept { return hooks_; }
    /// Adds model calls to the run: they count in the usage and cost of its result, and toward `max_spend`. An absent cost
    /// makes the cost of the run unknown.
    void charge(const Usage& usage, std::optional<double> cost);
    /// Returns what was charged, and the earlier spending.
    Spending spending() const;
    /// Returns what was charged.
    Spending own_spending() const;
    /// Sets what was spent before the run (PromptOptions::prior_spending()).
    void set_earlier_spending(Spending value);

private:
    const RunInfo info_;
    const std::shared_ptr<HitlChannel> channel_;
    const std::shared_ptr<const HookSet> hooks_;
    mutable std::mutex mutex_;
    Spending own_;
    Spending earlier_;
};

/// Returns the options of a model call that a hook or a tool makes for a run, so that observers know which run it belongs to.
/// `purpose` is a short name such as "compaction"; `tool_call_id` is empty for a hook.
StreamOptions options_for_call(const RunInfo& run, std::string_view purpose,
                               std::string_view tool_call_id = {});

}  // namespace cubepi
