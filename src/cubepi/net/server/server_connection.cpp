// A connection of HttpServer: reads requests, calls their handlers, writes the responses.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/net/server/client_stream.hpp>
#include <cubepi/net/server/server_core.hpp>

namespace cubepi::detail {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;

using Parser = http::request_parser<http::string_body>;

/// The status of the answer to a request that cannot be read; 0: none can be sent.
unsigned status_of(beast::error_code failed) {
    if (failed == http::error::header_limit) return 431;
    if (failed == http::error::body_limit) return 413;
    const bool is_protocol =
        failed.category() == http::make_error_code(http::error::bad_target).category();
    return is_protocol && failed != http::error::end_of_stream &&
                   failed != http::error::partial_message
               ? 400
               : 0;
}

std::string_view text_of_status(unsigned status) {
    switch (status) {
        case 413: return "the body of the request is too long";
        case 431: return "the header of the request is too long";
        default: return "this is not a valid HTTP request";
    }
}

HttpServerResponse try_later(std::string_view why) {
    HttpServerResponse response = HttpServerResponse::error(503, why);
    response.headers.set("retry-after", "1");
    return response;
}

/// Returns why the route does not accept a request with this header; nothing if it does.
std::optional<HttpServerResponse> refusal_of(const RouteMatch& match,
                                             const HttpServerRequest& request,
                                             const Parser& parser) {
    const HttpRouteOptions& options = match.set->options;
    std::optional<HttpServerResponse> refusal;
    if (options.authentication) refusal = options.authentication(request);
    if (refusal) return refusal;
    if (match.set->requests >= options.max_requests ||
        match.route->requests >= match.route->max_requests)
        return try_later("too many requests are in progress");
    const auto length = parser.content_length();
    if ((options.max_body_bytes == 0 && !parser.is_done()) ||
        (length && *length > options.max_body_bytes))
        return HttpServerResponse::error(413, text_of_status(413));
    return std::nullopt;
}

/// Counts a request of a connection as one of its route.
class RequestInProgress {
public:
    RequestInProgress(HttpConnection& connection, const RouteMatch& match)
        : connection_(connection), route_(*match.route) {
        ++route_.requests;
        ++match.set->requests;
        connection_.routes = match.set;
    }
    ~RequestInProgress() {
        --route_.requests;
        --connection_.routes->requests;
        connection_.routes->changed.pulse();
        connection_.routes.reset();
    }
    RequestInProgress(const RequestInProgress&) = delete;
    RequestInProgress& operator=(const RequestInProgress&) = delete;

private:
    HttpConnection& connection_;
    Route& route_;
};

class Connection final : public HttpConnection, public ResponseStream {
public:
    /// `tls` outlives the connection; without it, the connection is not encrypted.
    Connection(std::shared_ptr<HttpServerCore> core, asio::ip::tcp::socket socket,
               asio::ssl::context* tls)
        : core_(std::move(core)), stream_(std::move(socket), tls) {
        is_secure = tls != nullptr;
        beast::error_code gone;
        peer_ = lowest().socket().remote_endpoint(gone);
        --core_->starting;
        core_->connections.insert(this);
    }
    ~Connection() override {
        core_->connections.erase(this);
        core_->changed.pulse();
    }

    void close() noexcept override {
        closing = true;
        closed.request_stop();
        beast::error_code ignored;
        (void)lowest().socket().close(ignored);
        core_->routes_changed.pulse();  // for which it may wait
    }

    void cancel() noexcept override {
        if (group_) group_->cancel();
    }

    void end_socket() override {
        if (socket_) socket_->end();
    }

    Task<> serve();
    Task<> write(std::string bytes) override;
    ClientStream& stream() noexcept { return stream_; }

private:
    const HttpServerOptions& options() const noexcept { return core_->options; }
    beast::tcp_stream& lowest() noexcept { return stream_.tcp(); }
    void expire_after(std::chrono::nanoseconds limit) {
        lowest().expires_after(
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit));
    }

    /// Another request may follow on the connection.
    bool stays_open() const noexcept {
        return keep_alive_ && !core_->ending && is_secure == (core_->access.certificate != nullptr);
    }

    Task<bool> read_header(Parser& parser);
    Task<bool> read_body(Parser& parser, const HttpRouteOptions& limits);
    Task<bool> answer(Parser& parser);
    Task<RouteMatch> admit(HttpServerRequest& request, const Parser& parser);
    void log_refusal(const RouteMatch& match, const HttpServerRequest& request) const;
    Task<bool> run(Task<bool> exchange);
    Task<bool> exchange(const Route& route, HttpServerRequest request);
    Task<HttpServerResponse> call(const Route& route, HttpServerRequest request);
    Task<> watch(std::shared_ptr<std::stop_source> gone);
    Task<> serve_socket(HttpServerResponse response);
    Task<bool> send(HttpServerResponse response);
    Task<> write_bytes(std::string bytes);
    Task<> refuse(HttpServerResponse response);
    HttpServerRequest request_of(const Parser& parser);

