#include <cubepi/agent/run/abort_when_cancelled.hpp>

#include <exception>
#include <utility>

#include <cubepi/core/detail/scope_core.hpp>

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

}  // namespace cubepi::detail
