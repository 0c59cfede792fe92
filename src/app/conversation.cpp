#include "conversation.hpp"

#include <boost/asio/signal_set.hpp>

#include <chrono>
#include <csignal>
#include <iostream>
#include <string_view>
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

namespace {

void show_on(Screen& screen, const bub::StreamEvent& event, const bub::Envelope& message) {
    if (event.agent_event) return screen.on_event(*event.agent_event);
    if (event.kind != bub::event_kind::text) return;
    const std::string_view delta = event.delta();
    // Steps of a turn are apart on the screen anyhow.
    if (delta.find_first_not_of(" \n") == std::string_view::npos) return;
    if (message.kind != bub::envelope_kind::command) return screen.on_text(delta);
    screen.pause();
    std::cout << printable(delta) << '\n';
}

}  // namespace

Task<int> converse(Pipeline& pipeline, Screen& screen, bub::Envelope message) {
    int interrupts = 0;
    const Executor executor = co_await this_executor;
    const InterruptWatch watch(executor, [&] {
        // The second one does not wait for anybody's clean-up.
        if (++interrupts > 1) std::_Exit(exit_aborted);
        pipeline.stop();
    });
    const auto begin = std::chrono::steady_clock::now();
    Pipeline::Show show = [&screen](const bub::StreamEvent& event, const bub::Envelope& about) {
        show_on(screen, event, about);
    };
    const Answer answer = co_await pipeline.ask(std::move(message), std::move(show));
    screen.pause();
    if (answer.result) screen.summary(*answer.result, std::chrono::steady_clock::now() - begin);
    const Failure& said = answer.failure;
    if (said.exit_code != exit_ok) std::cerr << "cubepi: " << printable(said.text) << '\n';
    co_return said.exit_code;
}

}  // namespace cubepi::app
