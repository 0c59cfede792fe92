#include <cubepi/mcp/server/connection.hpp>

#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/error.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/server/server_request.hpp>
#include <cubepi/mcp/server/session.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

/// Messages that wait for a client that reads slowly; then requests wait.
constexpr std::size_t max_queued_messages = 64;

struct Client {
    Client(McpServer& its_server, std::unique_ptr<McpByteStream> its_stream)
        : server(its_server),
          stream(std::move(its_stream)),
          outbound(max_queued_messages),
          lines(server.options().max_message_bytes) {}

    McpServer& server;
    const std::unique_ptr<McpByteStream> stream;
    AsyncQueue<std::string> outbound;
    RpcLineReader lines;
    const std::shared_ptr<McpSession> session = std::make_shared<McpSession>();
    /// Tasks of the connection end with it: nothing else can ask for their results.
    const std::string name = random_secret(16);
    bool sends_changes = false;
    std::set<std::string> streams;  ///< the ids of `subscriptions/listen` requests in progress
};

Task<> send(Client& client, RpcMessage message) {
    std::string line = rpc_text(message) + "\n";
    (void)co_await client.outbound.push(std::move(line));
}

Task<> write_all(Client& client) {
    while (true) {
        std::optional<std::string> line = co_await client.outbound.next();
        if (!line) co_return;
        co_await client.stream->write(std::move(*line));
    }
}

Task<> answer(Client& client, McpServerCall call) {
    const std::string key = json_text(call.request.id);
    const std::stop_token stop = call.stop;
    struct Running {
        Client& client;
        std::string key;
        ~Running() {
            client.session->running.erase(key);
            client.streams.erase(key);
        }
    };
    // The request is in progress until its response is queued: responses that wait for a client that does not read count too.
    const Running running{client, key};
    RpcMessage response = co_await client.server.answer(std::move(call));
    // The client does not expect a response to a request that it has cancelled.
    if (stop.stop_requested()) co_return;
    co_await send(client, std::move(response));
}

void cancel_request(Client& client, const RpcMessage& notification) {
    const Json* id = notification.params.if_contains("requestId");
    auto& running = client.session->running;
    const auto entry = id ? running.find(json_text(*id)) : running.end();
    if (entry != running.end()) entry->second.request_stop();
}

Task<> take(Client& client, TaskScope& scope, RpcMessage message) {
    McpSession& session = *client.session;
    if (message.kind == RpcMessage::Kind::notification) {
        if (message.method == "notifications/cancelled") cancel_request(client, message);
        if (message.method == "notifications/initialized" && session.subscriber &&
            !std::exchange(client.sends_changes, true)) {
            scope.spawn(send_changes(session.subscriber, [&client](RpcMessage notification) {
                return send(client, std::move(notification));
            }));
        }
        co_return;
    }
    if (message.kind != RpcMessage::Kind::request) {
        session.answered(std::move(message));
        co_return;
    }
    const std::string key = json_text(message.id);
    std::string refusal;
    if (session.running.contains(key)) refusal = "A request with this id is in progress.";
    if (session.running.size() >= client.server.options().max_requests)
        refusal = "Too many requests are in progress.";
    if (!refusal.empty()) {
        co_await send(client, rpc_error(std::move(message.id), mcp_error::invalid_request,
                                        std::move(refusal)));
        co_return;
    }
    const std::stop_source stop;
    session.running.emplace(key, stop);
    McpServerCall call;
    call.request = std::move(message);
    call.session_version = session.version;
    call.session = client.session;
    call.client = client.name;
    call.stop = stop.get_token();
    if (call.request.method == "subscriptions/listen") client.streams.insert(key);
    call.notify = [&client](RpcMessage notification) {
        return send(client, std::move(notification));
    };
    scope.spawn(answer(client, std::move(call)));
}

Task<> take_line(Client& client, TaskScope& scope, std::string line) {
    std::optional<RpcMessage> message;
    std::optional<RpcMessage> error;
    try {
        message = read_rpc_message(std::string_view(line));
    } catch (const Error& failure) {
        const bool is_json = failure.code() == ErrorCode::protocol;
        error = rpc_error(nullptr, is_json ? mcp_error::invalid_request : mcp_error::parse,
                          failure.what());
    }
    if (error) {
        co_await send(client, std::move(*error));
    } else {
        co_await take(client, scope, std::move(*message));
    }
}

