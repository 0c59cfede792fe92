#pragma once

#include <cubepi/core/task.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>

namespace cubepi::detail {

/// The sockets for which libcurl waits, in an epoll set that the context's reactor watches. An idle socket costs
/// nothing, and nothing has to be renewed after an event; with a wait of the reactor for each socket, every event would
/// require another system call and operation. Used on one serial executor.
class SocketSet {
public:
    /// A socket that is ready. Before it is handled it may be forgotten, and its number reused; check with holds().
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
    /// Returns the ready sockets that fit into `out`; the remaining ones come first in the next call.
    std::size_t ready(std::span<Ready> out);
    /// Returns true if it is still the socket that was ready.
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
