#include <cubepi/net/server/route_table.hpp>

#include <map>
#include <optional>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/percent_decoded.hpp>

namespace cubepi::detail {

namespace {

using Parameters = std::map<std::string, std::string, std::less<>>;

std::vector<std::string> segments_of(std::string_view path) {
    std::vector<std::string> segments;
    while (!path.empty()) {
        path.remove_prefix(1);  // '/'
        const std::size_t end = std::min(path.find('/'), path.size());
        segments.emplace_back(path.substr(0, end));
        path.remove_prefix(end);
    }
    return segments;
}

bool is_placeholder(std::string_view segment) {
    return segment.size() > 2 && segment.starts_with('{') && segment.ends_with('}');
}

/// Returns nothing if the path does not match.
std::optional<Parameters> parameters_of(const Route& route, const std::vector<std::string>& path) {
    if (route.segments.size() != path.size()) return std::nullopt;
    Parameters parameters;
    for (std::size_t i = 0; i < path.size(); ++i) {
        std::optional<std::string> given = percent_decoded(path[i]);
        if (!given) return std::nullopt;
        const std::string& wanted = route.segments[i];
        if (is_placeholder(wanted)) {
            if (given->empty()) return std::nullopt;
            parameters[wanted.substr(1, wanted.size() - 2)] = std::move(*given);
        } else if (wanted != *given) {
            return std::nullopt;
        }
    }
    return parameters;
}

}  // namespace

void RouteTable::add(std::string method, std::string pattern, HttpServer::Handler handler) {
    if (!pattern.starts_with('/') || !handler) {
        throw Error(
            ErrorCode::invalid_argument,
            "a route needs a handler and a pattern that begins with '/', not '" + pattern + "'");
    }
    Route route;
    route.method = std::move(method);
    route.segments = segments_of(pattern);
    route.pattern = std::move(pattern);
    route.handler = std::move(handler);
    routes_.push_back(std::move(route));
}

RouteMatch RouteTable::match(ServerRequest& request) const {
    RouteMatch match;
    if (!request.path.starts_with('/')) return match;
    const std::vector<std::string> path = segments_of(request.path);
    for (const Route& route : routes_) {
        std::optional<Parameters> parameters = parameters_of(route, path);
        if (!parameters) continue;
        const bool answers_head = request.method == "HEAD" && route.method == "GET";
        if (route.method == request.method || answers_head) {
            request.parameters = std::move(*parameters);
            match.route = &route;
            return match;
        }
        match.allowed += (match.allowed.empty() ? "" : ", ") + route.method;
    }
    return match;
}

}  // namespace cubepi::detail
