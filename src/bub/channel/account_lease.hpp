#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {

using cubepi::Task;

/// The lease of an account at a service that one process at a time may poll, such as a bot of Telegram. Used on one executor.
class AccountLease {
public:
    struct State {
        bool is_held = false;
        /// Since the beginning of the call: how long this process holds the lease, or when to try again.
        std::chrono::nanoseconds time{0};
    };

    virtual ~AccountLease() = default;
    /// Takes or renews the lease, unless another process holds it.
    virtual Task<State> take() = 0;
    /// Leaves the lease to the next process, at once. Without effect if another process holds it.
    virtual Task<> release() = 0;
};

/// Runs the work that needs a lease, and renews the lease meanwhile (D236). Used on one executor.
class LeaseKeeper {
public:
    using Work = std::function<Task<>()>;
    /// Called with the failure when attempts begin to fail, and with an empty text when they succeed again.
    using OnTrouble = std::function<void(std::string)>;

    /// `on_trouble` may be empty.
    LeaseKeeper(std::shared_ptr<AccountLease> lease, cubepi::Clock& clock, OnTrouble on_trouble)
        : lease_(std::move(lease)), clock_(clock), on_trouble_(std::move(on_trouble)) {}

    /// Runs `work` whenever this process holds the lease, until it is cancelled. `work`, which ends when it is cancelled, is cancelled
    /// before another process can have the lease, and called again with the next one.
    Task<> run(Work work);
    /// Returns false if another process may have the lease, also directly after this process was frozen.
    bool holds() const { return clock_.now() < until_; }
    /// Leaves the lease to the next process. Does not throw: another process takes it when its time is over.
    Task<> release();

private:
    Task<> renew();
    Task<> serve(cubepi::TaskScope& scope, Work work);
    Task<> keep();
    void report(std::string trouble);

    const std::shared_ptr<AccountLease> lease_;
    cubepi::Clock& clock_;
    const OnTrouble on_trouble_;
    bool has_trouble_ = false;
    cubepi::Clock::time_point until_ = {};  ///< the work ends then
    cubepi::Clock::time_point next_ = {};   ///< of the next attempt
};

}  // namespace bub
