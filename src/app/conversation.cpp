#include "conversation.hpp"

#include <boost/asio/signal_set.hpp>

#include <chrono>
#include <string_view>
#include <utility>

#include "exit_code.hpp"
#include "failure.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

bool is_ignored(int signal) {
    struct sigaction action = {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

struct SignalWatch::State : std::enable_shared_from_this<SignalWatch::State> {
    State(const Executor& executor, std::function<void(int)> callback,
          std::initializer_list<int> wanted)
        : signals(executor), signalled(std::move(callback)) {
        for (const int signal : wanted) {
            if (!is_ignored(signal)) signals.add(signal);
        }
    }
    void wait() {
        signals.async_wait(
            [self = shared_from_this()](const boost::system::error_code& failed, int signal) {
                if (failed || !self->signalled) return;
                self->signalled(signal);
                self->wait();
            });
    }
    boost::asio::signal_set signals;
    std::function<void(int signal)> signalled;
};

SignalWatch::SignalWatch(Executor executor, std::function<void(int signal)> signalled,
                         std::initializer_list<int> signals)
    : state_(std::make_shared<State>(executor, std::move(signalled), signals)) {
    state_->wait();
}

SignalWatch::~SignalWatch() {
    state_->signalled = nullptr;
    state_->signals.cancel();
}

StopAtSignal::StopAtSignal(Executor executor, std::stop_source stop)
    : watch_(std::move(executor), [this, stop = std::move(stop)](int signal) mutable {
          if (signal_ != 0 && signal == SIGPIPE) return;
          if (signal_ != 0) std::_Exit(128 + signal);
          signal_ = signal;
          stop.request_stop();
      }) {}

TurnSignals::TurnSignals(Executor executor, Pipeline& pipeline)
    : watch_(std::move(executor), [this, &pipeline](int signal) {
          // Each write to a closed pipe is another signal, and nobody's second wish.
          if (stopped_ && signal == SIGPIPE) return;
          // The second one does not wait for anybody's clean-up.
          if (std::exchange(stopped_, true)) std::_Exit(128 + signal);
          if (signal != SIGINT) ended_by_ = signal;
          pipeline.stop();
      }) {}

namespace {

void show_on(Screen& screen, const bub::StreamEvent& event, const bub::Envelope& message) {
    if (event.agent_event) return screen.on_event(*event.agent_event);
    if (event.kind != bub::event_kind::text) return;
    const std::string_view delta = event.delta();
    // Steps of a turn are apart on the screen anyhow.
    if (delta.find_first_not_of(" \n") == std::string_view::npos) return;
    if (message.kind != bub::envelope_kind::command) return screen.on_text(delta);
    screen.pause();
    out() << for_terminal(delta) << "\n";
}

}  // namespace

Task<int> converse(Pipeline& pipeline, Screen& screen, bub::Envelope message) {
    const Executor executor = co_await this_executor;
    const TurnSignals signals(executor, pipeline);
    const auto begin = std::chrono::steady_clock::now();
    const auto waited_before = pipeline.waited_for_user();
    Pipeline::Show show = [&screen](const bub::StreamEvent& event, const bub::Envelope& about) {
        show_on(screen, event, about);
    };
    const Answer answer = co_await pipeline.ask(std::move(message), std::move(show));
    screen.pause();
    // Nobody reads any more: there is nothing to say either.
    if (signals.ended_by() == SIGPIPE) co_return exit_closed_pipe;
    // The time that the user took to answer questions is not the model's.
    const auto waited = pipeline.waited_for_user() - waited_before;
    if (answer.result)
        screen.summary(*answer.result, std::chrono::steady_clock::now() - begin - waited);
    const Failure& said = answer.failure;
    if (said.exit_code != exit_ok) err() << "cubepi: " << for_terminal(said.text) << "\n";
    co_return signals.ended_by() == 0 ? said.exit_code : 128 + signals.ended_by();
}

}  // namespace cubepi::app
