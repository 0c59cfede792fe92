#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <utility>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/container/static_vector.hpp>

#include <cubepi/core/task.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::detail {

constexpr boost::asio::use_awaitable_t<Executor> awaits;

/// A completion handler of any type.
class StreamHandler {
public:
    using executor_type = Executor;
    using cancellation_slot_type = boost::asio::cancellation_slot;

    template <class Handler>
    StreamHandler(Handler handler, const Executor& executor)
        : executor_(boost::asio::get_associated_executor(handler, executor)),
          slot_(boost::asio::get_associated_cancellation_slot(handler)),
          held_(std::make_unique<HeldAs<Handler>>(std::move(handler))) {}

    Executor get_executor() const noexcept { return executor_; }
    boost::asio::cancellation_slot get_cancellation_slot() const noexcept { return slot_; }
    void operator()(boost::beast::error_code failed, std::size_t size = 0) {
        Held& held = *held_;
        held.complete(std::move(held_), failed, size);
    }

private:
    struct Held {
        virtual ~Held() = default;
        virtual void complete(std::unique_ptr<Held> self, boost::beast::error_code failed,
                              std::size_t size) = 0;
    };
    template <class Handler>
    struct HeldAs final : Held {
        explicit HeldAs(Handler given) : handler(std::move(given)) {}
        void complete(std::unique_ptr<Held> self, boost::beast::error_code failed,
                      std::size_t size) override {
            // Asio requires that memory is released before the handler runs.
            Handler moved = std::move(handler);
            self.reset();
            std::move(moved)(failed, size);
        }
        Handler handler;
    };

    Executor executor_;
    boost::asio::cancellation_slot slot_;
    std::unique_ptr<Held> held_;
};

/// The stream of a connection, with or without TLS. The operations of Beast, which are large templates, are compiled for this type only, and
/// those of TLS and TCP for one type of handlers and of buffers.
class ClientStream {
public:
    using executor_type = Executor;
    using next_layer_type = boost::beast::tcp_stream;  // Beast closes this one after a timeout

    /// `tls` outlives the stream; null: without TLS.
    ClientStream(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls);
    ~ClientStream();
    ClientStream(const ClientStream&) = delete;  // tls_ refers to tcp_
    ClientStream& operator=(const ClientStream&) = delete;

    Executor get_executor() noexcept { return tcp_.get_executor(); }
    boost::beast::tcp_stream& next_layer() noexcept { return tcp_; }
    const boost::beast::tcp_stream& next_layer() const noexcept { return tcp_; }
    boost::beast::tcp_stream& tcp() noexcept { return tcp_; }

    /// Returns false if the client and the server do not agree on TLS.
    Task<bool> handshake();

    template <class Buffers, class Token>
    auto async_read_some(const Buffers& buffers, Token&& token) {
        using Buffer = boost::asio::mutable_buffer;
        const auto begin = [this](auto&& handler, const SomeBuffers<Buffer>& some) {
            StreamHandler erased(std::forward<decltype(handler)>(handler), get_executor());
            read(std::move(erased), some);
        };
        return boost::asio::async_initiate<Token, void(boost::beast::error_code, std::size_t)>(
            begin, token, some_of<Buffer>(buffers));
    }

    template <class Buffers, class Token>
    auto async_write_some(const Buffers& buffers, Token&& token) {
        using Buffer = boost::asio::const_buffer;
        const auto begin = [this](auto&& handler, const SomeBuffers<Buffer>& some) {
            StreamHandler erased(std::forward<decltype(handler)>(handler), get_executor());
            write(std::move(erased), some);
        };
        return boost::asio::async_initiate<Token, void(boost::beast::error_code, std::size_t)>(
            begin, token, some_of<Buffer>(buffers));
    }

    /// Beast calls it to end a WebSocket.
    template <class Handler>
    friend void async_teardown(boost::beast::role_type role, ClientStream& stream,
                               Handler&& handler) {
        StreamHandler erased(std::forward<Handler>(handler), stream.get_executor());
        stream.tear_down(role, std::move(erased));
    }

private:
    struct Tls;

    /// The first buffers of a sequence that are not empty: an operation may transfer less than all, but not nothing.
    template <class Buffer>
    using SomeBuffers = boost::container::static_vector<Buffer, 8>;

    template <class Buffer, class Buffers>
    static SomeBuffers<Buffer> some_of(const Buffers& buffers) {
        SomeBuffers<Buffer> some;
        const auto end = boost::asio::buffer_sequence_end(buffers);
        for (auto at = boost::asio::buffer_sequence_begin(buffers);
             at != end && some.size() < some.capacity(); ++at) {
            const Buffer buffer(*at);
            if (buffer.size() > 0) some.push_back(buffer);
        }
        return some;
    }

    void read(StreamHandler handler, const SomeBuffers<boost::asio::mutable_buffer>& buffers);
    void write(StreamHandler handler, const SomeBuffers<boost::asio::const_buffer>& buffers);
    void tear_down(boost::beast::role_type role, StreamHandler handler);

    boost::beast::tcp_stream tcp_;
    std::unique_ptr<Tls> tls_;
};

/// The limits of a WebSocket.
struct SocketLimits {
    std::size_t waiting_messages = 8;  ///< of the client, for the handler
    std::size_t waiting_bytes = 0;     ///< of them, and of a single one
    std::chrono::nanoseconds write_timeout = {};
    std::chrono::nanoseconds handshake_timeout = {};
    std::chrono::nanoseconds idle_timeout = {};  ///< the client does not answer pings
};

/// The WebSocket of a client.
class ClientSocket : public WebSocket {
public:
    using Request = boost::beast::http::request<boost::beast::http::string_body>;

    /// `stream` outlives the socket. Stops `closed` when the client is gone.
    static std::unique_ptr<ClientSocket> create(ClientStream& stream, std::stop_source closed,
                                                SocketLimits limits);
    /// Answers the request for it. Returns false if that fails.
    virtual Task<bool> accept(const Request& request) = 0;
    /// Passes on what the client sends, until it is gone. Reads all the time, because pings are answered and the answers to own ones are
    /// received meanwhile: a client that sends too much is closed.
    virtual Task<> receive() = 0;
    /// read() returns the messages that have arrived, and then nothing.
    virtual void end() = 0;
    /// Closes the connection, as RFC 6455 has it. A client that does not answer delays it by a second at most.
    virtual Task<> close() = 0;
};

}  // namespace cubepi::detail
