#include "conversation.hpp"

#include <boost/asio/signal_set.hpp>

#include <csignal>
#include <iostream>
#include <utility>

#include "exit_code.hpp"
#include "failure.hpp"

namespace cubepi::app {

struct InterruptWatch::State : std::enable_shared_from_this<InterruptWatch::State> {
    State(Executor executor, std::function<void()> callback)
        : signals(executor, SIGINT), interrupted(std::move(callback)) {}
    void wait() {
        signals.async_wait(
            [self = shared_from_this()](const boost::system::error_code& failed, int) {
                if (failed || !self->interrupted) return;
                self->interrupted();
                self->wait();
            });
    }
    boost::asio::signal_set signals;
    std::function<void()> interrupted;
};

InterruptWatch::InterruptWatch(Executor executor, std::function<void()> interrupted)
    : state_(std::make_shared<State>(std::move(executor), std::move(interrupted))) {
    state_->wait();
}

InterruptWatch::~InterruptWatch() {
    state_->interrupted = nullptr;
    state_->signals.cancel();
}

Task<int> converse(Session& session, Screen& screen, std::string prompt) {
    Agent& agent = *session.agent;
    int interrupts = 0;
    const Executor executor = co_await this_executor;
    const InterruptWatch watch(executor, [&] {
        // The second one does not wait for anybody's clean-up.
        if (++interrupts > 1) std::_Exit(exit_aborted);
        agent.abort();
    });
    const ScopedSubscription shown =
        agent.subscribe([&](const AgentEvent& event) { screen.on_event(event); });
    const auto begin = std::chrono::steady_clock::now();
    FailureContext context;
    context.where = session.model.where;
    context.key_variable = session.model.key_variable;
    std::optional<RunResult> result;
    std::exception_ptr failure;
    try {
        result = co_await agent.prompt(std::move(prompt));
    } catch (...) {
        failure = std::current_exception();
    }
    screen.pause();
    Failure said;
    said.exit_code = exit_ok;
    if (failure) {
        said = explain(failure, context);
    } else if (!*result) {
        said = explain(result->error(), context);
    }
    if (result) screen.summary(*result, std::chrono::steady_clock::now() - begin);
    if (said.exit_code != exit_ok) std::cerr << "cubepi: " << printable(said.text) << '\n';
    co_return said.exit_code;
}

}  // namespace cubepi::app
