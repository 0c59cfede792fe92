#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
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

namespace detail {
struct HttpServerCore;
struct RouteSet;
}  // namespace detail

/// A request that an HttpServer has received.
struct HttpServerRequest {
    std::string method = {};
    std::string path = {};   ///< without the query, as it was sent (percent-encoded)
    std::string query = {};  ///< without '?'
    /// The segments of the path that the placeholders of the route's pattern match, decoded.
    std::map<std::string, std::string, std::less<>> parameters = {};
    HttpHeaders headers = {};
    std::string body = {};
    std::string peer = {};  ///< the other end of the connection, "127.0.0.1:50312"
    /// Where the request comes from: the address without a port, the scheme and the host. Those that a proxy reports, if it is
    /// one of HttpAccess::trusted_proxies.
    std::string client = {};
    std::string scheme = {};
    std::string host = {};
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

/// The text messages of a WebSocket (RFC 6455), in both directions. Used on the executor of the server.
class WebSocket {
public:
    virtual ~WebSocket() = default;
    /// Waits for the next message; nothing at the end: the client is gone, or the routes or the server stop. Other messages than texts
    /// end the connection, and so does a client that sends further ones while eight wait, or as many bytes as one may have.
    virtual Task<std::optional<std::string>> read() = 0;
    /// Throws Error(disconnected) if the client is gone, or does not read within HttpServerOptions::write_timeout.
    virtual Task<> write(std::string text) = 0;
};

/// The response of a handler.
struct HttpServerResponse {
    unsigned status = 200;
    HttpHeaders headers = {};
    std::string body = {};
    /// Writes the body in parts after the headers, in place of `body`. Empty: `body` is the whole one. What it throws ends the
    /// connection.
    std::function<Task<>(ResponseStream& out)> stream = {};
    /// Accepts the request for a WebSocket, in place of a response, and returns when it is to be closed. Other requests are answered
    /// with 426. A message is limited as the body of a request is (HttpRouteOptions::max_body_bytes).
    std::function<Task<>(WebSocket& socket)> web_socket = {};

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

/// A certificate and its key.
struct HttpCertificate;
/// Reads PEM files; the first one with its chain. Throws Error(invalid_argument) if they cannot be used.
std::shared_ptr<HttpCertificate> read_certificate(const std::string& certificate_file,
                                                  const std::string& key_file);

/// How clients reach a server, and which ones.
struct HttpAccess {
    std::shared_ptr<HttpCertificate> certificate = {};  ///< null: no TLS
    /// The prefix of the paths of all routes, "/agents", that a reverse proxy leaves in them. Empty: none.
    std::string base_path = {};
    /// The names in `Host` that are accepted, with a port or for every port; others are answered with 421. Names of this machine
    /// ("localhost", "127.0.0.1", "[::1]") are accepted from this machine. Empty: every name is accepted.
    std::vector<std::string> allowed_hosts = {};
    /// Addresses ("10.0.0.7") and ranges ("10.0.0.0/8") of reverse proxies. Only their `Forwarded` (RFC 7239) and
    /// `X-Forwarded-For`, `-Proto` and `-Host` are read.
    std::vector<std::string> trusted_proxies = {};
};

/// Throws Error(invalid_argument) that names the first text that is not an address or a range of addresses.
void check_address_ranges(const std::vector<std::string>& ranges);

struct HttpServerOptions {
    std::string host = "127.0.0.1";  ///< an IPv4 or IPv6 address
    std::uint16_t port = 0;          ///< 0: a free one, which port() returns
    HttpAccess access = {};

