#pragma once

#include <cubepi/core/task.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>

namespace cubepi::detail {

/// The sockets that libcurl waits for, in an epoll set of their own, of which the context's reactor watches the set. A
/// socket costs nothing while it is silent, and nothing has to be renewed after it was ready; with a wait of the reactor
/// for each, every event would cost a system call and an operation more. Used on one serial executor.
class SocketSet {
public:
    /// A socket that is ready. It may be forgotten, and its number given to another, before its turn comes: holds().
    struct Ready {
        int fd = -1;
        std::uint32_t generation = 0;
        int events = 0;  ///< CURL_CSELECT_IN, OUT, ERR
    };

    /// Throws boost::system::system_error.
    explicit SocketSet(const Executor& executor);

    /// `what` is CURL_POLL_IN, OUT or INOUT. Throws boost::system::system_error.
    void watch(int fd, int what);
    void forget(int fd) noexcept;
    bool empty() const noexcept { return sockets_.empty(); }

    /// Calls `handler(error)` when a socket is ready, or soon after the last one was forgotten; one wait at a time.
    template <class Handler>
    void async_wait(Handler handler) {
        descriptor_.async_wait(boost::asio::posix::descriptor_base::wait_read, std::move(handler));
    }
    /// What is ready now, as far as it fits; sockets that do not fit come first the next time.
    std::size_t ready(std::span<Ready> out);
    /// Whether it is still the socket that was ready.
    bool holds(const Ready& socket) const noexcept;

private:
    struct Watched {
        std::uint32_t generation = 0;
        int wanted = 0;
    };

    boost::asio::posix::stream_descriptor descriptor_;
    std::unordered_map<int, Watched> sockets_;
    std::uint32_t generations_ = 0;
};

}  // namespace cubepi::detail
