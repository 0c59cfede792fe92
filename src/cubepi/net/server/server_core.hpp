#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi {

struct HttpCertificate {
    boost::asio::ssl::context context;
};

}  // namespace cubepi

namespace cubepi::detail {

/// Returns the IPv4 address that an IPv4-mapped one stands for; others unchanged.
boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

/// Addresses and ranges of addresses in CIDR notation (RFC 4632).
class AddressRanges {
public:
    AddressRanges() = default;
    /// Throws Error(invalid_argument) that names a text that is neither.
    explicit AddressRanges(const std::vector<std::string>& ranges);
    bool contains(const boost::asio::ip::address& address) const;

private:
    struct Range {
        boost::asio::ip::address address;
        unsigned short bits = 0;
    };
    std::vector<Range> ranges_;
};

/// Where a request comes from.
struct RequestOrigin {
    boost::asio::ip::address client = {};
    std::string scheme = {};
    std::string host = {};
};

/// Returns the origin of a request from `peer`. If `peer` is listed, the headers of proxies are read from the last entry to the first:
/// each was added by the proxy that the entry after it names, so they are true as far as these are listed. What is not an address
/// ("unknown", a name, garbage) ends the search at the proxy that has reported it, and so does a client about which `Forwarded` and
/// `X-Forwarded-For` disagree: many proxies pass on the one that they do not set.
RequestOrigin request_origin(const HttpHeaders& headers, const boost::asio::ip::address& peer,
                             std::string_view scheme, const AddressRanges& proxies);

/// Returns true if HttpAccess::allowed_hosts accepts the origin.
bool is_host_allowed(const RequestOrigin& origin, const std::vector<std::string>& allowed);

struct Route {
    std::string method;
    std::string pattern;
    std::vector<std::string> segments;
    HttpRoutes::Handler handler;
    std::size_t max_requests = 0;
    std::size_t requests = 0;  ///< in progress
};

/// The state of an HttpRoutes. It outlives the requests in progress.
struct RouteSet {
    /// Throws Error(invalid_argument) for a pattern that does not begin with '/'.
    void add(std::string method, std::string pattern, HttpRoutes::Handler handler,
             std::size_t max_requests);

    std::string name;
    HttpRouteOptions options;
    std::deque<Route> routes;  ///< not moved by later ones
    bool is_serving = false;
    std::size_t requests = 0;  ///< in progress
    AsyncEvent changed;        ///< pulsed when one ends
};

/// The result of looking up a request. Neither a route nor a refusal: its routes are not served now.
struct RouteMatch {
    std::shared_ptr<RouteSet> set = {};
    Route* route = nullptr;
    std::optional<HttpServerResponse> refusal = {};
};

/// Finds the first route of a request below `base_path`, and sets the request's parameters.
RouteMatch find_route(const std::vector<std::shared_ptr<RouteSet>>& sets,
                      HttpServerRequest& request, const std::string& base_path);

/// A connection of a server, as far as it concerns its server and the routes.
class HttpConnection {
public:
    virtual ~HttpConnection() = default;
    /// Closes the socket: what waits for it ends.
    virtual void close() noexcept = 0;
    /// Cancels the handler of the request in progress.
    virtual void cancel() noexcept = 0;
    /// Ends a WebSocket after the messages that it has received.
    virtual void end_socket() = 0;

    bool busy = false;                 ///< a request is being received or answered
    bool closing = false;              ///< close() was called
    bool is_secure = false;            ///< with TLS
    std::stop_source closed;           ///< of the request in progress
    std::shared_ptr<RouteSet> routes;  ///< those that have accepted the request in progress
    std::chrono::steady_clock::time_point idle_since = std::chrono::steady_clock::now();
};

/// The state that the connections and routes of a server share.
struct HttpServerCore {
    HttpServerCore(Executor used, HttpServerOptions given);

    void open();
    /// Begins to accept connections, once.
    static void start(const std::shared_ptr<HttpServerCore>& core);
    void close_acceptor();
    std::vector<HttpConnection*> all_connections() const;
    void close_connections();

    const Executor executor;
    const HttpServerOptions options;
    const Logger log;
    HttpAccess access;
    AddressRanges proxies;
    std::vector<std::shared_ptr<RouteSet>> sets;  ///< in the order in which they were added
    AsyncEvent routes_changed;
    boost::asio::ip::tcp::acceptor acceptor;
    std::uint16_t port = 0;
    bool accepting = false;
    std::size_t starting = 0;  ///< connections that are accepted and not in `connections` yet
    bool ending = false;
    std::unordered_set<HttpConnection*> connections;
    AsyncEvent changed;  ///< pulsed when a connection ends, and when no more are accepted
    BackgroundScope work;
};

/// Serves a connection until it ends. `core` outlives the call.
Task<> serve_connection(std::shared_ptr<HttpServerCore> core, boost::asio::ip::tcp::socket socket);

}  // namespace cubepi::detail
