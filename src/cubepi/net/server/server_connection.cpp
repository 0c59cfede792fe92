// A connection of HttpServer: reads requests, calls their handlers, writes the responses.

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/net/server/server_core.hpp>

namespace cubepi::detail {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

using Parser = http::request_parser<http::string_body>;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;
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

template <class Stream>
class Connection final : public HttpConnection, public ResponseStream {
public:
    Connection(std::shared_ptr<HttpServerCore> core, Stream stream)
        : core_(std::move(core)), stream_(std::move(stream)) {
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
        beast::get_lowest_layer(stream_).socket().close(ignored);
    }

    /// The wait for a request ends. If its first bytes have been read already, it is answered.
    void leave() noexcept override {
        if (!returns_to_listener()) return close();
        beast::error_code ignored;
        lowest().socket().cancel(ignored);
    }

    Task<> serve();
    Task<> write(std::string bytes) override;
    Stream& stream() noexcept { return stream_; }

private:
    const HttpServerOptions& options() const noexcept { return core_->options; }
    beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }
    void expire_after(std::chrono::nanoseconds limit) {
        lowest().expires_after(
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit));
    }

    bool returns_to_listener() const noexcept {
        return std::is_same_v<Stream, PlainStream> && options().listener;
    }
    void return_to_listener();
    Task<bool> read(Parser& parser);
    Task<bool> answer(const Parser& parser);
    Task<HttpServerResponse> respond(HttpServerRequest request);
    Task<HttpServerResponse> call(const Route& route, HttpServerRequest request);
    Task<> watch(std::shared_ptr<std::stop_source> gone);
    Task<bool> send(HttpServerResponse response, bool head, bool keep_alive, unsigned version);
    Task<> write_bytes(std::string bytes);
    Task<> refuse(unsigned status);
    HttpServerRequest request_of(const Parser& parser);

    std::shared_ptr<HttpServerCore> core_;
    Stream stream_;
    beast::flat_buffer buffer_;
    bool chunked_ = false;
};

