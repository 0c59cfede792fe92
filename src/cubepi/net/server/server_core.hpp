#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::detail {

/// A route of a server.
struct Route {
    std::string method;
    std::string pattern;
    std::vector<std::string> segments;
    HttpServer::Handler handler;
};

/// The result of looking up a request.
struct RouteMatch {
    const Route* route = nullptr;  ///< null: there is none for this path and method
    std::string allowed = {};  ///< the methods of the path, for `Allow`; empty: the path is unknown
};

/// The routes of a server, tried in the order in which they were added.
class RouteTable {
public:
    void add(std::string method, std::string pattern, HttpServer::Handler handler);
    /// Finds the route of a request, and sets its parameters.
    RouteMatch match(HttpServerRequest& request) const;

private:
    std::vector<Route> routes_;
};

/// A connection of a server, as far as the end of the server concerns it.
class HttpConnection {
public:
    virtual ~HttpConnection() = default;
    /// Closes the socket: what waits for it ends.
    virtual void close() noexcept = 0;

    /// Ends a connection that is not busy, at the end of the server.
    virtual void leave() noexcept = 0;

    bool busy = false;        ///< a request is being received or answered
    bool used = false;        ///< a request was received
    bool closing = false;     ///< close() was called
    std::stop_source closed;  ///< of the request in progress
    std::chrono::steady_clock::time_point idle_since = std::chrono::steady_clock::now();
};

/// The state that the connections of a server share.
struct HttpServerCore {
    HttpServerCore(Executor used, HttpServerOptions given);

    const Executor executor;
    const HttpServerOptions options;
    const Logger log;
    RouteTable routes;
    std::unique_ptr<boost::asio::ssl::context> tls;
    std::shared_ptr<HttpListener> listener;
    boost::asio::ip::tcp::acceptor acceptor;  ///< with a descriptor of its own for the socket
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