    std::size_t max_header_bytes = 16 * 1024;  ///< longer ones are answered with 431
    /// A further one replaces the connection that has been without a request for the longest time, or else without a request that
    /// a route has accepted; it is closed if there is none.
    std::size_t max_connections = 1024;
    /// Lets further connections wait in the system's queue while less than half of the process's descriptors are free, or 256: for
    /// handlers that wait for work that opens files.
    bool spares_descriptors = false;
    /// The time for a header, from its first byte. A connection that exceeds it is closed. A new connection must send its first
    /// byte within this time.
    std::chrono::nanoseconds header_timeout = std::chrono::seconds(10);
    /// The time after which a connection without a further request is closed.
    std::chrono::nanoseconds idle_timeout = std::chrono::seconds(60);
    /// The time that a client may take to read a part of a response.
    std::chrono::nanoseconds write_timeout = std::chrono::seconds(60);
    /// Receives "http_server.listening" with host, port and the name of the routes; "http_server.failed" for handlers that throw,
    /// with the pattern of the route; "http_server.refused" with the name, the status and the client; "http_server.accept_failed". Absent:
    /// the log of Runtime::standard().
    std::optional<Logger> log = {};
};

/// An HTTP/1.1 server (RFC 9110, RFC 9112) on an event loop, for local services, webhooks and metrics: limits, keep-alive,
/// streamed responses, TLS, reverse proxies. Its requests are answered by HttpRoutes, those of a connection one after the other.
///
/// Used on one serial executor, on which the handlers run as well.
class HttpServer {
public:
    explicit HttpServer(Executor executor, HttpServerOptions options = HttpServerOptions());
    /// Closes everything. Handlers must have ended: await stop() before.
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    /// Takes the address: connections wait until routes are served. Throws Error(invalid_argument) for an address that is not one,
    /// Error(io) if the port is taken.
    void open();
    /// Replaces HttpServerOptions::access for the requests and connections that follow. Connections that TLS separates from it are
    /// closed when no request is in progress. Throws Error(invalid_argument).
    void set_access(HttpAccess access);
    /// Returns the port on which the server listens; 0 before open().
    std::uint16_t port() const noexcept;
    std::size_t connections() const noexcept;

    /// Stops accepting connections, closes those without a request in progress, and waits until the others are answered. After
    /// `limit`, stop is requested on their `closed` tokens, and their handlers are cancelled.
    Task<> stop(std::chrono::nanoseconds limit = std::chrono::seconds(10));

private:
    friend class HttpRoutes;
    std::shared_ptr<detail::HttpServerCore> core_;
};

/// Returns the response to a request that is not allowed, or nothing. The body of the request has not been read.
using HttpAuthentication =
    std::function<std::optional<HttpServerResponse>(const HttpServerRequest& request)>;

/// Answers requests without the header `Authorization: Bearer TOKEN` with 401. Throws Error(invalid_argument) for an empty token.
HttpAuthentication bearer_authentication(std::string token);

struct HttpRouteOptions {
    HttpAuthentication authentication = {};  ///< empty: every request is allowed
    /// Longer ones are answered with 413. 0: a body is not received at all.
    std::size_t max_body_bytes = 1024 * 1024;
    /// The requests of allowed clients that are received or answered at a time. Further ones are answered with 503.
    std::size_t max_requests = 256;
    /// The time for a body. A connection that exceeds it is closed.
    std::chrono::nanoseconds body_timeout = std::chrono::seconds(60);
};

/// The routes of a part of a program on a server that it may share with other parts, with limits and an authentication of their
/// own. An unknown path is answered with 404, another method with 405, whether the client is allowed or not.
///
/// Routes are replaced without losing a request: those that arrive while a path has only routes that are not served yet, or not
/// any longer, wait until it has others, or none. Used on the executor of the server.
class HttpRoutes {
public:
    using Handler = std::function<Task<HttpServerResponse>(HttpServerRequest request)>;

    /// `name` identifies the part, in the log too: "status". The routes are not served yet.
    HttpRoutes(HttpServer& server, std::string name, HttpRouteOptions options = HttpRouteOptions());
    /// Removes the routes. Handlers must have ended: await stop() before.
    ~HttpRoutes();
    HttpRoutes(const HttpRoutes&) = delete;
    HttpRoutes& operator=(const HttpRoutes&) = delete;

    /// Adds a route. A segment `{name}` of the pattern matches any segment of a path: "/v1/questions/{id}". Segments are compared
    /// after decoding each of them, so that %2F separates none; "." and ".." match nothing. A GET route also answers HEAD. A handler
    /// that throws is answered with 500. Throws Error(invalid_argument) for a pattern that does not begin with '/', or that
    /// another part has on this server. `max_requests`: of those of HttpRouteOptions, for this route.
    void add(std::string method, std::string pattern, Handler handler,
             std::size_t max_requests = std::numeric_limits<std::size_t>::max());
    /// Answers requests from now on; opens the server if it is not open.
    void serve();
    /// Returns the port of the server.
    std::uint16_t port() const noexcept;
    /// Answers no further requests, and waits for those in progress. After `limit`, stop is requested on their `closed` tokens,
    /// their handlers are cancelled and their connections closed.
    Task<> stop(std::chrono::nanoseconds limit = std::chrono::seconds(10));

private:
    const std::shared_ptr<detail::HttpServerCore> core_;
    const std::shared_ptr<detail::RouteSet> set_;
};

}  // namespace cubepi
