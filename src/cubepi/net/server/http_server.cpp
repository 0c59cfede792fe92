#include <cubepi/net/http_server.hpp>

#include <utility>
#include <vector>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/server/server_core.hpp>

namespace cubepi {

namespace detail {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

std::unique_ptr<asio::ssl::context> make_tls(const HttpServerOptions& options) {
    if (options.certificate_file.empty()) return nullptr;
    auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
    boost::system::error_code failed;
    context->use_certificate_chain_file(options.certificate_file, failed);
    if (!failed) context->use_private_key_file(options.key_file, asio::ssl::context::pem, failed);
    if (failed) {
        throw Error(ErrorCode::invalid_argument, "cannot use the certificate " +
                                                     options.certificate_file + " with the key " +
                                                     options.key_file + ": " + failed.message());
    }
    return context;
}

void bind(HttpServerCore& core) {
    boost::system::error_code failed;
    const asio::ip::address address = asio::ip::make_address(core.options.host, failed);
    if (failed) {
        throw Error(ErrorCode::invalid_argument,
                    "'" + core.options.host + "' is not an IP address to listen on");
    }
    const tcp::endpoint endpoint(address, core.options.port);
    core.acceptor.open(endpoint.protocol(), failed);
    if (!failed) core.acceptor.set_option(asio::socket_base::reuse_address(true), failed);
    if (!failed) core.acceptor.bind(endpoint, failed);
    if (!failed) core.acceptor.listen(asio::socket_base::max_listen_connections, failed);
    if (!failed) core.port = core.acceptor.local_endpoint(failed).port();
    if (!failed) return;
    throw Error(ErrorCode::io, "cannot listen on " + core.options.host + ", port " +
                                   std::to_string(core.options.port) + ": " + failed.message());
}

Task<> serve_quietly(std::shared_ptr<HttpServerCore> core, tcp::socket socket) {
    // A connection that is lost does not affect the others.
    Task<> serving = serve_connection(std::move(core), std::move(socket));
    const Outcome<> served = co_await outcome_of(std::move(serving));
    if (served.cancelled()) served.rethrow();
}

Task<> accept_connections(std::shared_ptr<HttpServerCore> core) {
    boost::system::error_code failed;
    const asio::use_awaitable_t<Executor> awaits;
    auto token = asio::redirect_error(awaits, failed);
    SystemClock clock;
    while (!core->ending) {
        tcp::socket socket(core->executor);
        co_await core->acceptor.async_accept(socket, token);
        if (core->ending || failed == asio::error::operation_aborted) co_return;
        if (failed) {
            // Too many open files, for example: later there may be fewer.
            core->log.write(LogLevel::warning, "http_server.accept_failed",
                            {{"error", failed.message()}});
            co_await clock.sleep_for(std::chrono::milliseconds(100));
            continue;
        }
        if (core->connections.size() >= core->options.max_connections) continue;
        socket.set_option(tcp::no_delay(true), failed);
        core->work.spawn(serve_quietly(core, std::move(socket)));
    }
}

Task<> wait_for_connections(std::shared_ptr<HttpServerCore> core) {
    while (!core->connections.empty()) co_await core->changed.wait();
}

void close_connections(HttpServerCore& core, bool busy_ones) {
    const std::vector<HttpConnection*> all(core.connections.begin(), core.connections.end());
    for (HttpConnection* connection : all) {
        if (busy_ones || !connection->busy) connection->close();
    }
}

}  // namespace

HttpServerCore::HttpServerCore(Executor used, HttpServerOptions given)
    : executor(std::move(used)),
      options(std::move(given)),
      log(options.log ? *options.log : Runtime::standard()->log),
      acceptor(executor),
      work(executor, [](const std::exception_ptr&) {}) {}

}  // namespace detail

struct HttpServer::State {
    std::shared_ptr<detail::HttpServerCore> core;
};

HttpServer::HttpServer(Executor executor, HttpServerOptions options)
    : state_(std::make_shared<State>()) {
    state_->core =
        std::make_shared<detail::HttpServerCore>(std::move(executor), std::move(options));
}

HttpServer::~HttpServer() {
    detail::HttpServerCore& core = *state_->core;
    core.ending = true;
    boost::system::error_code ignored;
    core.acceptor.close(ignored);
    detail::close_connections(core, true);
}

void HttpServer::route(std::string method, std::string pattern, Handler handler) {
    state_->core->routes.add(std::move(method), std::move(pattern), std::move(handler));
}

void HttpServer::listen() {
    detail::HttpServerCore& core = *state_->core;
    core.tls = detail::make_tls(core.options);
    detail::bind(core);
    core.log.write(LogLevel::info, "http_server.listening",
                   {{"name", core.options.name},
                    {"host", core.options.host},
                    {"port", static_cast<std::int64_t>(core.port)}});
    core.work.spawn(detail::accept_connections(state_->core));
}

std::uint16_t HttpServer::port() const noexcept { return state_->core->port; }

std::size_t HttpServer::connections() const noexcept { return state_->core->connections.size(); }

Task<> HttpServer::stop(std::chrono::nanoseconds limit) {
    const std::shared_ptr<detail::HttpServerCore> core = state_->core;
    core->ending = true;
    boost::system::error_code ignored;
    core->acceptor.close(ignored);
    detail::close_connections(*core, false);
    SystemClock clock;
    const Clock::time_point deadline = deadline_after(clock.now(), limit);
    Task<> waiting = detail::wait_for_connections(core);
    Task<bool> limited = detail::run_until(clock, deadline, std::move(waiting));
    const Outcome<bool> waited = co_await outcome_of(std::move(limited));
    co_await shield();
    detail::close_connections(*core, true);
    co_await core->work.close();
    co_await unshield();
    if (!waited) waited.rethrow();
}

}  // namespace cubepi
