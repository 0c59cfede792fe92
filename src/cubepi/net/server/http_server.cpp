#include <cubepi/net/http_server.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/server/server_core.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

/// Closes the connection that has been without a request for the longest time, but at least for `least`; or else one whose request no
/// route has accepted. Returns false if there is none.
bool close_oldest(HttpServerCore& core, std::chrono::nanoseconds least) {
    HttpConnection* oldest = nullptr;
    const auto latest = std::chrono::steady_clock::now() - least;
    for (HttpConnection* const one : core.connections) {
        if (one->closing || one->routes || one->idle_since > latest) continue;
        if (!oldest ||
            std::pair(one->busy, one->idle_since) < std::pair(oldest->busy, oldest->idle_since))
            oldest = one;
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
    if (all >= core->options.max_connections && !close_oldest(*core, {})) return;
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
    while (!core->ending) {
        if (core->options.spares_descriptors && is_short_of_descriptors(*core)) {
            if (close_oldest(*core, std::chrono::seconds(1))) continue;
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

}  // namespace

HttpServerCore::HttpServerCore(Executor used, HttpServerOptions given)
    : executor(std::move(used)),
      options(std::move(given)),
      log(options.log ? *options.log : Runtime::standard()->log),
      acceptor(executor),
      work(executor, [](const std::exception_ptr&) {}) {}

void HttpServerCore::open() {
    if (acceptor.is_open()) return;
    boost::system::error_code failed;
    const asio::ip::address address = asio::ip::make_address(options.host, failed);
    if (failed)
        throw Error(ErrorCode::invalid_argument,
                    "'" + options.host + "' is not an IP address to listen on");
    tcp::endpoint endpoint(address, options.port);
    const int on = 1;
    UniqueFd socket(
        ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    auto size = static_cast<socklen_t>(endpoint.capacity());
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
        ::listen(socket.get(), SOMAXCONN) != 0 ||
        ::getsockname(socket.get(), endpoint.data(), &size) != 0) {
        throw Error(ErrorCode::io, "cannot listen on " + options.host + ", port " +
                                       std::to_string(options.port) + ": " + errno_text(errno));
    }
    (void)acceptor.assign(endpoint.protocol(), socket.get(), failed);
    if (failed) throw Error(ErrorCode::io, "cannot use a listening socket: " + failed.message());
    (void)socket.release();
    port = endpoint.port();
}

void HttpServerCore::start(const std::shared_ptr<HttpServerCore>& core) {
    if (core->accepting || core->ending) return;
    core->open();
    core->accepting = true;
    core->work.spawn(accept_connections(core));
}

void HttpServerCore::close_acceptor() {
    boost::system::error_code ignored;
    (void)acceptor.close(ignored);
    port = 0;
}

std::vector<HttpConnection*> HttpServerCore::all_connections() const {
    return {connections.begin(), connections.end()};
}

void HttpServerCore::close_connections() {
    for (HttpConnection* connection : all_connections()) connection->close();
}

}  // namespace cubepi::detail

namespace cubepi {

std::shared_ptr<HttpCertificate> read_certificate(const std::string& certificate_file,
                                                  const std::string& key_file) {
    using boost::asio::ssl::context;
    auto certificate = std::make_shared<HttpCertificate>(context(context::tls_server));
    boost::system::error_code failed;
    (void)certificate->context.use_certificate_chain_file(certificate_file, failed);
    if (!failed) (void)certificate->context.use_private_key_file(key_file, context::pem, failed);
    if (failed) {
        throw Error(ErrorCode::invalid_argument, "cannot use the certificate " + certificate_file +
                                                     " with the key " + key_file + ": " +
                                                     failed.message());
    }
    return certificate;
}

void check_address_ranges(const std::vector<std::string>& ranges) {
    (void)detail::AddressRanges(ranges);
}

HttpServer::HttpServer(Executor executor, HttpServerOptions options)
    : core_(std::make_shared<detail::HttpServerCore>(std::move(executor), std::move(options))) {
    set_access(core_->options.access);
}

HttpServer::~HttpServer() {
    core_->ending = true;
    core_->close_acceptor();
    core_->close_connections();
}

void HttpServer::open() { core_->open(); }

void HttpServer::set_access(HttpAccess access) {
    core_->proxies = detail::AddressRanges(access.trusted_proxies);
    while (access.base_path.ends_with('/')) access.base_path.pop_back();
    core_->access = std::move(access);
    const bool is_secure = core_->access.certificate != nullptr;
    const auto all = core_->all_connections();
    for (detail::HttpConnection* const connection : all)
        if (!connection->busy && connection->is_secure != is_secure) connection->close();
}

std::uint16_t HttpServer::port() const noexcept { return core_->port; }

std::size_t HttpServer::connections() const noexcept { return core_->connections.size(); }

Task<> HttpServer::stop(std::chrono::nanoseconds limit) {
    const std::shared_ptr<detail::HttpServerCore> core = core_;
    core->ending = true;
    core->close_acceptor();
    const auto all = core->all_connections();
    for (detail::HttpConnection* const connection : all) {
        connection->end_socket();
        if (!connection->busy) connection->close();
    }
    core->routes_changed.pulse();
    SystemClock clock;
    const Clock::time_point deadline = deadline_after(clock.now(), limit);
    Task<> waiting = detail::wait_for_connections(core);
    Task<bool> limited = detail::run_until(clock, deadline, std::move(waiting));
    const Outcome<bool> waited = co_await outcome_of(std::move(limited));
    co_await shield();
    core->close_connections();
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

HttpAuthentication bearer_authentication(std::string token) {
    if (token.empty()) throw Error(ErrorCode::invalid_argument, "an authentication needs a token");
    return [token = std::move(token)](const HttpServerRequest& request) {
        std::optional<HttpServerResponse> refused;
        if (equal_secrets(request.bearer_token(), token)) return refused;
        refused = HttpServerResponse::error(401, "the bearer token is missing or wrong");
        refused->headers.set("www-authenticate", "Bearer");
        return refused;
    };
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
