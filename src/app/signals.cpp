#include "signals.hpp"

#include <boost/asio/signal_set.hpp>

#include <cstdlib>
#include <utility>

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

}  // namespace cubepi::app
