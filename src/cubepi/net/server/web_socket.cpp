// The WebSocket of a client (RFC 6455).

#include <optional>
#include <string>
#include <utility>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/websocket/stream.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/net/server/client_stream.hpp>

namespace cubepi::detail {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;

std::chrono::steady_clock::duration steady(std::chrono::nanoseconds duration) {
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(duration);
}

class Socket final : public ClientSocket {
public:
    Socket(ClientStream& stream, std::stop_source closed, SocketLimits limits)
        : stream_(stream), closed_(std::move(closed)), limits_(limits) {
        set_timeouts(limits.handshake_timeout);
        stream_.read_message_max(limits.waiting_bytes);
    }

    Task<bool> accept(const Request& request) override;
    Task<std::optional<std::string>> read() override;
    Task<> write(std::string text) override;
    Task<> receive() override;
    void end() override { received_.close(); }
    Task<> close() override;

private:
    void set_timeouts(std::chrono::nanoseconds of_handshake) {
        websocket::stream_base::timeout timeouts{};
        timeouts.handshake_timeout = steady(of_handshake);
        timeouts.idle_timeout = steady(limits_.idle_timeout);
        timeouts.keep_alive_pings = true;
        stream_.set_option(timeouts);
    }

    websocket::stream<ClientStream&, false> stream_;
    std::stop_source closed_;
    const SocketLimits limits_;
    AsyncQueue<std::string> received_{limits_.waiting_messages};
    std::size_t waiting_bytes_ = 0;
    websocket::close_code end_ = websocket::close_code::going_away;
};

Task<bool> Socket::accept(const Request& request) {
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    co_await stream_.async_accept(request, token);
    co_return !failed;
}

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
    // A client that does not answer does not delay the end of a server.
    set_timeouts(std::chrono::seconds(1));
    const websocket::close_reason reason(stream_.got_text() ? end_
                                                            : websocket::close_code::unknown_data);
    co_await stream_.async_close(reason, token);
}

}  // namespace

std::unique_ptr<ClientSocket> ClientSocket::create(ClientStream& stream, std::stop_source closed,
                                                   SocketLimits limits) {
    return std::make_unique<Socket>(stream, std::move(closed), limits);
}

}  // namespace cubepi::detail
