#pragma once

#include <cubepi/core/task.hpp>
#include <cubepi/net/detail/name_cache.hpp>

#include <atomic>
#include <memory>
#include <unordered_map>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <curl/curl.h>

namespace cubepi::detail {

class CurlTransfer;

/// libcurl's multi handle, driven by one execution context's reactor: the connections that all clients of
/// that context share. Everything runs on a strand of the context; start, abort and resume may be called
/// from any thread, and run at once where the strand is free and the caller is on the context already.
class CurlEngine : public std::enable_shared_from_this<CurlEngine> {
public:
    /// The engine of the context that `executor` belongs to. It lives as long as the context.
    static std::shared_ptr<CurlEngine> of(const Executor& executor);

    explicit CurlEngine(Executor strand);
    ~CurlEngine();

    void start(std::shared_ptr<CurlTransfer> transfer);
    void abort(std::shared_ptr<CurlTransfer> transfer);
    void abort_soon(std::shared_ptr<CurlTransfer> transfer);  ///< for libcurl's callbacks
    void resume(std::shared_ptr<CurlTransfer> transfer);

    /// The context is being destroyed: nothing of it may be used after this.
    void shutdown() noexcept;

    bool set_socket_options(CURL* easy) noexcept;

    /// What the system's resolver said, for all clients of the context that have no resolver of their own. Any thread.
    const std::shared_ptr<NameCache>& system_names() const noexcept { return system_names_; }

    CurlEngine(const CurlEngine&) = delete;
    CurlEngine& operator=(const CurlEngine&) = delete;

private:
    struct Socket {
        explicit Socket(const Executor& executor) : descriptor(executor) {}
        boost::asio::posix::stream_descriptor descriptor;
        int wanted = 0;
        bool reading = false;
        bool writing = false;
        bool gone = false;
    };
    using SocketPtr = std::shared_ptr<Socket>;

    static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* socket) noexcept;
    static int on_timer(CURLM* multi, long timeout_ms, void* self) noexcept;
    static int on_close(void* self, curl_socket_t fd) noexcept;

    bool open();
    void add(const std::shared_ptr<CurlTransfer>& transfer);
    void remove(CurlTransfer& transfer) noexcept;
    void cut_off(CurlTransfer& transfer) noexcept;
    void watch(curl_socket_t fd, int what);
    void forget(curl_socket_t fd) noexcept;
    void arm(curl_socket_t fd, const SocketPtr& socket);
    void ready(curl_socket_t fd, const SocketPtr& socket, int events);
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
    std::unordered_map<curl_socket_t, SocketPtr> sockets_;
    std::unordered_map<CURL*, std::shared_ptr<CurlTransfer>> transfers_;
};

}  // namespace cubepi::detail
