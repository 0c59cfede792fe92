#include "fake_bot_server.hpp"

#include <chrono>
#include <exception>
#include <stdexcept>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/use_future.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi::gateway_tests {

namespace {

HttpRouteOptions no_limits() {
    HttpRouteOptions options;
    options.max_requests = 4096;
    options.max_body_bytes = 64 << 20;
    return options;
}

HttpServerOptions server_options() {
    HttpServerOptions options;
    options.max_connections = 4096;
    options.log.emplace();
    return options;
}

Task<std::string> read_all(HttpResponse response) {
    std::string body;
    for (bool more = true; more;) more = co_await response.body->read(body);
    co_return body;
}

}  // namespace

FakeBotServer::FakeBotServer(std::shared_ptr<Clock> clock)
    : api_(std::move(clock)),
      transport_(api_.transport()),
      server_(context_.get_executor(), server_options()),
      routes_(server_, "bot_api", no_limits()) {
    for (const char* method : {"GET", "POST"}) {
        for (const char* pattern :
             {"/{bot}/{method}", "/file/{bot}/{file}", "/{poller}/{bot}/{method}"})
            routes_.add(method, pattern,
                        [this](HttpServerRequest request) { return respond(std::move(request)); });
    }
    routes_.serve();
    thread_ = std::thread([this] {
        const auto work = boost::asio::make_work_guard(context_);
        context_.run();
    });
}

FakeBotServer::~FakeBotServer() {
    boost::asio::co_spawn(context_, server_.stop(std::chrono::nanoseconds::zero()),
                          boost::asio::use_future)
        .wait();
    context_.stop();
    thread_.join();
}

std::size_t FakeBotServer::calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
}

std::size_t FakeBotServer::connections() {
    const std::lock_guard lock(mutex_);
    return clients_.size();
}

void FakeBotServer::wait_for_call(std::size_t after) {
    std::unique_lock lock(mutex_);
    constexpr std::chrono::minutes longest(5);  // a test that fails must end
    if (!called_.wait_for(lock, longest, [this, after] { return calls_ != after; }))
        throw std::runtime_error("the bot's service waited for a call in vain");
}

Task<HttpServerResponse> FakeBotServer::respond(HttpServerRequest request) {
    const std::string client = request.peer;
    std::string path = request.path;
    std::string poller;
    // The path of a poller: /one/botTOKEN/getUpdates.
    if (!path.starts_with("/bot") && !path.starts_with("/file")) {
        const std::size_t end = path.find('/', 1);
        poller = path.substr(1, end - 1);
        path.erase(0, end);
    }
    HttpRequest passed(request.method, "https://api.telegram.org" + path);
    passed.headers = std::move(request.headers);
    if (!poller.empty()) passed.headers.set("x-poller", poller);
    passed.body = std::move(request.body);
    Task<HttpResponse> sending = transport_->send(std::move(passed));
    Outcome<HttpResponse> sent = co_await outcome_of(std::move(sending));
    if (sent.cancelled()) sent.rethrow();
    {
        const std::lock_guard lock(mutex_);
        ++calls_;
        clients_.insert(client);
        called_.notify_all();
    }
    // Closes the connection before the first byte of an answer.
    if (!sent) throw_cancelled();
    const auto status = static_cast<unsigned>(sent.value().status);
    std::string body = co_await read_all(std::move(sent).value());
    co_return HttpServerResponse(status, std::move(body), "application/json");
}

}  // namespace cubepi::gateway_tests
