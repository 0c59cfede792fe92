#include <cubepi/net/http_server.hpp>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/server/server_core.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

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

std::unique_ptr<asio::ssl::context> make_tls(const HttpServerOptions& options) {
    if (options.certificate_file.empty()) return nullptr;
    auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
    boost::system::error_code failed;
    (void)context->use_certificate_chain_file(options.certificate_file, failed);
    if (!failed)
        (void)context->use_private_key_file(options.key_file, asio::ssl::context::pem, failed);
    if (failed) {
        throw Error(ErrorCode::invalid_argument, "cannot use the certificate " +
                                                     options.certificate_file + " with the key " +
                                                     options.key_file + ": " + failed.message());
    }
    return context;
}

tcp protocol_of(int socket) {
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
    (void)::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    return address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
}

void open_socket(HttpServerCore& core) {
    core.tls = make_tls(core.options);
    core.listener = core.options.listener;
    if (!core.listener)
        core.listener = std::make_shared<HttpListener>(core.options.host, core.options.port);
    UniqueFd own(::fcntl(core.listener->native_handle(), F_DUPFD_CLOEXEC, 0));
    boost::system::error_code failed;
    (void)core.acceptor.assign(protocol_of(own.get()), own.get(), failed);
    if (failed) throw Error(ErrorCode::io, "cannot use a listening socket: " + failed.message());
    (void)own.release();
}

void close_acceptor(HttpServerCore& core) {
    if (!core.acceptor.is_open()) return;
    boost::system::error_code failed;
    // Asio expects that closing a descriptor ends its registration for events. It does not while another one of the same socket is
    // open, so the registration is ended first.
    const UniqueFd closed(core.acceptor.release(failed));
    core.listener.reset();
}

/// Closes the connection that has been without a request for the longest time. Returns false if there is none.
bool close_oldest_idle(HttpServerCore& core) {
    HttpConnection* oldest = nullptr;
    for (HttpConnection* const one : core.connections) {
        if (one->busy || one->closing) continue;
        if (!oldest || one->idle_since < oldest->idle_since) oldest = one;
    }
    if (!oldest) return false;
    oldest->close();
    return true;
}

Task<> serve_quietly(std::shared_ptr<HttpServerCore> core, tcp::socket socket) {
    // A connection that is lost does not affect the others.
    Task<> serving = serve_connection(std::move(core), std::move(socket));
    const Outcome<> served = co_await outcome_of(std::move(serving));
    if (served.cancelled()) served.rethrow();
}

void serve(const std::shared_ptr<HttpServerCore>& core, tcp::socket socket) {
    ++core->starting;
    core->work.spawn(serve_quietly(core, std::move(socket)));
}

/// Serves a connection, unless there are too many, none of which is idle.
void admit(const std::shared_ptr<HttpServerCore>& core, tcp::socket socket) {
    const std::size_t all = core->connections.size() + core->starting;
    if (all >= core->options.max_connections && !close_oldest_idle(*core)) return;
    boost::system::error_code failed;
    (void)socket.set_option(tcp::no_delay(true), failed);
    serve(core, std::move(socket));
}

/// Returns true if so few descriptors are free that a further connection could keep a turn from its files.
bool is_short_of_descriptors(HttpServerCore& core) {
    if (core.connections.empty()) return false;
    constexpr rlim_t most_spared = 256;
    struct rlimit files = {};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
    const rlim_t spared = std::min(files.rlim_cur / 2, most_spared);
    const UniqueFd lowest(::fcntl(core.acceptor.native_handle(), F_DUPFD_CLOEXEC, 0));
    return lowest.get() < 0 || static_cast<rlim_t>(lowest.get()) + spared >= files.rlim_cur;
}

Task<> accept_connections(std::shared_ptr<HttpServerCore> core) {
    boost::system::error_code failed;
    const asio::use_awaitable_t<Executor> awaits;
    auto token = asio::redirect_error(awaits, failed);
    SystemClock clock;
    // stop() may have come first.
    std::vector<int> waiting;
    if (core->listener) waiting = core->listener->take_connections();
    for (const int connection : waiting) {
        UniqueFd owned(connection);
        // It is one of a server without TLS.
        if (core->tls) continue;
        tcp::socket socket(core->executor);
        (void)socket.assign(protocol_of(connection), connection, failed);
        if (failed) continue;
        (void)owned.release();
        admit(core, std::move(socket));
    }
    while (!core->ending) {
        if (core->options.spares_descriptors && is_short_of_descriptors(*core)) {
            co_await clock.sleep_for(std::chrono::milliseconds(100));
            continue;
        }
        tcp::socket socket(core->executor);
        co_await core->acceptor.async_accept(socket, token);
        if (failed) {
            if (core->ending) break;
            // Too many open files, for example: later there may be fewer.
            core->log.write(LogLevel::warning, "http_server.accept_failed",
                            {{"error", failed.message()}});
            co_await clock.sleep_for(std::chrono::milliseconds(100));
            continue;
        }
        admit(core, std::move(socket));
    }
    core->accepting = false;
    core->changed.pulse();
}

Task<> wait_for_connections(std::shared_ptr<HttpServerCore> core) {
    while (core->accepting || core->starting > 0 || !core->connections.empty())
        co_await core->changed.wait();
}

