#pragma once

#include <stop_token>

#include <cubepi/agent/run/agent_impl.hpp>

namespace cubepi::detail {

/// Throws Error(busy): a run of the agent is active.
[[noreturn]] void throw_busy(const Agent::Impl& impl);

/// A guard that marks the agent as active from the acceptance of a run until it is idle, on every path.
class ActiveRun {
public:
    /// Throws Error(busy) if a run is active.
    ActiveRun(Agent::Impl& impl, const SharedString& run_id);
    ~ActiveRun();
    ActiveRun(const ActiveRun&) = delete;
    ActiveRun& operator=(const ActiveRun&) = delete;

    /// Changes the id, when the id of a run that is continued is known.
    void set_run_id(const SharedString& run_id);
    const std::stop_token& token() const noexcept { return token_; }

private:
    Agent::Impl& impl_;
    std::stop_token token_;
};

}  // namespace cubepi::detail
