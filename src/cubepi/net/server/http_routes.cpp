// The routes of HttpServer: which handler answers a request.

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/server/server_core.hpp>

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

/// Returns the decoded segments of the path of a request after those of the base; nothing if it cannot be that of a route.
std::optional<std::vector<std::string>> decoded_segments(const std::string& path,
                                                         const std::string& base_path) {
    if (!path.starts_with('/')) return std::nullopt;
    std::vector<std::string> segments = segments_of(path);
    for (std::string& segment : segments) {
        std::optional<std::string> decoded = percent_decoded(segment);
        if (!decoded || decoded == "." || decoded == "..") return std::nullopt;
        segment = std::move(*decoded);
    }
    for (const std::string& segment : segments_of(base_path)) {
        if (segments.empty() || segments.front() != segment) return std::nullopt;
        segments.erase(segments.begin());
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
        const std::string& wanted = route.segments[i];
        if (is_placeholder(wanted)) {
            if (path[i].empty()) return std::nullopt;
            parameters[wanted.substr(1, wanted.size() - 2)] = path[i];
        } else if (wanted != path[i]) {
            return std::nullopt;
        }
    }
    return parameters;
}

void add_method(std::string& methods, const std::string& method) {
    if ((", " + methods + ",").find(", " + method + ",") != std::string::npos) return;
    methods += (methods.empty() ? "" : ", ") + method;
}

Task<> wait_for_requests(std::shared_ptr<RouteSet> set) {
    while (set->requests > 0) co_await set->changed.wait();
}

}  // namespace

void RouteSet::add(std::string method, std::string pattern, HttpRoutes::Handler handler,
                   std::size_t max_requests) {
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
    route.max_requests = max_requests;
    routes.push_back(std::move(route));
}

RouteMatch find_route(const std::vector<std::shared_ptr<RouteSet>>& sets,
                      HttpServerRequest& request, const std::string& base_path) {
    RouteMatch match;
    std::optional<std::vector<std::string>> path = decoded_segments(request.path, base_path);
    std::string allowed;
    bool is_pending = false;
    for (const std::shared_ptr<RouteSet>& set : sets) {
        for (Route& route : set->routes) {
            std::optional<Parameters> parameters;
            if (path) parameters = parameters_of(route, *path);
            if (!parameters) continue;
            const bool answers_head = request.method == "HEAD" && route.method == "GET";
            if (route.method != request.method && !answers_head) {
                add_method(allowed, route.method);
            } else if (set->is_serving) {
                request.parameters = std::move(*parameters);
                match.set = set;
                match.route = &route;
                return match;
            } else {
                is_pending = true;
            }
        }
    }
    if (is_pending) return match;
    if (allowed.empty()) {
        match.refusal = HttpServerResponse::error(404, "there is nothing at this path");
    } else {
        match.refusal = HttpServerResponse::error(405, "this path does not accept the method");
        match.refusal->headers.set("allow", allowed);
    }
    return match;
}

}  // namespace cubepi::detail

namespace cubepi {

HttpRoutes::HttpRoutes(HttpServer& server, std::string name, HttpRouteOptions options)
    : core_(server.core_), set_(std::make_shared<detail::RouteSet>()) {
    set_->name = std::move(name);
    set_->options = std::move(options);
    core_->sets.push_back(set_);
}

HttpRoutes::~HttpRoutes() {
    set_->is_serving = false;
    std::erase(core_->sets, set_);
    core_->routes_changed.pulse();
}

void HttpRoutes::add(std::string method, std::string pattern, Handler handler,
                     std::size_t max_requests) {
    for (const std::shared_ptr<detail::RouteSet>& other : core_->sets) {
        for (const detail::Route& route : other->routes) {
            if (other->name == set_->name || route.method != method || route.pattern != pattern)
                continue;
            throw Error(ErrorCode::invalid_argument,
                        "the path " + pattern + " of '" + set_->name + "' is one of '" +
                            other->name + "' at the same address; choose another path or address");
        }
    }
    set_->add(std::move(method), std::move(pattern), std::move(handler), max_requests);
}

void HttpRoutes::serve() {
    detail::HttpServerCore::start(core_);
    set_->is_serving = true;
    core_->log.write(LogLevel::info, "http_server.listening",
                     {{"name", set_->name},
                      {"host", core_->options.host},
                      {"port", static_cast<std::int64_t>(core_->port)}});
    core_->routes_changed.pulse();
}

std::uint16_t HttpRoutes::port() const noexcept { return core_->port; }

Task<> HttpRoutes::stop(std::chrono::nanoseconds limit) {
    const std::shared_ptr<detail::HttpServerCore> core = core_;
    const std::shared_ptr<detail::RouteSet> set = set_;
    set->is_serving = false;
    const auto before = core->all_connections();
    for (detail::HttpConnection* const connection : before)
        if (connection->routes == set) connection->end_socket();
    SystemClock clock;
    const Clock::time_point deadline = deadline_after(clock.now(), limit);
    Task<> waiting = detail::wait_for_requests(set);
    Task<bool> limited = detail::run_until(clock, deadline, std::move(waiting));
    const Outcome<bool> waited = co_await outcome_of(std::move(limited));
    co_await shield();
    const auto all = core->all_connections();
    for (detail::HttpConnection* const connection : all) {
        if (connection->routes != set) continue;
        connection->close();
        connection->cancel();
    }
    co_await detail::wait_for_requests(set);
    co_await unshield();
    if (!waited) waited.rethrow();
}

}  // namespace cubepi
