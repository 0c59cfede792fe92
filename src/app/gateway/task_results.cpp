#include "task_results.hpp"

#include <utility>

#include <cubepi/core/async/post.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi::app {

struct TaskResults::State {
    State(Executor given, bub::WarningHandler warn)
        : executor(std::move(given)), on_warning(std::move(warn)), work(executor) {}

    const Executor executor;
    const bub::WarningHandler on_warning;
    bub::ChannelManager* manager = nullptr;  ///< null: the gateway does not serve
    BackgroundScope work;
};

namespace {

Task<> receive(bub::ChannelManager* manager, bub::WarningHandler warn, bub::Envelope message) {
    // Channels tell their messages apart by their ids.
    message.inbound_id = "task-" + Runtime::standard()->ids->next();
    Task<> receiving = manager->receive(std::move(message));
    const Outcome<> received = co_await outcome_of(std::move(receiving));
    if (received || received.cancelled()) co_return;
    Runtime::standard()->log.write(LogLevel::warning, "gateway.task_result_waits",
                                   {{"error", logged_error(received.failure())}});
    if (warn)
        warn("the result of a sub-agent waits for the next message of its session: " +
             exception_text(received.failure()));
}

}  // namespace

TaskResults::TaskResults(Executor executor, bub::WarningHandler on_warning)
    : state_(std::make_shared<State>(std::move(executor), std::move(on_warning))) {}

TaskResults::~TaskResults() {
    state_->manager = nullptr;
    state_->work.cancel();
}

void TaskResults::connect(bub::ChannelManager& manager) { state_->manager = &manager; }

void TaskResults::deliver(bub::Envelope message) const {
    cubepi::detail::post_to(
        state_->executor, [state = state_, message = std::move(message)]() mutable {
            if (!state->manager) return;
            state->work.spawn(receive(state->manager, state->on_warning, std::move(message)));
        });
}

}  // namespace cubepi::app
