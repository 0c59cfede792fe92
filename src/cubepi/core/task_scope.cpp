#include <cubepi/core/task_scope.hpp>

#include <optional>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>

#include <cubepi/core/detail/wait_list.hpp>

namespace cubepi {

struct BackgroundScope::State final : detail::ScopeObserver {
    State(Executor executor, std::function<void(std::exception_ptr)> hook)
        : on_failure(std::move(hook)), core(std::move(executor), false, this) {}

    void failed(std::exception_ptr failure) noexcept override {
        if (on_failure) {
            on_failure(std::move(failure));
        } else if (!first) {
            first = std::move(failure);
        }
    }

    void emptied() noexcept override {
        empty.wake_all();
        work.reset();
    }

    std::function<void(std::exception_ptr)> on_failure;
    std::exception_ptr first;
    detail::WaitList empty;
    detail::ScopeCore core;

    /// Keeps the event loop running while there are children. (Children of a coroutine do not need it, because their
    /// parent has one.)
    std::optional<boost::asio::executor_work_guard<Executor>> work;
};

BackgroundScope::BackgroundScope(Executor executor,
                                 std::function<void(std::exception_ptr)> on_failure)
    : state_(std::make_shared<State>(std::move(executor), std::move(on_failure))) {}

BackgroundScope::~BackgroundScope() {
    state_->on_failure = nullptr;  // it may refer to the owner
    state_->core.cancel();
}

void BackgroundScope::spawn(Task<> task) {
    const std::shared_ptr<State> state = state_;
    if (!state->work) state->work.emplace(state->core.executor());
    state->core.spawn(std::move(task), nullptr, nullptr, state);
    if (state->core.live() == 0) state->work.reset();
}

void BackgroundScope::cancel() noexcept { state_->core.cancel(); }

std::size_t BackgroundScope::live() const noexcept { return state_->core.live(); }

Task<> BackgroundScope::idle() {
    const std::shared_ptr<State> state = state_;
    while (state->core.live() > 0) co_await state->empty.wait();
}

Task<> BackgroundScope::close() {
    const std::shared_ptr<State> state = state_;
    state->core.cancel();
    const bool throws = co_await detail::throws_when_cancelled;
    co_await detail::throw_when_cancelled(false);
    while (state->core.live() > 0) {
        try {
            co_await state->empty.wait();
        } catch (...) {
            // The children are already being cancelled; it remains to wait for them.
        }
    }
    co_await detail::throw_when_cancelled(throws);
    const auto cancellation = co_await this_cancellation;
    if (cancellation.cancelled() != boost::asio::cancellation_type::none) throw_cancelled();
    if (state->first) std::rethrow_exception(std::exchange(state->first, nullptr));
}

}  // namespace cubepi
