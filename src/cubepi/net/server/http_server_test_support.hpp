#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>

#include <cubepi/net/http_server.hpp>

namespace cubepi::http_server_tests {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono_literals::operator""ms;

/// A server on a thread of its own.
class Served {
public:
    explicit Served(HttpServerOptions options = HttpServerOptions(),
                    HttpRouteOptions limits = HttpRouteOptions())
        : work_(asio::make_work_guard(context_)),
          server_(context_.get_executor(), std::move(options)),
          routes_(server_, "test", std::move(limits)) {
        routes_.add("GET", "/hello", [](HttpServerRequest) -> Task<HttpServerResponse> {
            co_return HttpServerResponse(200, "hello", "text/plain");
        });
        routes_.add("POST", "/echo/{name}",
                    [](HttpServerRequest request) -> Task<HttpServerResponse> {
                        std::string text(request.parameter("name"));
                        text += "?" + request.query + "=" + request.body;
                        co_return HttpServerResponse(200, std::move(text), "text/plain");
                    });
    }
    ~Served() {
        if (!thread_.joinable()) return;
        stop(0ms);
        work_.reset();
        thread_.join();
    }
    void start() {
        routes_.serve();
        port_ = server_.port();
        thread_ = std::thread([this] { context_.run(); });
    }
    void stop(std::chrono::nanoseconds limit) {
        asio::co_spawn(context_, server_.stop(limit), asio::use_future).get();
    }
    /// Calls a function on the thread of the server.
    void on_thread(std::function<void()> call) {
        asio::post(context_, std::packaged_task<void()>(std::move(call)));
    }

    HttpServer& server() { return server_; }
    HttpRoutes& routes() { return routes_; }
    /// Runs a task of the server to its end.
    void run_task(Task<> task) {
        asio::co_spawn(context_, std::move(task), asio::use_future).get();
    }
    /// Calls a function on the thread of the server, and waits for its end.
    void call(std::function<void()> call) {
        asio::post(context_, std::packaged_task<void()>(std::move(call))).get();
    }
    std::uint16_t port() const { return port_; }
    std::string url(const std::string& path) const {
        return "http://127.0.0.1:" + std::to_string(port_) + path;
    }

private:
    asio::io_context context_{1};
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    HttpServer server_;
    HttpRoutes routes_;
    std::uint16_t port_ = 0;
    std::thread thread_;
};

/// A connection that sends and receives bytes as they are.
class Wire {
public:
    explicit Wire(const Served& served) : Wire(served.port()) {}
    explicit Wire(std::uint16_t port) : socket_(context_) {
        socket_.connect(tcp::endpoint(asio::ip::make_address("127.0.0.1"), port));
    }
    void send(const std::string& text) {
        boost::system::error_code ignored;
        asio::write(socket_, asio::buffer(text), ignored);
    }
    std::string read_until(const std::string& end) {
        const std::size_t size = asio::read_until(socket_, asio::dynamic_buffer(buffer_), end);
        std::string text = buffer_.substr(0, size);
        buffer_.erase(0, size);
        return text;
    }
    /// Returns all bytes until the server closes the connection.
    std::string read_all() {
        boost::system::error_code ended;
        asio::read(socket_, asio::dynamic_buffer(buffer_), ended);
        return std::exchange(buffer_, {});
    }
    void close() { socket_.close(); }
    /// Closes it as a client does that has not read everything.
    void reset() {
        socket_.set_option(asio::socket_base::linger(true, 0));
        socket_.close();
    }

private:
    asio::io_context context_;
    tcp::socket socket_;
    std::string buffer_;
};

inline std::string status_line(const std::string& response) {
    return response.substr(0, response.find("\r\n"));
}

/// Returns a handler that answers with a text.
inline HttpRoutes::Handler text_handler(std::string text) {
    return [text](HttpServerRequest) -> Task<HttpServerResponse> {
        co_return HttpServerResponse(200, text, "text/plain");
    };
}

}  // namespace cubepi::http_server_tests
