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

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/container/static_vector.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/net/server/server_core.hpp>

namespace cubepi::detail {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;

using Parser = http::request_parser<http::string_body>;
constexpr asio::use_awaitable_t<Executor> awaits;

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

/// A completion handler of any type.
class StreamHandler {
public:
    using executor_type = Executor;
    using cancellation_slot_type = asio::cancellation_slot;

    template <class Handler>
    StreamHandler(Handler handler, const Executor& executor)
        : executor_(asio::get_associated_executor(handler, executor)),
          slot_(asio::get_associated_cancellation_slot(handler)),
          held_(std::make_unique<HeldAs<Handler>>(std::move(handler))) {}

    Executor get_executor() const noexcept { return executor_; }
    asio::cancellation_slot get_cancellation_slot() const noexcept { return slot_; }
    void operator()(beast::error_code failed, std::size_t size = 0) {
        Held& held = *held_;
        held.complete(std::move(held_), failed, size);
    }

private:
    struct Held {
        virtual ~Held() = default;
        virtual void complete(std::unique_ptr<Held> self, beast::error_code failed,
                              std::size_t size) = 0;
    };
    template <class Handler>
    struct HeldAs final : Held {
        explicit HeldAs(Handler given) : handler(std::move(given)) {}
        void complete(std::unique_ptr<Held> self, beast::error_code failed,
                      std::size_t size) override {
            // Asio requires that memory is released before the handler runs.
            Handler moved = std::move(handler);
            self.reset();
            std::move(moved)(failed, size);
        }
        Handler handler;
    };

    Executor executor_;
    asio::cancellation_slot slot_;
    std::unique_ptr<Held> held_;
};

/// The stream of a connection, with or without TLS. The operations of Beast, which are large templates, are compiled for this type only, and
/// those of TLS and TCP for one type of handlers and of buffers.
class ClientStream {
public:
    using executor_type = Executor;
    using next_layer_type = beast::tcp_stream;  // Beast closes this one after a timeout
    using TlsStream = beast::ssl_stream<beast::tcp_stream&>;

    ClientStream(asio::ip::tcp::socket socket, asio::ssl::context* tls) : tcp_(std::move(socket)) {
        if (tls) tls_ = std::make_unique<TlsStream>(tcp_, *tls);
    }
    ClientStream(const ClientStream&) = delete;  // tls_ refers to tcp_
    ClientStream& operator=(const ClientStream&) = delete;

    Executor get_executor() noexcept { return tcp_.get_executor(); }
    beast::tcp_stream& next_layer() noexcept { return tcp_; }
    const beast::tcp_stream& next_layer() const noexcept { return tcp_; }
    beast::tcp_stream& tcp() noexcept { return tcp_; }
    TlsStream& tls() noexcept { return *tls_; }

    template <class Buffers, class Token>
    auto async_read_some(const Buffers& buffers, Token&& token) {
        const auto begin = [this](auto&& handler, const SomeBuffers<asio::mutable_buffer>& some) {
            StreamHandler erased(std::forward<decltype(handler)>(handler), get_executor());
            read(std::move(erased), some);
        };
        return asio::async_initiate<Token, void(beast::error_code, std::size_t)>(
            begin, token, some_of<asio::mutable_buffer>(buffers));
    }

    template <class Buffers, class Token>
    auto async_write_some(const Buffers& buffers, Token&& token) {
        const auto begin = [this](auto&& handler, const SomeBuffers<asio::const_buffer>& some) {
            StreamHandler erased(std::forward<decltype(handler)>(handler), get_executor());
            write(std::move(erased), some);
        };
        return asio::async_initiate<Token, void(beast::error_code, std::size_t)>(
            begin, token, some_of<asio::const_buffer>(buffers));
    }

    /// Beast calls it to end a WebSocket.
    template <class Handler>
    friend void async_teardown(beast::role_type role, ClientStream& stream, Handler&& handler) {
        StreamHandler erased(std::forward<Handler>(handler), stream.get_executor());
        stream.tear_down(role, std::move(erased));
    }

private:
    /// The first buffers of a sequence that are not empty: an operation may transfer less than all, but not nothing.
    template <class Buffer>
    using SomeBuffers = boost::container::static_vector<Buffer, 8>;

    template <class Buffer, class Buffers>
    static SomeBuffers<Buffer> some_of(const Buffers& buffers) {
        SomeBuffers<Buffer> some;
        const auto end = asio::buffer_sequence_end(buffers);
        for (auto at = asio::buffer_sequence_begin(buffers);
             at != end && some.size() < some.capacity(); ++at) {
            const Buffer buffer(*at);
            if (buffer.size() > 0) some.push_back(buffer);
        }
        return some;
    }

    void read(StreamHandler handler, const SomeBuffers<asio::mutable_buffer>& buffers) {
        if (tls_)
            tls_->async_read_some(buffers, std::move(handler));
        else
            tcp_.async_read_some(buffers, std::move(handler));
    }
    void write(StreamHandler handler, const SomeBuffers<asio::const_buffer>& buffers) {
        if (tls_)
            tls_->async_write_some(buffers, std::move(handler));
        else
            tcp_.async_write_some(buffers, std::move(handler));
    }
    void tear_down(beast::role_type role, StreamHandler handler) {
        if (tls_)
            beast::async_teardown(role, *tls_, std::move(handler));
        else
            beast::async_teardown(role, tcp_, std::move(handler));
    }

