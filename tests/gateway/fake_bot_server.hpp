#pragma once

#include <condition_variable>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <support/fake_bot_api.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::gateway_tests {

/// The strict Bot API of the tests as a server on loopback, for programs that are tested as processes. It has a thread of its own.
class FakeBotServer {
public:
    explicit FakeBotServer(std::shared_ptr<Clock> clock);
    ~FakeBotServer();
    FakeBotServer(const FakeBotServer&) = delete;
    FakeBotServer& operator=(const FakeBotServer&) = delete;

    /// The value of gateway.telegram.api_url.
    std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
    /// The same for one of several gateways, whose requests are told apart.
    std::string url_of(const std::string& poller) const { return url() + "/" + poller; }
    const std::string& token() const { return api_.token(); }

    /// Calls `use` with the API on the server's thread; returns its result. The API's own callbacks run on that thread as well.
    template <class Use>
    auto with_api(Use use) {
        std::packaged_task<decltype(use(std::declval<bub::telegram::FakeBotApi&>()))()> task(
            [this, use = std::move(use)] { return use(api_); });
        auto result = task.get_future();
        boost::asio::post(context_, std::move(task));
        return result.get();
    }

    /// Returns the number of connections on which calls arrived.
    std::size_t connections();
    /// Waits until `condition`, which is called with the API, returns true after a call of the API.
    template <class Condition>
    void wait_until(Condition condition) {
        for (;;) {
            const std::size_t seen = calls();
            if (with_api(condition)) return;
            wait_for_call(seen);
        }
    }

private:
    Task<HttpServerResponse> respond(HttpServerRequest request);
    std::size_t calls();
    void wait_for_call(std::size_t after);

    boost::asio::io_context context_{1};
    bub::telegram::FakeBotApi api_;
    const std::shared_ptr<HttpTransport> transport_;
    HttpServer server_;
    HttpRoutes routes_;
    std::mutex mutex_;
    std::condition_variable called_;
    std::size_t calls_ = 0;
    std::set<std::string> clients_;
    std::thread thread_;
};

}  // namespace cubepi::gateway_tests
