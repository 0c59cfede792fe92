#include "control_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/json_text.hpp>

#include "../config/paths.hpp"
#include "../failure.hpp"

namespace cubepi::app {

namespace {

using Protocol = boost::asio::local::stream_protocol;

constexpr std::size_t longest_request = 64 * 1024;
constexpr std::size_t most_connections = 32;

JsonObject error_answer(const std::string& text) { return JsonObject{{"error", text}}; }

/// Returns nothing if the line is not a JSON object.
std::optional<JsonObject> parse_request(std::string_view line) {
    boost::system::error_code failed;
    Json value = boost::json::parse(line, failed);
    if (failed || !value.is_object()) return std::nullopt;
    return std::move(value.get_object());
}

}  // namespace

struct ControlServer::State : std::enable_shared_from_this<ControlServer::State> {
    State(Executor used, std::filesystem::path place, Answer function,
          std::chrono::nanoseconds timeout)
        : executor(std::move(used)),
          path(std::move(place)),
          answer(std::move(function)),
          idle_timeout(timeout),
          acceptor(executor),
          work(executor, [](const std::exception_ptr&) {}) {}

    void require_free() const;
    void bind();
    Task<> accept();
    Task<> talk(std::shared_ptr<Protocol::socket> socket);
    Task<std::string> read_line(std::shared_ptr<Protocol::socket> socket,
                                std::shared_ptr<std::string> buffer);
    Task<> write_line(std::shared_ptr<Protocol::socket> socket, std::string text);
    Task<std::string> answer_line(std::string line);

