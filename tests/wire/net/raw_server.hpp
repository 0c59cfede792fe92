#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace cubepi::wire {

/// One accepted connection, used by its handler on the handler's own thread. Everything blocks.
class Connection {
public:
    explicit Connection(int fd) : fd_(fd) {}
    ~Connection();

    /// Reads the next request: head and, if it has a content-length, body. Empty at the end of the connection.
    std::string read_request();
    /// Reads only the head of the next request, with its blank line.
    std::string read_head();
    /// Reads the next bytes; empty at the end.
    std::string read_some();
    /// Returns false if the peer has disconnected.
    bool send(std::string_view bytes);
    /// Waits until the peer closes the connection; discards what it sends.
    void wait_until_closed();
    /// True if the peer has closed the connection.
    bool closed();
    /// Ends our direction of the connection; the peer may continue to send.
    void half_close();
    /// Closes with an RST instead of a FIN.
    void reset();
    void interrupt();
    int fd() const { return fd_; }

    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

private:
    int fd_;
    std::string buffer_;
};

/// A server on an ephemeral port of 127.0.0.1 that runs the handler for each connection on a thread of its own. The destructor
/// closes all connections and waits for the handlers.
class RawServer {
public:
    using Handler = std::function<void(Connection&)>;

    explicit RawServer(Handler handler);
    ~RawServer();

    std::uint16_t port() const { return port_; }
    std::string url(const std::string& path = "/") const;
    int accepted() const { return accepted_; }
    /// Blocks until that many connections have ended.
    void wait_for_ended(int count);

    RawServer(const RawServer&) = delete;
    RawServer& operator=(const RawServer&) = delete;

private:
    void accept_all();

    Handler handler_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::atomic<int> accepted_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
    int ended_ = 0;
    bool stopping_ = false;
    std::list<std::shared_ptr<Connection>> connections_;
    std::list<std::thread> threads_;
    std::thread acceptor_;
};

/// A port of 127.0.0.1 without a listener.
std::uint16_t closed_port();

/// "HTTP/1.1 200 OK" with a content-length and `body`.
std::string ok(std::string_view body, std::string_view extra_headers = "");

/// Chunked transfer coding.
std::string chunk(std::string_view bytes);

}  // namespace cubepi::wire
