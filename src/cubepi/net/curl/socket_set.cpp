#include <cubepi/net/curl/socket_set.hpp>

#include <algorithm>
#include <array>
#include <cerrno>

#include <boost/system/system_error.hpp>

#include <sys/epoll.h>

#include <curl/curl.h>

namespace cubepi::detail {
namespace {

[[noreturn]] void throw_errno(const char* what) {
    throw boost::system::system_error(errno, boost::system::system_category(), what);
}

int new_set() {
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) throw_errno("epoll_create1");
    return fd;
}

std::uint64_t key_of(int fd, std::uint32_t generation) {
    return (std::uint64_t{generation} << 32U) | static_cast<std::uint32_t>(fd);
}

}  // namespace

SocketSet::SocketSet(const Executor& executor) : descriptor_(executor, new_set()) {}

void SocketSet::watch(int fd, int what) {
    const auto [entry, added] = sockets_.try_emplace(fd);
    Watched& watched = entry->second;
    if (added) watched.generation = ++generations_;
    watched.wanted = what;
    epoll_event event{};
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0U) | (what & CURL_POLL_OUT ? EPOLLOUT : 0U);
    event.data.u64 = key_of(fd, watched.generation);
    const int operation = added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(descriptor_.native_handle(), operation, fd, &event) == 0) return;
    const int failure = errno;
    sockets_.erase(entry);
    errno = failure;
    throw_errno("epoll_ctl");
}

void SocketSet::forget(int fd) noexcept {
    if (sockets_.erase(fd) == 0) return;
    epoll_event unused{};
    epoll_ctl(descriptor_.native_handle(), EPOLL_CTL_DEL, fd, &unused);
    boost::system::error_code ignored;
    // A wait that cannot end would keep the context running forever.
    if (sockets_.empty()) (void)descriptor_.cancel(ignored);
}

std::size_t SocketSet::ready(std::span<Ready> out) {
    std::array<epoll_event, 16> events{};
    const auto capacity = static_cast<int>(std::min(out.size(), events.size()));
    const int count = epoll_wait(descriptor_.native_handle(), events.data(), capacity, 0);
    std::size_t filled = 0;
    for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        Ready socket;
        socket.fd = static_cast<int>(event.data.u64 & 0xFFFFFFFFU);
        socket.generation = static_cast<std::uint32_t>(event.data.u64 >> 32U);
        const auto found = sockets_.find(socket.fd);
        if (found == sockets_.end() || found->second.generation != socket.generation) continue;
        // A waiter detects a broken connection by performing the operation for which it waits.
        const bool broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
        const int wanted = found->second.wanted;
        if ((wanted & CURL_POLL_IN) != 0 && (broken || (event.events & EPOLLIN) != 0))
            socket.events |= CURL_CSELECT_IN;
        if ((wanted & CURL_POLL_OUT) != 0 && (broken || (event.events & EPOLLOUT) != 0))
            socket.events |= CURL_CSELECT_OUT;
        if (socket.events == 0) socket.events = CURL_CSELECT_ERR;
        out[filled++] = socket;
    }
    return filled;
}

bool SocketSet::holds(const Ready& socket) const noexcept {
    const auto found = sockets_.find(socket.fd);
    return found != sockets_.end() && found->second.generation == socket.generation;
}

}  // namespace cubepi::detail