void close_connections(HttpServerCore& core) {
    const std::vector<HttpConnection*> all(core.connections.begin(), core.connections.end());
    for (HttpConnection* connection : all) connection->close();
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

RouteMatch RouteTable::match(HttpServerRequest& request) const {
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

HttpServerCore::HttpServerCore(Executor used, HttpServerOptions given)
    : executor(std::move(used)),
      options(std::move(given)),
      log(options.log ? *options.log : Runtime::standard()->log),
      acceptor(executor),
      work(executor, [](const std::exception_ptr&) {}) {}

}  // namespace cubepi::detail

namespace cubepi {

struct HttpServer::State {
    std::shared_ptr<detail::HttpServerCore> core;
};

HttpListener::HttpListener(const std::string& host, std::uint16_t port) {
    using boost::asio::ip::tcp;
    boost::system::error_code failed;
    const boost::asio::ip::address address = boost::asio::ip::make_address(host, failed);
    if (failed)
        throw Error(ErrorCode::invalid_argument,
                    "'" + host + "' is not an IP address to listen on");
    tcp::endpoint endpoint(address, port);
    const int on = 1;
    detail::UniqueFd socket(
        ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    auto size = static_cast<socklen_t>(endpoint.capacity());
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
        ::listen(socket.get(), SOMAXCONN) != 0 ||
        ::getsockname(socket.get(), endpoint.data(), &size) != 0) {
        throw Error(ErrorCode::io, "cannot listen on " + host + ", port " + std::to_string(port) +
                                       ": " + detail::errno_text(errno));
    }
    port_ = endpoint.port();
    socket_ = socket.release();
}

HttpListener::~HttpListener() {
    (void)detail::UniqueFd(socket_);
    for (const int connection : connections_) (void)detail::UniqueFd(connection);
}

void HttpListener::put_back(int connection) {
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
}

std::vector<int> HttpListener::take_connections() {
    const std::lock_guard lock(mutex_);
    return std::exchange(connections_, {});
}

HttpServer::HttpServer(Executor executor, HttpServerOptions options)
    : state_(std::make_shared<State>()) {
    state_->core =
        std::make_shared<detail::HttpServerCore>(std::move(executor), std::move(options));
}

HttpServer::~HttpServer() {
    detail::HttpServerCore& core = *state_->core;
    core.ending = true;
    detail::close_acceptor(core);
    detail::close_connections(core);
}

void HttpServer::route(std::string method, std::string pattern, Handler handler) {
    state_->core->routes.add(std::move(method), std::move(pattern), std::move(handler));
}

void HttpServer::open() { detail::open_socket(*state_->core); }

void HttpServer::listen() {
    detail::HttpServerCore& core = *state_->core;
    if (!core.listener) open();
    core.log.write(LogLevel::info, "http_server.listening",
                   {{"name", core.options.name},
                    {"host", core.options.host},
                    {"port", static_cast<std::int64_t>(port())}});
    core.accepting = true;
    core.work.spawn(detail::accept_connections(state_->core));
}

std::uint16_t HttpServer::port() const noexcept {
    return state_->core->listener ? state_->core->listener->port() : std::uint16_t{0};
}

std::size_t HttpServer::connections() const noexcept { return state_->core->connections.size(); }

Task<> HttpServer::stop(std::chrono::nanoseconds limit) {
    const std::shared_ptr<detail::HttpServerCore> core = state_->core;
    core->ending = true;
    detail::close_acceptor(*core);
    for (detail::HttpConnection* const connection : core->connections)
        if (!connection->busy) connection->leave();
    SystemClock clock;
    const Clock::time_point deadline = deadline_after(clock.now(), limit);
    Task<> waiting = detail::wait_for_connections(core);
    Task<bool> limited = detail::run_until(clock, deadline, std::move(waiting));
    const Outcome<bool> waited = co_await outcome_of(std::move(limited));
    co_await shield();
    detail::close_connections(*core);
    co_await core->work.close();
    co_await unshield();
    if (!waited) waited.rethrow();
}

std::string_view HttpServerRequest::parameter(std::string_view name) const noexcept {
    const auto found = parameters.find(name);
    return found == parameters.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view HttpServerRequest::bearer_token() const noexcept {
    constexpr std::string_view scheme = "bearer ";
    std::string_view value = headers.get("authorization");
    if (value.size() < scheme.size()) return {};
    for (std::size_t i = 0; i < scheme.size(); ++i) {
        const char c = value[i];
        if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != scheme[i]) return {};
    }
    value.remove_prefix(scheme.size());
    while (value.starts_with(' ')) value.remove_prefix(1);
    return value;
}

HttpServerResponse::HttpServerResponse(unsigned code, std::string text, std::string content_type)
    : status(code), body(std::move(text)) {
    headers.set("content-type", std::move(content_type));
}

HttpServerResponse HttpServerResponse::json(unsigned code, const Json& value) {
    return HttpServerResponse(code, json_text(value) + "\n", "application/json");
}

HttpServerResponse HttpServerResponse::error(unsigned code, std::string_view text) {
    JsonObject error;
    error["message"] = text;
    JsonObject body;
    body["error"] = std::move(error);
    return json(code, body);
}

HttpServerResponse HttpServerResponse::events(std::function<Task<>(ResponseStream& out)> stream) {
    HttpServerResponse response(200, {}, "text/event-stream");
    response.headers.set("cache-control", "no-store");
    response.stream = std::move(stream);
    return response;
}

std::string server_sent_event(std::string_view name, std::string_view data) {
    std::string text;
    if (!name.empty()) text.append("event: ").append(name).append("\n");
    for (;;) {
        const std::size_t end = data.find_first_of("\r\n");
        text.append("data: ").append(data.substr(0, end)).append("\n");
        if (end == std::string_view::npos) break;
        const bool pair = data.substr(end).starts_with("\r\n");
        data.remove_prefix(end + (pair ? 2 : 1));
    }
    return text + "\n";
}

bool equal_secrets(std::string_view a, std::string_view b) noexcept {
    unsigned char difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const char other = b.empty() ? '\0' : b[i % b.size()];
        difference = static_cast<unsigned char>(
            difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other)));
    }
    return difference == 0;
}

}  // namespace cubepi