    beast::tcp_stream tcp_;
    std::unique_ptr<TlsStream> tls_;
};

/// The limits of a WebSocket.
struct SocketLimits {
    std::size_t waiting_messages = 8;  ///< of the client, for the handler
    std::size_t waiting_bytes = 0;     ///< of them; a single one may have more
    std::chrono::nanoseconds write_timeout = {};
};

class Socket final : public WebSocket {
public:
    Socket(ClientStream& stream, std::stop_source closed, SocketLimits limits)
        : stream_(stream), closed_(std::move(closed)), limits_(limits) {}

    Task<std::optional<std::string>> read() override;
    Task<> write(std::string text) override;
    /// Passes on what the client sends, until it is gone. Reads all the time, because pings are answered and the answers to own ones are
    /// received meanwhile: a client that sends too much is closed.
    Task<> receive();
    /// Closes the connection, as RFC 6455 has it.
    Task<> close();
    void end() { received_.close(); }
    websocket::stream<ClientStream&, false>& stream() noexcept { return stream_; }

private:
    websocket::stream<ClientStream&, false> stream_;
    std::stop_source closed_;
    const SocketLimits limits_;
    AsyncQueue<std::string> received_{limits_.waiting_messages};
    std::size_t waiting_bytes_ = 0;
    websocket::close_code end_ = websocket::close_code::going_away;
};

Task<std::optional<std::string>> Socket::read() {
    std::optional<std::string> text = co_await received_.next();
    if (text) waiting_bytes_ -= text->size();
    co_return text;
}

Task<> Socket::write(std::string text) {
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    stream_.text(true);
    // A client may answer pings without reading.
    auto writing = std::make_shared<bool>(true);
    asio::steady_timer timer(
        stream_.get_executor(),
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(limits_.write_timeout));
    const auto expire = [this, is_writing = std::weak_ptr<bool>(writing)](beast::error_code ended) {
        beast::error_code ignored;
        if (!ended && !is_writing.expired())
            (void)stream_.next_layer().tcp().socket().close(ignored);
    };
    timer.async_wait(expire);
    co_await stream_.async_write(asio::buffer(text), token);
    writing.reset();
    if (!failed) co_return;
    closed_.request_stop();
    throw Error(ErrorCode::disconnected, "the client closed the WebSocket: " + failed.message());
}

Task<> Socket::receive() {
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    for (bool is_open = true; is_open;) {
        std::string text;
        auto buffer = asio::dynamic_buffer(text);
        co_await stream_.async_read(buffer, token);
        is_open = !failed && stream_.got_text();
        if (!is_open || received_.closed()) break;
        const std::size_t size = text.size();
        const bool is_too_much =
            waiting_bytes_ > 0 && waiting_bytes_ + size > limits_.waiting_bytes;
        if (is_too_much || !received_.try_push(text)) {
            end_ = websocket::close_code::try_again_later;
            break;
        }
        waiting_bytes_ += size;
    }
    const bool has_ended = received_.closed();
    received_.close();
    // After end() its handler continues.
    if (failed || !stream_.got_text() || !has_ended) closed_.request_stop();
}

Task<> Socket::close() {
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    if (!stream_.is_open()) co_return;
    const websocket::close_reason reason(stream_.got_text() ? end_
                                                            : websocket::close_code::unknown_data);
    co_await stream_.async_close(reason, token);
}

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
    Socket* socket_ = nullptr;
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
    const std::exception_ptr failure = co_await group.settle();
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
    Socket socket(stream_, closed, most);
    websocket::stream_base::timeout limits{};
    limits.handshake_timeout =
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(options().header_timeout);
    limits.idle_timeout =
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(options().idle_timeout);
    limits.keep_alive_pings = true;
    socket.stream().set_option(limits);
    socket.stream().read_message_max(routes->options.max_body_bytes);
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    co_await socket.stream().async_accept(parser_->get(), token);
    if (failed) co_return;
    socket_ = &socket;
    if (closing || core_->ending || !routes->is_serving) socket.end();
    BackgroundScope receiving(core_->executor, [](const std::exception_ptr&) {});
    receiving.spawn(socket.receive());
    Task<> handling = response.web_socket(socket);
    const Outcome<> handled = co_await outcome_of(std::move(handling));
    socket_ = nullptr;
    co_await shield();
    // A client that does not answer does not delay the end of a server.
    limits.handshake_timeout = std::chrono::seconds(1);
    socket.stream().set_option(limits);
    co_await socket.close();
    socket.end();
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
    if (tls) {
        beast::error_code failed;
        auto token = asio::redirect_error(awaits, failed);
        connection.stream().tcp().expires_after(std::chrono::seconds(10));
        co_await connection.stream().tls().async_handshake(asio::ssl::stream_base::server, token);
        if (failed) co_return;
    }
    co_await connection.serve();
}

}  // namespace cubepi::detail
