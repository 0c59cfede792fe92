#include "process.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <boost/asio/signal_set.hpp>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

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

void protect_process() {
    ::prctl(PR_SET_DUMPABLE, 0);
    // Root may look nevertheless: what the kernel shows as /proc/PID/environ is the place where the variables were put at the
    // start. They move from there.
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::size_t size = std::strlen(*entry) + 1;
        char* copy = static_cast<char*>(std::malloc(size));
        if (copy == nullptr) throw std::bad_alloc();
        std::memcpy(copy, *entry, size);
        ::explicit_bzero(*entry, size);
        *entry = copy;  // for the life of the process, as the environment
    }
}

std::string local_user() {
    std::array<char, 4096> text = {};
    struct passwd entry = {};
    struct passwd* found = nullptr;
    const int failed = getpwuid_r(getuid(), &entry, text.data(), text.size(), &found);
    if (failed == 0 && found && entry.pw_name && *entry.pw_name) return entry.pw_name;
    return std::to_string(getuid());
}

const char* version_text() noexcept { return "cubepi " CUBEPI_VERSION; }

}  // namespace cubepi::app
