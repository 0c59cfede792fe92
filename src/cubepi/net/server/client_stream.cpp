#include <cubepi/net/server/client_stream.hpp>

#include <boost/asio/redirect_error.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket/ssl.hpp>

namespace cubepi::detail {

namespace asio = boost::asio;
namespace beast = boost::beast;

struct ClientStream::Tls : beast::ssl_stream<beast::tcp_stream&> {
    using ssl_stream::ssl_stream;
};

ClientStream::ClientStream(asio::ip::tcp::socket socket, asio::ssl::context* tls)
    : tcp_(std::move(socket)) {
    if (tls) tls_ = std::make_unique<Tls>(tcp_, *tls);
}

ClientStream::~ClientStream() = default;

Task<bool> ClientStream::handshake() {
    if (!tls_) co_return true;
    beast::error_code failed;
    auto token = asio::redirect_error(awaits, failed);
    tcp_.expires_after(std::chrono::seconds(10));
    co_await tls_->async_handshake(asio::ssl::stream_base::server, token);
    co_return !failed;
}

void ClientStream::read(StreamHandler handler, const SomeBuffers<asio::mutable_buffer>& buffers) {
    if (tls_)
        tls_->async_read_some(buffers, std::move(handler));
    else
        tcp_.async_read_some(buffers, std::move(handler));
}

void ClientStream::write(StreamHandler handler, const SomeBuffers<asio::const_buffer>& buffers) {
    if (tls_)
        tls_->async_write_some(buffers, std::move(handler));
    else
        tcp_.async_write_some(buffers, std::move(handler));
}

void ClientStream::tear_down(beast::role_type role, StreamHandler handler) {
    if (tls_)
        beast::async_teardown(role, static_cast<beast::ssl_stream<beast::tcp_stream&>&>(*tls_),
                              std::move(handler));
    else
        beast::async_teardown(role, tcp_, std::move(handler));
}

}  // namespace cubepi::detail
