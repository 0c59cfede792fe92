#include <cubepi/checkpoint/server/connection.hpp>

#include <cerrno>
#include <utility>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <sys/epoll.h>
#include <unistd.h>

#include <cubepi/checkpoint/server/failure.hpp>
#include <cubepi/core/detail/scope_core.hpp>

namespace cubepi::detail {

ServerConnection::ServerConnection() : set_(epoll_create1(EPOLL_CLOEXEC)) {
    if (set_ < 0)
        throw boost::system::system_error(errno, boost::system::system_category(), "epoll_create1");
}

ServerConnection::~ServerConnection() { close(set_); }

void ServerConnection::attach(const Executor& executor, Clock& clock, Clock::time_point deadline,
                              std::chrono::milliseconds limit) {
    late_ = false;
    limit_ = limit;
    descriptor_.emplace(executor, set_);
    timer_ = clock.timer(executor);
    timer_->expires_at(deadline, [this] {
        late_ = true;
        boost::system::error_code ignored;
        (void)descriptor_->cancel(ignored);
    });
}

void ServerConnection::detach() noexcept {
    timer_.reset();
    if (descriptor_) (void)descriptor_->release();
    descriptor_.reset();
}

void ServerConnection::watch(int socket, bool for_write) {
    epoll_event event{};
    event.events = EPOLLIN | (for_write ? EPOLLOUT : 0U);
    // The library may have closed a socket and opened one with the same number.
    if (epoll_ctl(set_, EPOLL_CTL_MOD, socket, &event) == 0) return;
    if (epoll_ctl(set_, EPOLL_CTL_ADD, socket, &event) != 0)
        throw ServerFailure(ServerFailureKind::lost, "the connection was lost");
}

Task<> ServerConnection::wait(int socket, bool for_write, bool cancellable) {
    if (late_) fail_late();
    watch(socket, for_write);
    boost::system::error_code error;
    constexpr auto ready = boost::asio::posix::descriptor_base::wait_read;
    if (cancellable) {
        auto token = boost::asio::redirect_error(boost::asio::use_awaitable, error);
        co_await descriptor_->async_wait(ready, token);
    } else {
        auto token = boost::asio::bind_cancellation_slot(
            boost::asio::cancellation_slot(),
            boost::asio::redirect_error(boost::asio::use_awaitable, error));
        co_await descriptor_->async_wait(ready, token);
    }
    if (late_) fail_late();
    if (error) throw boost::system::system_error(error);
}

Task<ServerResults> ServerConnection::exchange_to_the_end(ServerBatch batch) {
    // A cancelled coroutine would throw at its next co_await.
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    std::exception_ptr failure;
    ServerResults results;
    try {
        results = co_await run(std::move(batch), false);
    } catch (...) {
        failure = std::current_exception();
    }
    co_await throw_when_cancelled(throws);
    if (failure) std::rethrow_exception(failure);
    co_return results;
}

void ServerConnection::fail_late() const {
    const std::string after = " for " + std::to_string(limit_.count()) + " ms";
    if (connecting_)
        throw ServerFailure(ServerFailureKind::connect,
                            "the server did not accept the connection" + after);
    throw ServerFailure(ServerFailureKind::timeout, "the server did not answer" + after);
}

}  // namespace cubepi::detail