Task<> read_all(Client& client, TaskScope& scope) {
    std::string bytes;
    while (co_await client.stream->read(bytes)) {
        client.lines.feed(bytes);
        bytes.clear();
        while (const std::optional<std::string_view> line = client.lines.next())
            co_await take_line(client, scope, std::string(*line));
    }
    // Nothing ends streams of notifications and answers questions any more.
    client.session->close();
    for (const std::string& key : client.streams) client.session->running[key].request_stop();
    co_await client.server.end_tasks(client.name);
}

/// Reads to the end, waits for the requests in progress, and then ends the writer.
Task<> read_and_finish(Client& client) {
    struct Closing {
        Client& client;
        ~Closing() { client.outbound.close(); }
    };
    const Closing closing{client};
    const auto body = [&client](TaskScope& scope) { return read_all(client, scope); };
    Task<> reading = with_task_scope(body);
    co_await std::move(reading);
}

}  // namespace

Task<> serve_mcp_connection(McpServer& server, std::unique_ptr<McpByteStream> stream) {
    Client client(server, std::move(stream));
    std::vector<Task<>> both;
    both.push_back(read_and_finish(client));
    both.push_back(write_all(client));
    co_await when_all(std::move(both));
}

}  // namespace cubepi::detail

namespace cubepi {

namespace {

namespace asio = boost::asio;

constexpr std::size_t read_size = 64 * 1024;

/// A descriptor that the event loop watches, as long as it can: it watches pipes, sockets and terminals. Files and devices such as
/// /dev/null, for which epoll refuses to wait, are always ready.
class Watched {
public:
    Watched(const Executor& executor, int fd, const char* name) : fd_(fd), descriptor_(executor) {
        // A duplicate, so that this object does not close the stream.
        detail::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
        if (!copy) {
            throw Error(ErrorCode::io, std::string(name) + " is not open (" +
                                           detail::errno_text(errno) +
                                           "); an MCP server needs both streams of its client");
        }
        boost::system::error_code failed;
        (void)descriptor_->assign(copy.get(), failed);
        if (failed) {
            descriptor_.reset();
        } else {
            (void)copy.release();
        }
    }

    int fd() const noexcept { return fd_; }

    Task<> ready(asio::posix::descriptor_base::wait_type what) {
        if (!descriptor_) co_return;
        boost::system::error_code failed;
        co_await descriptor_->async_wait(what, asio::redirect_error(asio::use_awaitable, failed));
        if (!failed) co_return;
        // Asio accepts descriptors that it cannot watch, and refuses to wait for them.
        if (failed == asio::error::operation_not_supported) {
            descriptor_.reset();
            co_return;
        }
        throw boost::system::system_error(failed);
    }

private:
    int fd_;
    std::optional<asio::posix::stream_descriptor> descriptor_;
};

class Descriptors final : public McpByteStream {
public:
    Descriptors(const Executor& executor, int input, int output)
        : input_(executor, input, "standard input"), output_(executor, output, "standard output") {}

    Task<bool> read(std::string& out) override {
        co_await input_.ready(asio::posix::descriptor_base::wait_read);
        const std::size_t old_size = out.size();
        out.resize(old_size + read_size);
        const ssize_t got = ::read(input_.fd(), out.data() + old_size, read_size);
        const int code = errno;
        out.resize(old_size + (got > 0 ? static_cast<std::size_t>(got) : 0));
        if (got < 0 && code != EINTR && code != EAGAIN)
            throw Error(ErrorCode::io, "cannot read standard input: " + detail::errno_text(code));
        co_return got != 0;
    }

    Task<> write(std::string bytes) override {
        for (std::string_view rest = bytes; !rest.empty();) {
            co_await output_.ready(asio::posix::descriptor_base::wait_write);
            ssize_t put = -1;
            int code = 0;
            {
                const detail::NoSigpipe guard;
                put = ::write(output_.fd(), rest.data(), rest.size());
                code = errno;
            }
            if (put > 0) {
                rest.remove_prefix(static_cast<std::size_t>(put));
            } else if (code != EINTR && code != EAGAIN) {
                throw Error(ErrorCode::disconnected, "The client does not read standard output: " +
                                                         detail::errno_text(code));
            }
        }
    }

private:
    Watched input_;
    Watched output_;
};

}  // namespace

std::unique_ptr<McpByteStream> detail::mcp_descriptors(const Executor& executor, int input,
                                                       int output) {
    return std::make_unique<Descriptors>(executor, input, output);
}

std::unique_ptr<McpByteStream> mcp_standard_streams(Executor executor) {
    return detail::mcp_descriptors(executor, STDIN_FILENO, STDOUT_FILENO);
}

}  // namespace cubepi
