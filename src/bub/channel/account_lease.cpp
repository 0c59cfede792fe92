#include <bub/channel/account_lease.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>

namespace bub {

namespace {

using cubepi::Outcome;
using cubepi::outcome_of;

/// After an attempt that has failed, and at most until the lease of another process is looked at again.
constexpr std::chrono::seconds retry_interval{1};
/// A database that is away does not delay the end of the process.
constexpr std::chrono::seconds release_limit{3};

}  // namespace

void LeaseKeeper::report(std::string trouble) {
    if (has_trouble_ == !trouble.empty()) return;
    has_trouble_ = !trouble.empty();
    if (on_trouble_) on_trouble_(std::move(trouble));
}

Task<> LeaseKeeper::renew() {
    const cubepi::Clock::time_point asked = clock_.now();
    Task<AccountLease::State> attempting = lease_->take();
    Outcome<AccountLease::State> attempted = co_await outcome_of(std::move(attempting));
    if (attempted.cancelled()) attempted.rethrow();
    next_ = clock_.now() + retry_interval;
    if (!attempted) {
        report(cubepi::exception_text(attempted.failure()));
        co_return;
    }
    report({});
    const AccountLease::State& found = attempted.value();
    if (!found.is_held) {
        until_ = {};
        next_ = std::min(next_, asked + found.time);
        co_return;
    }
    // The work needs time to end, and the clock of the database may be faster.
    until_ = asked + found.time - found.time / 5;
    next_ = asked + found.time / 3;
}

Task<> LeaseKeeper::keep() {
    while (holds()) {
        co_await clock_.sleep_until(std::min(next_, until_));
        if (!holds()) co_return;
        Task<> renewing = renew();
        (void)co_await cubepi::detail::run_until(clock_, until_, std::move(renewing));
    }
}

Task<> LeaseKeeper::serve(cubepi::TaskScope& scope, Work work) {
    scope.spawn(work());
    co_await keep();
    scope.cancel();
}

Task<> LeaseKeeper::run(Work work) {
    for (;;) {
        co_await renew();
        if (!holds()) {
            co_await clock_.sleep_until(next_);
            continue;
        }
        auto body = [this, &work](cubepi::TaskScope& scope) { return serve(scope, work); };
        Task<> serving = cubepi::with_task_scope(std::move(body));
        co_await std::move(serving);
    }
}

Task<> LeaseKeeper::release() {
    until_ = {};
    Task<> releasing = cubepi::with_timeout(clock_, release_limit, lease_->release());
    (void)co_await outcome_of(std::move(releasing));
}

}  // namespace bub
