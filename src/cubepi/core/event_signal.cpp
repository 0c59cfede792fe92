#include <cubepi/core/event_signal.hpp>

namespace cubepi {

Task<> AsyncEvent::wait() {
    if (!set_) co_await waiters_.wait();
}

}  // namespace cubepi