    const Executor executor;
    const std::filesystem::path path;
    const Answer answer;
    const std::chrono::nanoseconds idle_timeout;
    Protocol::acceptor acceptor;
    std::size_t connections = 0;
    BackgroundScope work;
    bool bound = false;
};

void ControlServer::State::require_free() const {
    if (!has_listener(path)) return;
    throw Error(ErrorCode::busy,
                "another gateway of this user is running. To see it: cubepi gateway status");
}

void ControlServer::State::bind() {
    make_private_directory(path, "BUB_HOME");
    require_free();
    ::unlink(path.c_str());
    boost::system::error_code failed;
    (void)acceptor.open(Protocol(), failed);
    // Other users cannot connect before the mode is set: the socket does not listen yet.
    if (!failed) (void)acceptor.bind(Protocol::endpoint(path.string()), failed);
    if (!failed && ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0)
        failed.assign(errno, boost::system::system_category());
    if (!failed) (void)acceptor.listen(boost::asio::socket_base::max_listen_connections, failed);
    if (!failed) {
        bound = true;
        return;
    }
    throw Error(ErrorCode::io, "cannot listen on " + path.string() + ": " + failed.message());
}

Task<> ControlServer::State::accept() {
    const std::shared_ptr<State> self = shared_from_this();
    boost::system::error_code failed;
    const boost::asio::use_awaitable_t<Executor> awaits;
    auto token = boost::asio::redirect_error(awaits, failed);
    SystemClock clock;
    while (acceptor.is_open()) {
        auto socket = std::make_shared<Protocol::socket>(executor);
        co_await acceptor.async_accept(*socket, token);
        if (failed == boost::asio::error::operation_aborted) co_return;
        if (failed) {
            // Too many open files, for example: later there may be fewer.
            Runtime::standard()->log.write(LogLevel::warning, "gateway.accept_failed",
                                           {{"error", failed.message()}});
            co_await clock.sleep_for(std::chrono::milliseconds(100));
            continue;
        }
        if (connections >= most_connections) continue;
        work.spawn(talk(std::move(socket)));
    }
}

Task<std::string> ControlServer::State::answer_line(std::string line) {
    std::optional<JsonObject> request = parse_request(line);
    JsonObject result;
    if (!request) {
        result = error_answer("the request is not a JSON object");
    } else {
        Outcome<JsonObject> answered = co_await outcome_of(answer(std::move(*request)));
        if (answered) {
            result = std::move(answered).value();
        } else if (answered.cancelled()) {
            result = error_answer("the gateway is ending");
        } else {
            result = error_answer(explain(answered.failure()).text);
        }
    }
    std::string text = json_text(result);
    text.push_back('\n');
    co_return text;
}

Task<std::string> ControlServer::State::read_line(std::shared_ptr<Protocol::socket> socket,
                                                  std::shared_ptr<std::string> buffer) {
    const boost::asio::use_awaitable_t<Executor> token;
    auto space = boost::asio::dynamic_buffer(*buffer, longest_request);
    const std::size_t size = co_await boost::asio::async_read_until(*socket, space, '\n', token);
    std::string line = buffer->substr(0, size - 1);
    buffer->erase(0, size);
    co_return line;
}

Task<> ControlServer::State::write_line(std::shared_ptr<Protocol::socket> socket,
                                        std::string text) {
    const boost::asio::use_awaitable_t<Executor> token;
    co_await boost::asio::async_write(*socket, boost::asio::buffer(text), token);
}

Task<> ControlServer::State::talk(std::shared_ptr<Protocol::socket> socket) {
    const std::shared_ptr<State> self = shared_from_this();
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    const auto buffer = std::make_shared<std::string>();
    ++connections;
    try {
        for (;;) {
            // An idle client does not take the place of another one.
            Task<std::string> reading = read_line(socket, buffer);
            std::string line =
                co_await with_timeout(*runtime->clock, idle_timeout, std::move(reading));
            Task<std::string> answering = answer_line(std::move(line));
            std::string text = co_await std::move(answering);
            Task<> writing = write_line(socket, std::move(text));
            co_await with_timeout(*runtime->clock, idle_timeout, std::move(writing));
        }
    } catch (...) {
        // The client has closed the connection or was idle, or the gateway ends.
    }
    --connections;
}

ControlServer::ControlServer(Executor executor, std::filesystem::path path, Answer answer,
                             std::chrono::nanoseconds idle_timeout)
    : state_(std::make_shared<State>(std::move(executor), std::move(path), std::move(answer),
                                     idle_timeout)) {}

ControlServer::~ControlServer() {
    if (state_->bound) ::unlink(state_->path.c_str());
}

void ControlServer::require_free() const { state_->require_free(); }

void ControlServer::listen() {
    state_->bind();
    state_->work.spawn(state_->accept());
}

Task<> ControlServer::stop() {
    boost::system::error_code failed;
    (void)state_->acceptor.close(failed);
    if (std::exchange(state_->bound, false)) ::unlink(state_->path.c_str());
    co_await state_->work.close();
}

bool has_listener(const std::filesystem::path& socket) {
    boost::asio::io_context context;
    Protocol::socket connection(context);
    boost::system::error_code failed;
    (void)connection.connect(Protocol::endpoint(socket.string()), failed);
    return !failed;
}

namespace {

/// Returns whether one of the sockets can be read; waits for at most `limit`.
bool becomes_readable(std::initializer_list<Protocol::socket*> sockets,
                      std::chrono::milliseconds limit) {
    std::vector<pollfd> waiting;
    for (Protocol::socket* const socket : sockets)
        waiting.push_back({socket->native_handle(), POLLIN, 0});
    const auto end = std::chrono::steady_clock::now() + limit;
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        const int wait = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
        const int ready = ::poll(waiting.data(), waiting.size(), wait);
        if (ready >= 0 || errno != EINTR) return ready != 0;
    }
}

/// Waits until the gateway has sent something, or has closed the connection. Throws Error(invalid_state) if its process does not
/// respond to another request either.
void await_answer(Protocol::socket& connection, const std::filesystem::path& path,
                  const GatewayPatience& patience) {
    while (!becomes_readable({&connection}, patience.quiet)) {
        boost::asio::io_context context;
        Protocol::socket probe(context);
        boost::system::error_code failed;
        (void)probe.connect(Protocol::endpoint(path.string()), failed);
        // Each gateway, also one of another version, replies that it does not know this.
        if (!failed)
            boost::asio::write(probe, boost::asio::buffer(std::string_view("{}\n")), failed);
        if (failed || becomes_readable({&connection, &probe}, patience.probe)) continue;
        struct ucred process = {};
        socklen_t size = sizeof(process);
        (void)::getsockopt(connection.native_handle(), SOL_SOCKET, SO_PEERCRED, &process, &size);
        const std::string id = std::to_string(process.pid);
        throw Error(ErrorCode::invalid_state,
                    "the gateway (process " + id +
                        ") does not respond: it is stopped or blocked. To see its state: ps -o "
                        "pid,stat,etime,args -p " +
                        id);
    }
}

}  // namespace

JsonObject call_gateway(const std::filesystem::path& socket, const JsonObject& request,
                        GatewayPatience patience) {
    boost::asio::io_context context;
    Protocol::socket connection(context);
    boost::system::error_code failed;
    (void)connection.connect(Protocol::endpoint(socket.string()), failed);
    if (failed) {
        throw Error(ErrorCode::invalid_state, "no gateway of this user is running (" +
                                                  socket.string() + ": " + failed.message() +
                                                  "). To start one: cubepi gateway");
    }
    const std::string line = json_text(request) + "\n";
    std::string answer;
    boost::asio::write(connection, boost::asio::buffer(line), failed);
    while (!failed && !answer.ends_with('\n')) {
        await_answer(connection, socket, patience);
        std::array<char, 65536> part = {};
        const std::size_t size = connection.read_some(boost::asio::buffer(part), failed);
        answer.append(part.data(), size);
    }
    if (failed)
        throw Error(ErrorCode::invalid_state, "the gateway ended before it answered the request");
    Json value = boost::json::parse(answer, failed);
    if (failed || !value.is_object())
        throw Error(ErrorCode::invalid_state, "the answer of the gateway is not a JSON object");
    const std::string_view error = detail::string_member(value.get_object(), "error");
    if (!error.empty()) throw Error(ErrorCode::invalid_state, std::string(error));
    return std::move(value.get_object());
}

}  // namespace cubepi::app
