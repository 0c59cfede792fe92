#include <cubepi/agent/run/run_guard.hpp>

#include <exception>
#include <string>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

Task<void> abort_when_cancelled(Task<void> run, std::function<void()> abort) {
    const auto before = co_await this_cancellation;
    if (!before.slot().is_connected()) {
        co_await std::move(run);
        co_return;
    }
    const Executor executor = co_await this_executor;
    std::exception_ptr failure;
    ScopeCore scope(executor, false);
    scope.spawn(std::move(run), &failure);
    if (scope.live() > 0) {
        const bool throws = co_await throws_when_cancelled;
        co_await throw_when_cancelled(false);
        co_await scope.settle(std::move(abort));
        co_await throw_when_cancelled(throws);
    }
    const auto after = co_await this_cancellation;
    if (after.cancelled() != boost::asio::cancellation_type::none) throw_cancelled();
    if (failure) std::rethrow_exception(failure);
}

void DurationLimit::start(const Runtime& runtime, const Executor& executor,
                          std::chrono::milliseconds limit, std::function<void()> abort) {
    if (limit.count() <= 0) return;
    limit_ = limit;
    timer_ = runtime.clock->timer(executor);
    timer_->expires_after(limit, [this, abort = std::move(abort)] {
        out_of_time_ = true;
        abort();
    });
}

void DurationLimit::tell(RunResult& result) const {
    if (counted(result.outcome) == result.outcome) return;
    result.outcome = RunOutcome::limited;
    result.failure = std::make_shared<const LimitReachedError>(
        "max_duration",
        "the run reached its limit max_duration (" + std::to_string(limit_.count()) + " ms)");
}

}  // namespace cubepi::detail
