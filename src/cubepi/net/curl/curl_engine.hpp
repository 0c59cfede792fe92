#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <curl/curl.h>

#include <cubepi/core/task.hpp>
#include <cubepi/net/curl/request_route.hpp>

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

class CurlTransfer;

/// libcurl's multi handle, driven by one execution context's reactor: the connections that all clients of
/// that context share. Everything runs on a strand of the context; start, abort and resume may be called
/// from any thread; start and abort run at once where the strand is free and the caller is on the context already.
class CurlEngine : public std::enable_shared_from_this<CurlEngine> {
public:
    /// Returns the engine of the context of `executor`. It lives as long as the context.
    static std::shared_ptr<CurlEngine> of(const Executor& executor);

    explicit CurlEngine(Executor strand);
    ~CurlEngine();

    void start(std::shared_ptr<CurlTransfer> transfer);
    void abort(std::shared_ptr<CurlTransfer> transfer);
    void abort_soon(std::shared_ptr<CurlTransfer> transfer);  ///< for libcurl's callbacks
    void resume(std::shared_ptr<CurlTransfer> transfer);

    /// Called when the context is being destroyed: nothing of it may be used afterwards.
    void shutdown() noexcept;

    bool set_socket_options(CURL* easy) noexcept;
    /// For libcurl's callbacks: the transfer now uses this connection. May throw std::bad_alloc.
    void connected(CurlTransfer& transfer, int connection);

    /// Returns the cached results of the system's resolver, shared by all clients of the context without their own
    /// resolver. Thread-safe.
    const std::shared_ptr<NameCache>& system_names() const noexcept { return system_names_; }

    CurlEngine(const CurlEngine&) = delete;
    CurlEngine& operator=(const CurlEngine&) = delete;

private:
    static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* socket) noexcept;
    static int on_timer(CURLM* multi, long timeout_ms, void* self) noexcept;
    static int on_close(void* self, curl_socket_t fd) noexcept;

    bool open();
    void add(const std::shared_ptr<CurlTransfer>& transfer);
    void remove(CurlTransfer& transfer) noexcept;
    void cut_off(CurlTransfer& transfer) noexcept;
    void leave_connection(CurlTransfer& transfer) noexcept;
    CurlTransfer* sibling_of(const CurlTransfer& transfer) const noexcept;
    void arm();
    void serve();
    void set_timer(long timeout_ms);
    void run_due();
    void reap();

    Executor strand_;
    const std::shared_ptr<NameCache> system_names_;
    std::atomic<bool> alive_{true};
    CURLM* multi_ = nullptr;
    std::unique_ptr<boost::asio::steady_timer> timer_;
    unsigned timer_round_ = 0;
    bool due_now_ = false;
    std::optional<SocketSet> sockets_;
    bool armed_ = false;
    std::unordered_map<CURL*, std::shared_ptr<CurlTransfer>> transfers_;
    /// The transfers of each connection: several for HTTP/2.
    std::unordered_map<int, std::unordered_set<CurlTransfer*>> connections_;
};

}  // namespace cubepi::detail
