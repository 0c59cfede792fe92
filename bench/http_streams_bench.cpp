#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <boost/asio/post.hpp>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/http_channel.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/http_server.hpp>

#include "../src/app/gateway/console_sessions.hpp"
#include "allocation_count.hpp"

// Answers that clients of a gateway read over HTTP while they are generated, and browsers that are logged in to the console.

namespace cubepi::bench {
namespace {

constexpr std::size_t deltas = 20'000;
constexpr std::string_view delta_text = "word and word ";
constexpr std::size_t open_streams = 1'000;

/// A socket of a client, which blocks.
class Client {
public:
    explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (socket_ < 0 ||
            ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
            throw std::runtime_error("the server cannot be reached");
    }
    Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client() {
        if (socket_ >= 0) ::close(socket_);
    }

    void send(std::string_view bytes) const {
        while (!bytes.empty()) {
            const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) throw std::runtime_error("the server does not read");
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
    }
    /// Reads until `mark` has arrived. Only the end of what was read is searched.
    void read_until(std::string_view mark) const {
        std::string tail;
        std::array<char, 16384> bytes;  // NOLINT: filled by recv()
        for (;;) {
            const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
            if (count <= 0) throw std::runtime_error("the server has ended the connection");
            tail.append(bytes.data(), static_cast<std::size_t>(count));
            if (tail.find(mark) != std::string::npos) return;
            if (tail.size() > mark.size()) tail.erase(0, tail.size() - mark.size());
        }
    }

private:
    int socket_;
};

std::string message_request(const std::string& session) {
    const std::string body = R"({"session":")" + session + R"(","text":"hello"})";
    return "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
           "Accept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// A model whose answer has `count` deltas. With `release` the last one waits for it.
class Deltas final : public bub::EventSource {
public:
    Deltas(std::size_t count, std::shared_ptr<AsyncEvent> release)
        : left_(count), release_(std::move(release)) {}
    Task<std::optional<bub::StreamEvent>> next() override {
        if (left_ == 1 && release_) co_await release_->wait();
        if (left_ == 0) co_return std::nullopt;
        --left_;
        // The client may read each one before the next is made.
        co_await yield_now();
        co_return bub::StreamEvent::text(delta_text);
    }

private:
    std::size_t left_;
    const std::shared_ptr<AsyncEvent> release_;
};

/// The channel http with its manager, and a model that streams.
class HttpGateway {
public:
    HttpGateway(std::size_t count, std::shared_ptr<AsyncEvent> release) {
        bub::Plugin plugin;
        plugin.name = "model";
        plugin.run_model_stream = [count, release](bub::RunModelCall&) {
            return bub::EventStream(std::make_unique<Deltas>(count, release));
        };
        plugin.provide_channels = [this](bub::ProvideChannelsCall& call) {
            bub::HttpChannelOptions options;
            options.server = server_;
            options.token = "secret";
            options.max_requests = open_streams + 100;
            channel_ = std::make_shared<bub::HttpChannel>(std::move(options), call.handler);
            return std::vector<std::shared_ptr<bub::Channel>>{channel_};
        };
        plugin.dispatch_outbound = [this](bub::DispatchOutboundCall& call) {
            return dispatch(framework_.router(), call.output());
        };
        framework_.add(std::move(plugin));
        bub::ChannelManagerOptions options;
        options.stream_output = true;
        manager_ = std::make_unique<bub::ChannelManager>(framework_, std::move(options));
    }

    /// Serves while `script(port)` runs.
    Task<> serve(std::function<Task<>(std::uint16_t port)> script) {
        TaskScope scope(co_await this_executor);
        scope.spawn(manager_->run());
        co_await manager_->started();
        co_await script(channel_->port());
        manager_->request_stop();
        co_await scope.join();
        co_await server_->stop();
    }

private:
    static Task<bool> dispatch(std::shared_ptr<bub::OutboundChannelRouter> router,
                               bub::TurnOutput output) {
        co_return co_await router->dispatch_output(std::move(output));
    }
    static HttpServerOptions server_options() {
        HttpServerOptions options;
        options.max_connections = open_streams + 100;
        return options;
    }

    std::shared_ptr<HttpServer> server_ =
        std::make_shared<HttpServer>(this_thread_context().get_executor(), server_options());
    bub::Framework framework_;
    std::shared_ptr<bub::HttpChannel> channel_;
    std::unique_ptr<bub::ChannelManager> manager_;
};

/// Runs `work` on a thread while the event loop continues.
Task<> on_thread(std::function<void()> work) {
    const Executor executor = co_await this_executor;
    AsyncEvent done;
    std::exception_ptr failure;
    std::thread thread([&] {
        try {
            work();
        } catch (...) {
            failure = std::current_exception();
        }
        boost::asio::post(executor, [&done] { done.set(); });
    });
    co_await done.wait();
    thread.join();
    if (failure) std::rethrow_exception(failure);
}

Task<> read_answers(benchmark::State& state, std::uint16_t port) {
    std::size_t session = 0;
    for (auto _ : state) {
        const std::string request = message_request("s" + std::to_string(++session));
        std::function<void()> read = [&request, port] {
            const Client client(port);
            client.send(request);
            client.read_until("\r\n0\r\n\r\n");
        };
        co_await on_thread(std::move(read));
    }
}

void set_per_delta(benchmark::State& state, std::chrono::steady_clock::time_point begun) {
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
    state.counters["ns_per_delta"] =
        took.count() / static_cast<double>(state.iterations()) / static_cast<double>(deltas);
}

/// From the model's delta through turn, channel and HTTP server to the socket of a client that reads on another thread.
void http_deltas(benchmark::State& state) {
    HttpGateway gateway(deltas, nullptr);
    const auto begun = std::chrono::steady_clock::now();
    run(gateway.serve([&state](std::uint16_t port) { return read_answers(state, port); }));
    set_per_delta(state, begun);
}
BENCHMARK(http_deltas)->Unit(benchmark::kMillisecond)->UseRealTime();

Task<> write_deltas(ResponseStream& out) {
    for (std::size_t i = 0; i < deltas; ++i)
        co_await out.write(server_sent_event("delta", R"({"text":"word and word "})"));
}

/// The same events from a handler of the same HTTP server.
void bare_http_deltas(benchmark::State& state) {
    const auto server = std::make_shared<HttpServer>(this_thread_context().get_executor());
    server->open();
    HttpRoutes routes(*server, "bare");
    routes.add("POST", "/v1/messages", [](const HttpServerRequest&) -> Task<HttpServerResponse> {
        co_return HttpServerResponse::events(write_deltas);
    });
    routes.serve();
    const auto begun = std::chrono::steady_clock::now();
    run(read_answers(state, server->port()));
    set_per_delta(state, begun);
    run(routes.stop());
    run(server->stop());
}
BENCHMARK(bare_http_deltas)->Unit(benchmark::kMillisecond)->UseRealTime();

Task<> open_all(std::shared_ptr<AsyncEvent> release, std::uint16_t port, double* bytes) {
    const std::string_view first = "event: delta";
    // The first request makes what the others share.
    const Client warm_up(port);
    std::function<void()> first_request = [&] {
        warm_up.send(message_request("first"));
        warm_up.read_until(first);
    };
    co_await on_thread(std::move(first_request));
    const LiveBytes live;
    const std::ptrdiff_t before = live.now();
    std::vector<Client> clients;
    clients.reserve(open_streams);
    const std::ptrdiff_t of_clients = live.now() - before;
    std::function<void()> open = [&] {
        for (std::size_t i = 0; i < open_streams; ++i) {
            clients.emplace_back(port);
            clients.back().send(message_request("s" + std::to_string(i)));
            clients.back().read_until(first);
        }
    };
    co_await on_thread(std::move(open));
    *bytes = static_cast<double>(live.now() - before - of_clients) / open_streams;
    release->set();
    std::function<void()> read_to_end = [&] {
        for (const Client& client : clients) client.read_until("\r\n0\r\n\r\n");
    };
    co_await on_thread(std::move(read_to_end));
}

/// Both ends of each connection are descriptors of this process.
bool allow_descriptors() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
    files.rlim_cur = files.rlim_max;
    return ::setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max > 3 * open_streams;
}

/// Turns in progress whose clients have read the first delta, each with its connection.
void memory_of_http_streams(benchmark::State& state) {
    if (!allow_descriptors()) return state.SkipWithError("too few descriptors");
    for (auto _ : state) {
        const auto release = std::make_shared<AsyncEvent>();
        HttpGateway gateway(2, release);
        double bytes = 0;
        run(gateway.serve([&](std::uint16_t port) { return open_all(release, port, &bytes); }));
        state.counters["bytes_per_stream"] = bytes;
    }
}
BENCHMARK(memory_of_http_streams)->Iterations(1)->Unit(benchmark::kMillisecond);

Task<HttpServerResponse> hello() { co_return HttpServerResponse(200, "{}", "application/json"); }

/// Browsers that are logged in to the console, each with the connection over which its page reads the gateway.
void memory_of_console_sessions(benchmark::State& state) {
    constexpr std::size_t browsers = app::ConsoleSessions::max_sessions;
    for (auto _ : state) {
        const auto server = std::make_shared<HttpServer>(this_thread_context().get_executor());
        server->open();
        HttpRoutes routes(*server, "console");
        routes.add("GET", "/", [](const HttpServerRequest&) { return hello(); });
        routes.serve();
        app::ConsoleSessions console(Runtime::standard());
        const std::string request =
            "GET / HTTP/1.1\r\nHost: localhost\r\nCookie: cubepi=" + std::string(64, 'a') +
            "\r\n\r\n";
        std::vector<Client> clients;
        clients.reserve(browsers + 1);
        const auto log_in = [&] {
            (void)console.log_in(console.make_link(app::GatewayRole::operator_, "olga"));
            clients.emplace_back(server->port());
            run(on_thread([&] {
                clients.back().send(request);
                clients.back().read_until("{}");
            }));
        };
        log_in();
        const LiveBytes live;
        const std::ptrdiff_t before = live.now();
        for (std::size_t i = 1; i < browsers; ++i) log_in();
        state.counters["bytes_per_session"] =
            static_cast<double>(live.now() - before) / static_cast<double>(browsers - 1);
        clients.clear();
        run(routes.stop());
        run(server->stop());
    }
}
BENCHMARK(memory_of_console_sessions)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cubepi::bench