template <class Stream>
Task<> Connection<Stream>::serve() {
    for (bool again = true; again;) {
        Parser parser;
        parser.header_limit(static_cast<std::uint32_t>(options().max_header_bytes));
        parser.body_limit(options().max_body_bytes);
        again = co_await read(parser);
        if (again) again = co_await answer(parser);
        busy = false;
        idle_since = std::chrono::steady_clock::now();
    }
    beast::error_code ignored;
    lowest().socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

/// Leaves the connection to the next server, if that is possible.
template <class Stream>
void Connection<Stream>::return_to_listener() {
    if (!returns_to_listener() || closing || !lowest().socket().is_open()) return;
    beast::error_code failed;
    const int socket = lowest().socket().release(failed);
    if (!failed) options().listener->put_back(socket);
}

/// Reads a request. Returns false if the connection is to be closed.
template <class Stream>
Task<bool> Connection<Stream>::read(Parser& parser) {
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    if (buffer_.size() == 0) {
        if (core_->ending) return_to_listener();
        if (core_->ending) co_return false;
        // The time for the header begins with its first byte.
        expire_after(used ? options().idle_timeout : options().header_timeout);
        const std::size_t size = co_await stream_.async_read_some(buffer_.prepare(4096), token);
        if (failed && core_->ending) return_to_listener();
        if (failed) co_return false;
        buffer_.commit(size);
    }
    busy = used = true;
    expire_after(options().header_timeout);
    co_await http::async_read_header(stream_, buffer_, parser, token);
    if (!failed && parser.content_length() && *parser.content_length() > options().max_body_bytes)
        failed = http::error::body_limit;
    if (!failed && parser.get()[http::field::expect] == "100-continue") {
        std::string proceed = "HTTP/1.1 100 Continue\r\n\r\n";
        co_await write_bytes(std::move(proceed));
    }
    if (!failed && !parser.is_done()) {
        expire_after(options().body_timeout);
        co_await http::async_read(stream_, buffer_, parser, token);
    }
    lowest().expires_never();
    if (!failed) co_return true;
    if (const unsigned status = status_of(failed)) co_await refuse(status);
    co_return false;
}

template <class Stream>
HttpServerRequest Connection<Stream>::request_of(const Parser& parser) {
    const auto& message = parser.get();
    HttpServerRequest request;
    request.method = std::string(message.method_string());
    const std::string_view target(message.target().data(), message.target().size());
    const std::size_t query = target.find('?');
    request.path = std::string(target.substr(0, query));
    if (query != std::string_view::npos) request.query = std::string(target.substr(query + 1));
    for (const auto& field : message)
        request.headers.add(std::string(field.name_string()), std::string(field.value()));
    request.body = message.body();
    beast::error_code failed;
    const auto client = lowest().socket().remote_endpoint(failed);
    if (!failed)
        request.client = client.address().to_string() + ":" + std::to_string(client.port());
    return request;
}

/// Requests the stop when the client closes the connection. Ends when more bytes have arrived, too.
template <class Stream>
Task<> Connection<Stream>::watch(std::shared_ptr<std::stop_source> gone) {
    asio::ip::tcp::socket& socket = lowest().socket();
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    co_await socket.async_wait(asio::ip::tcp::socket::wait_read, token);
    if (failed) co_return;
    char byte = 0;
    const ssize_t size = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (size == 0) gone->request_stop();
}

template <class Stream>
Task<HttpServerResponse> Connection<Stream>::call(const Route& route, HttpServerRequest request) {
    Task<HttpServerResponse> handling = route.handler(std::move(request));
    Outcome<HttpServerResponse> handled = co_await outcome_of(std::move(handling));
    if (handled) co_return std::move(handled).value();
    if (handled.cancelled()) handled.rethrow();
    const std::string_view error = logged_error(handled.failure());
    core_->log.write(LogLevel::error, "http_server.failed",
                     {{"route", route.pattern}, {"error", error}});
    co_return HttpServerResponse::error(500, "internal error");
}

template <class Stream>
Task<HttpServerResponse> Connection<Stream>::respond(HttpServerRequest request) {
    const RouteMatch match = core_->routes.match(request);
    if (match.route) co_return co_await call(*match.route, std::move(request));
    if (match.allowed.empty())
        co_return HttpServerResponse::error(404, "there is nothing at this path");
    HttpServerResponse refused =
        HttpServerResponse::error(405, "this path does not accept the method");
    refused.headers.set("allow", match.allowed);
    co_return refused;
}

/// Answers a request. Returns true if another one may follow.
template <class Stream>
Task<bool> Connection<Stream>::answer(const Parser& parser) {
    HttpServerRequest request = request_of(parser);
    const bool head = request.method == "HEAD";
    const unsigned version = parser.get().version();
    const bool keep_alive = parser.get().keep_alive();
    closed = std::stop_source();
    request.closed = closed.get_token();
    auto gone = std::make_shared<std::stop_source>(closed);
    BackgroundScope watching(core_->executor, [](const std::exception_ptr&) {});
    // Bytes of the next request cannot be told from the end of the connection.
    if (buffer_.size() == 0) watching.spawn(watch(std::move(gone)));
    Task<HttpServerResponse> responding = respond(std::move(request));
    Outcome<HttpServerResponse> response = co_await outcome_of(std::move(responding));
    bool again = false;
    std::exception_ptr failure = response.failure();
    if (!failure) {
        Task<bool> sending =
            send(std::move(response).value(), head, keep_alive && !core_->ending, version);
        Outcome<bool> sent = co_await outcome_of(std::move(sending));
        failure = sent.failure();
        if (sent) again = sent.value();
    }
    co_await shield();
    co_await watching.close();
    co_await unshield();
    if (failure) std::rethrow_exception(failure);
    co_return again;
}

template <class Stream>
Task<bool> Connection<Stream>::send(HttpServerResponse response, bool head, bool keep_alive,
                                    unsigned version) {
    // A client of HTTP/1.0 reads a body without a length until the connection is closed.
    chunked_ = response.stream && version >= 11;
    if (response.stream && !chunked_) keep_alive = false;
    http::response<http::empty_body> header(static_cast<http::status>(response.status), version);
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
    if (!response.stream && !head) text += response.body;
    co_await write_bytes(std::move(text));
    if (!response.stream || head) co_return keep_alive;
    co_await response.stream(*this);
    if (chunked_) {
        std::string last = "0\r\n\r\n";
        co_await write_bytes(std::move(last));
    }
    co_return keep_alive;
}

template <class Stream>
Task<> Connection<Stream>::write(std::string bytes) {
    if (bytes.empty()) co_return;  // an empty chunk would be the last one
    if (chunked_) {
        char size[24];
        const int length = std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
        bytes.insert(0, size, static_cast<std::size_t>(length));
        bytes += "\r\n";
    }
    co_await write_bytes(std::move(bytes));
}

template <class Stream>
Task<> Connection<Stream>::write_bytes(std::string bytes) {
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    expire_after(options().write_timeout);
    co_await asio::async_write(stream_, asio::buffer(bytes), token);
    lowest().expires_never();
    if (!failed) co_return;
    closed.request_stop();
    throw Error(ErrorCode::disconnected, "the client closed the connection: " + failed.message());
}

template <class Stream>
Task<> Connection<Stream>::refuse(unsigned status) {
    HttpServerResponse response = HttpServerResponse::error(status, text_of_status(status));
    Task<bool> sending = send(std::move(response), false, false, 11);
    (void)co_await outcome_of(std::move(sending));
    // Reads and discards input of the client for a moment: a reset would destroy the answer.
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    lowest().socket().shutdown(asio::ip::tcp::socket::shutdown_send, failed);
    expire_after(std::chrono::seconds(1));
    std::string discarded(16 * 1024, '\0');
    while (!failed) {
        co_await lowest().async_read_some(asio::buffer(discarded), token);
    }
}

}  // namespace

Task<> serve_connection(std::shared_ptr<HttpServerCore> core, asio::ip::tcp::socket socket) {
    if (!core->tls) {
        Connection<PlainStream> connection(core, PlainStream(std::move(socket)));
        co_return co_await connection.serve();
    }
    Connection<TlsStream> connection(core, TlsStream(PlainStream(std::move(socket)), *core->tls));
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    beast::get_lowest_layer(connection.stream()).expires_after(std::chrono::seconds(10));
    co_await connection.stream().async_handshake(asio::ssl::stream_base::server, token);
    if (failed) co_return;
    co_await connection.serve();
}

}  // namespace cubepi::detail