    std::shared_ptr<HttpServerCore> core_;
    ClientStream stream_;
    asio::ip::tcp::endpoint peer_;
    beast::flat_buffer buffer_;
    bool used_ = false;  // a request was received
    bool chunked_ = false;
    // Of the request in progress:
    TaskGroup<bool>* group_ = nullptr;
    const Parser* parser_ = nullptr;
    ClientSocket* socket_ = nullptr;
    bool is_head_ = false;
    bool keep_alive_ = false;
    unsigned version_ = 11;
};

Task<> Connection::serve() {
    for (bool again = true; again;) {
        Parser parser;
        parser.header_limit(static_cast<std::uint32_t>(options().max_header_bytes));
        parser.body_limit(boost::none);  // that of the route
        again = co_await read_header(parser);
        if (again) again = co_await answer(parser);
        busy = false;
        idle_since = std::chrono::steady_clock::now();
    }
    beast::error_code ignored;
    (void)lowest().socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

/// Returns false if the connection is to be closed.
Task<bool> Connection::read_header(Parser& parser) {
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    if (buffer_.size() == 0) {
        if (core_->ending) co_return false;
        // The time for the header begins with its first byte.
        expire_after(used_ ? options().idle_timeout : options().header_timeout);
        const std::size_t size = co_await stream_.async_read_some(buffer_.prepare(4096), token);
        if (failed) co_return false;
        buffer_.commit(size);
    }
    busy = used_ = true;
    is_head_ = keep_alive_ = false;
    version_ = 11;
    expire_after(options().header_timeout);
    co_await http::async_read_header(stream_, buffer_, parser, token);
    lowest().expires_never();
    if (!failed) {
        is_head_ = parser.get().method() == http::verb::head;
        keep_alive_ = parser.get().keep_alive();
        version_ = parser.get().version();
        co_return true;
    }
    if (const unsigned status = status_of(failed)) {
        HttpServerResponse response = HttpServerResponse::error(status, text_of_status(status));
        co_await refuse(std::move(response));
    }
    co_return false;
}

/// Returns false if the connection is to be closed.
Task<bool> Connection::read_body(Parser& parser, const HttpRouteOptions& limits) {
    if (parser.is_done()) co_return true;
    if (parser.get()[http::field::expect] == "100-continue") {
        std::string proceed = "HTTP/1.1 100 Continue\r\n\r\n";
        co_await write_bytes(std::move(proceed));
    }
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    parser.body_limit(limits.max_body_bytes);
    expire_after(limits.body_timeout);
    co_await http::async_read(stream_, buffer_, parser, token);
    lowest().expires_never();
    if (!failed) co_return true;
    if (const unsigned status = status_of(failed)) {
        HttpServerResponse response = HttpServerResponse::error(status, text_of_status(status));
        co_await refuse(std::move(response));
    }
    co_return false;
}

HttpServerRequest Connection::request_of(const Parser& parser) {
    const auto& message = parser.get();
    HttpServerRequest request;
    request.method = std::string(message.method_string());
    const std::string_view target(message.target().data(), message.target().size());
    const std::size_t query = target.find('?');
    request.path = std::string(target.substr(0, query));
    if (query != std::string_view::npos) request.query = std::string(target.substr(query + 1));
    for (const auto& field : message)
        request.headers.add(std::string(field.name_string()), std::string(field.value()));
    request.peer = peer_.address().to_string() + ":" + std::to_string(peer_.port());
    return request;
}

/// Requests the stop when the client closes the connection. Ends when more bytes have arrived, too.
Task<> Connection::watch(std::shared_ptr<std::stop_source> gone) {
    asio::ip::tcp::socket& socket = lowest().socket();
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    co_await socket.async_wait(asio::ip::tcp::socket::wait_read, token);
    if (failed) co_return;
    char byte = 0;
    const ssize_t size = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    // A client that has not read everything resets the connection.
    const bool is_reset = size < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
    if (size == 0 || is_reset) gone->request_stop();
}

void Connection::log_refusal(const RouteMatch& match, const HttpServerRequest& request) const {
    const unsigned status = match.refusal->status;
    if (status == 404 || status == 405) return;
    core_->log.write(LogLevel::info, "http_server.refused",
                     {{"name", match.set ? std::string_view(match.set->name) : std::string_view()},
                      {"status", static_cast<std::int64_t>(status)},
                      {"client", request.client}});
}

Task<HttpServerResponse> Connection::call(const Route& route, HttpServerRequest request) {
    Task<HttpServerResponse> handling = route.handler(std::move(request));
    Outcome<HttpServerResponse> handled = co_await outcome_of(std::move(handling));
    if (handled) co_return std::move(handled).value();
    if (handled.cancelled()) handled.rethrow();
    const std::string_view error = logged_error(handled.failure());
    core_->log.write(LogLevel::error, "http_server.failed",
                     {{"route", route.pattern}, {"error", error}});
    co_return HttpServerResponse::error(500, "internal error");
}

/// Finds the route that accepts a request whose body is not read yet, or why there is none.
Task<RouteMatch> Connection::admit(HttpServerRequest& request, const Parser& parser) {
    const RequestOrigin origin = request_origin(request.headers, peer_.address(),
                                                is_secure ? "https" : "http", core_->proxies);
    request.client = origin.client.to_string();
    request.scheme = origin.scheme;
    request.host = origin.host;
    RouteMatch match;
    if (!is_host_allowed(origin, core_->access.allowed_hosts))
        match.refusal = HttpServerResponse::error(421, "this server does not have that name");
    while (!match.refusal && !match.route) {
        match = find_route(core_->sets, request, core_->access.base_path);
        if (match.route) {
            match.refusal = refusal_of(match, request, parser);
        } else if (!match.refusal && (core_->ending || closing)) {
            match.refusal = try_later("the server ends");
        } else if (!match.refusal) {
            co_await core_->routes_changed.wait();
        }
    }
    co_return match;
}

/// Answers a request. Returns true if another one may follow.
Task<bool> Connection::answer(Parser& parser) {
    HttpServerRequest request = request_of(parser);
    RouteMatch match = co_await admit(request, parser);
    if (match.refusal) {
        log_refusal(match, request);
        // The rest of the request is not read.
        keep_alive_ = keep_alive_ && parser.is_done();
        if (keep_alive_) co_return co_await send(std::move(*match.refusal));
        co_await refuse(std::move(*match.refusal));
        co_return false;
    }
    const RequestInProgress progress(*this, match);
    const bool is_complete = co_await read_body(parser, routes->options);
    if (!is_complete) co_return false;
    request.body = std::move(parser.get().body());
    parser_ = &parser;
    closed = std::stop_source();
    request.closed = closed.get_token();
    auto gone = std::make_shared<std::stop_source>(closed);
    BackgroundScope watching(core_->executor, [](const std::exception_ptr&) {});
    // Bytes of the next request cannot be told from the end of the connection.
    if (buffer_.size() == 0) watching.spawn(watch(std::move(gone)));
    Task<bool> exchanging = exchange(*match.route, std::move(request));
    Task<bool> running = run(std::move(exchanging));
    Outcome<bool> again = co_await outcome_of(std::move(running));
    co_await shield();
    co_await watching.close();
    co_await unshield();
    if (!again) again.rethrow();
    co_return again.value();
}

/// Runs the exchange so that cancel() ends it, and returns false then.
Task<bool> Connection::run(Task<bool> exchange) {
    TaskGroup<bool> group(core_->executor);
    group_ = &group;
    group.spawn(std::move(exchange));
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    const std::exception_ptr failure = co_await group.join_failure();
    group_ = nullptr;
    co_await throw_when_cancelled(throws);
    if (failure) std::rethrow_exception(failure);
    std::vector<Outcome<bool>> ended = group.take();
    co_return ended.front() && ended.front().value();
}

Task<bool> Connection::exchange(const Route& route, HttpServerRequest request) {
    Task<HttpServerResponse> calling = call(route, std::move(request));
    HttpServerResponse response = co_await std::move(calling);
    // Bytes that precede the acceptance are not those of a WebSocket.
    const bool is_socket = websocket::is_upgrade(parser_->get()) && buffer_.size() == 0;
    if (response.web_socket && is_socket) {
        Task<> serving = serve_socket(std::move(response));
        co_await std::move(serving);
        co_return false;
    }
    if (response.web_socket) {
        response = HttpServerResponse::error(426, "this path is a WebSocket");
        response.headers.set("upgrade", "websocket");
    }
    Task<bool> sending = send(std::move(response));
    co_return co_await std::move(sending);
}

Task<> Connection::serve_socket(HttpServerResponse response) {
    SocketLimits most;
    most.waiting_bytes = routes->options.max_body_bytes;
    most.write_timeout = options().write_timeout;
    most.handshake_timeout = options().header_timeout;
    most.idle_timeout = options().idle_timeout;
    const std::unique_ptr<ClientSocket> socket = ClientSocket::create(stream_, closed, most);
    const bool is_open = co_await socket->accept(parser_->get());
    if (!is_open) co_return;
    socket_ = socket.get();
    if (closing || core_->ending || !routes->is_serving) socket->end();
    BackgroundScope receiving(core_->executor, [](const std::exception_ptr&) {});
    receiving.spawn(socket->receive());
    Task<> handling = response.web_socket(*socket);
    const Outcome<> handled = co_await outcome_of(std::move(handling));
    socket_ = nullptr;
    co_await shield();
    co_await socket->close();
    socket->end();
    beast::error_code ignored;
    (void)lowest().socket().close(ignored);
    co_await receiving.idle();
    co_await unshield();
    if (!handled && handled.cancelled()) handled.rethrow();
    if (handled) co_return;
    const std::string_view error = logged_error(handled.failure());
    // Clients may leave.
    if (closed.stop_requested() && error == to_string(ErrorCode::disconnected)) co_return;
    core_->log.write(LogLevel::error, "http_server.failed",
                     {{"route", "WebSocket"}, {"error", error}});
}

/// Returns true if another request may follow.
Task<bool> Connection::send(HttpServerResponse response) {
    // A client of HTTP/1.0 reads a body without a length until the connection is closed.
    chunked_ = response.stream && version_ >= 11;
    const bool keep_alive = stays_open() && (!response.stream || chunked_);
    http::response<http::empty_body> header(static_cast<http::status>(response.status), version_);
    for (const HttpHeader& field : response.headers) header.set(field.name, field.value);
    header.keep_alive(keep_alive);
    if (chunked_) {
        header.chunked(true);
    } else if (!response.stream && response.status >= 200 && response.status != 204 &&
               response.status != 304) {
        header.content_length(response.body.size());
    }
    std::string text;
    {
        http::response_serializer<http::empty_body> serializer(header);
        serializer.split(true);
        beast::error_code failed;
        while (!serializer.is_header_done()) {
            serializer.next(failed, [&](beast::error_code&, const auto& buffers) {
                text += beast::buffers_to_string(buffers);
                serializer.consume(beast::buffer_bytes(buffers));
            });
            if (failed) throw Error(ErrorCode::protocol, failed.message());
        }
    }
    if (!response.stream && !is_head_) text += response.body;
    Task<> writing = write_bytes(std::move(text));
    const Outcome<> written = co_await outcome_of(std::move(writing));
    const bool has_stream = response.stream && !is_head_;
    // A stream learns from its own writes that the client has gone, and ends its work.
    if (!written && (written.cancelled() || !has_stream)) written.rethrow();
    if (!has_stream) co_return keep_alive;
    co_await response.stream(*this);
    if (chunked_) {
        std::string last = "0\r\n\r\n";
        co_await write_bytes(std::move(last));
    }
    co_return keep_alive;
}

Task<> Connection::write(std::string bytes) {
    if (bytes.empty()) co_return;  // an empty chunk would be the last one
    if (chunked_) {
        char size[24];
        const int length = std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
        bytes.insert(0, size, static_cast<std::size_t>(length));
        bytes += "\r\n";
    }
    co_await write_bytes(std::move(bytes));
}

Task<> Connection::write_bytes(std::string bytes) {
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    expire_after(options().write_timeout);
    co_await asio::async_write(stream_, asio::buffer(bytes), token);
    lowest().expires_never();
    if (!failed) co_return;
    closed.request_stop();
    throw Error(ErrorCode::disconnected, "the client closed the connection: " + failed.message());
}

Task<> Connection::refuse(HttpServerResponse response) {
    keep_alive_ = false;
    Task<bool> sending = send(std::move(response));
    (void)co_await outcome_of(std::move(sending));
    // Reads and discards input of the client for a moment: a reset would destroy the answer.
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    (void)lowest().socket().shutdown(asio::ip::tcp::socket::shutdown_send, failed);
    expire_after(std::chrono::seconds(1));
    std::string discarded(16 * 1024, '\0');
    while (!failed) {
        co_await lowest().async_read_some(asio::buffer(discarded), token);
    }
}

}  // namespace

Task<> serve_connection(std::shared_ptr<HttpServerCore> core, asio::ip::tcp::socket socket) {
    // It may be replaced during the handshake.
    const std::shared_ptr<HttpCertificate> certificate = core->access.certificate;
    asio::ssl::context* const tls = certificate ? &certificate->context : nullptr;
    Connection connection(core, std::move(socket), tls);
    const bool agreed = co_await connection.stream().handshake();
    if (!agreed) co_return;
    co_await connection.serve();
}

}  // namespace cubepi::detail
