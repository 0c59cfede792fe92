#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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
    RouteMatch match(ServerRequest& request) const;

private:
    std::vector<Route> routes_;
};

}  // namespace cubepi::detail
