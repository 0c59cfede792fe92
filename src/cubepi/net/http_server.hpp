#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// A request that an HttpServer has received completely.
struct HttpServerRequest {
    std::string method = {};
    std::string path = {};   ///< without the query, as it was sent (percent-encoded)
    std::string query = {};  ///< without '?'
    /// The parts of the path that the placeholders of the route's pattern match, decoded.
    std::map<std::string, std::string, std::less<>> parameters = {};
    HttpHeaders headers = {};
    std::string body = {};
    std::string client = {};  ///< the address of the client, "127.0.0.1:50312"
    /// Stop is requested when the client has closed the connection, or when the server stops.
    std::stop_token closed = {};

    /// Returns the parameter of a placeholder; empty if the pattern has none of that name.
    std::string_view parameter(std::string_view name) const noexcept;
    /// Returns the token of the header `Authorization: Bearer TOKEN`; empty if there is none.
    std::string_view bearer_token() const noexcept;
};

/// The body of a response while it is being written.
class ResponseStream {
public:
    virtual ~ResponseStream() = default;
    /// Writes a part of the body; waits while the client does not read. Throws Error(disconnected) if the client is gone, or
    /// does not read within HttpServerOptions::write_timeout.
    virtual Task<> write(std::string bytes) = 0;
};

/// The response of a handler.
struct HttpServerResponse {
    unsigned status = 200;
    HttpHeaders headers = {};
    std::string body = {};
    /// Writes the body in parts after the headers, in place of `body`. Empty: `body` is the whole one. What it throws ends the
    /// connection.
    std::function<Task<>(ResponseStream& out)> stream = {};

    HttpServerResponse() = default;
    HttpServerResponse(unsigned code, std::string text, std::string content_type);
    static HttpServerResponse json(unsigned code, const Json& value);
    /// Returns `{"error": {"message": TEXT}}`.
    static HttpServerResponse error(unsigned code, std::string_view text);
    /// Returns a response whose body is a stream of server-sent events
    /// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
    static HttpServerResponse events(std::function<Task<>(ResponseStream& out)> stream);
};

/// Returns a server-sent event. An empty `name` is the default type, "message". Lines of `data` are fields of their own.
std::string server_sent_event(std::string_view name, std::string_view data);

/// Returns true if both are equal; the time does not depend on where they differ. For tokens.
bool equal_secrets(std::string_view a, std::string_view b) noexcept;

/// A socket that listens on an address. Servers may share it, one after the other, so that a server is replaced without losing a
/// connection: those that arrive between them wait, and so do those on which no request is in progress when a server stops, except
/// with TLS. Thread-safe.
class HttpListener {
public:
    /// `host` is an IPv4 or IPv6 address; port 0 is a free one. Throws Error(invalid_argument) if `host` is not an address,
    /// Error(io) if the port is taken.
    HttpListener(const std::string& host, std::uint16_t port);
    ~HttpListener();
    HttpListener(const HttpListener&) = delete;
    HttpListener& operator=(const HttpListener&) = delete;

    std::uint16_t port() const noexcept { return port_; }
    int native_handle() const noexcept { return socket_; }

    /// Takes the descriptor of a connection for the next server.
    void put_back(int connection);
    std::vector<int> take_connections();

private:
    int socket_ = -1;
    std::uint16_t port_ = 0;
    std::mutex mutex_;
    std::vector<int> connections_;
};

struct HttpServerOptions {
    std::string name = "http";       ///< in the log
    std::string host = "127.0.0.1";  ///< an IPv4 or IPv6 address
    std::uint16_t port = 0;          ///< 0: a free one, which port() returns
    /// The socket that listens on `host` and `port`. Null: the server creates it.
    std::shared_ptr<HttpListener> listener = {};
    std::string certificate_file = {};  ///< PEM, with its chain; empty: no TLS
    std::string key_file = {};          ///< PEM

    std::size_t max_header_bytes = 16 * 1024;  ///< longer ones are answered with 431
    std::size_t max_body_bytes = 1024 * 1024;  ///< longer ones are answered with 413
    /// A further one replaces the connection that has been without a request for the longest time; it is closed if there is none.
    std::size_t max_connections = 1024;
    /// Lets further connections wait in the system's queue while less than half of the process's descriptors are free, or 256: for
    /// handlers that wait for work that opens files.
    bool spares_descriptors = false;
    /// The times for a header, from its first byte, and for a body. A connection that exceeds one is closed. A new connection
    /// must send its first byte within the time for a header.
    std::chrono::nanoseconds header_timeout = std::chrono::seconds(10);
    std::chrono::nanoseconds body_timeout = std::chrono::seconds(60);
    /// The time after which a connection without a further request is closed.
    std::chrono::nanoseconds idle_timeout = std::chrono::seconds(60);
    /// The time that a client may take to read a part of a response.
    std::chrono::nanoseconds write_timeout = std::chrono::seconds(60);
    /// Receives "http_server.listening" with name, host and port; "http_server.failed" for handlers that throw, with the pattern of
    /// the route; "http_server.accept_failed". Absent: the log of Runtime::standard().
    std::optional<Logger> log = {};
};

/// An HTTP/1.1 server (RFC 9110, RFC 9112) on an event loop, for local services, webhooks and metrics: routes, limits,
/// keep-alive, streamed responses, TLS. The requests of a connection are answered one after the other.
///
/// Used on one serial executor, on which the handlers run as well. A handler that throws is answered with 500.
class HttpServer {
public:
    using Handler = std::function<Task<HttpServerResponse>(HttpServerRequest request)>;

    explicit HttpServer(Executor executor, HttpServerOptions options = HttpServerOptions());
    /// Closes everything. Handlers must have ended: await stop() before.
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    /// Adds a route. A segment `{name}` of the pattern matches any segment of a path: "/v1/questions/{id}". Throws
    /// Error(invalid_argument) for a pattern that does not begin with '/'. A GET route also answers HEAD.
    void route(std::string method, std::string pattern, Handler handler);

    /// Takes the address: connections wait until listen(). Throws Error(invalid_argument) for an address or certificate that
    /// cannot be used, Error(io) if the port is taken.
    void open();
    /// Begins to accept connections; calls open() if it has not been called.
    void listen();
    /// Returns the port on which the server listens; 0 before open().
    std::uint16_t port() const noexcept;
    std::size_t connections() const noexcept;

    /// Stops accepting connections, closes the idle ones or leaves them to HttpServerOptions::listener, and waits until the requests
    /// in progress are answered. After `limit`, stop is requested on their `closed` tokens, and their handlers are cancelled.
    Task<> stop(std::chrono::nanoseconds limit = std::chrono::seconds(10));

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
