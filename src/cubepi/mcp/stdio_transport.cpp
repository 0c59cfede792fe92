#include <cubepi/mcp/stdio_transport.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <optional>
#include <utility>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/auth/secrets.hpp>
#include <cubepi/process/local_process.hpp>

namespace cubepi {

namespace {

/// Requests that wait for the server to read its standard input.
constexpr std::size_t max_queued_messages = 64;
/// Requests of the server that are being answered.
constexpr std::size_t max_asked = 16;
constexpr std::size_t max_error_tail = 1024;
/// The time between the end of a server's output and its exit status.
constexpr auto exit_status_wait = std::chrono::milliseconds(500);

struct PendingReply {
    AsyncEvent arrived;
    std::optional<RpcMessage> reply;
    std::exception_ptr failure;
};

/// One process and the requests that wait for it. Its coroutines share it, so that it outlives the transport until they end.
struct Connection : std::enable_shared_from_this<Connection> {
    Connection(McpStdioOptions settings, std::shared_ptr<const Runtime> its_runtime,
               std::shared_ptr<Process> child, std::weak_ptr<McpTransportListener> its_listener,
               const Executor& executor)
        : options(std::move(settings)),
          runtime(std::move(its_runtime)),
          process(std::move(child)),
          listener(std::move(its_listener)),
          outbound(max_queued_messages),
          lines(options.limits.max_message_bytes),
          scope(executor, [](std::exception_ptr) {}) {
        for (const auto& [name, value] : options.environment.set) secrets.add(name, value);
    }

    void start();
    void receive(std::string_view bytes);
    void take(RpcMessage message);
    void ask(RpcMessage request);
    void end(std::exception_ptr reason) noexcept;
    /// Queues a message without waiting. A server that does not read gets no further ones.
    void send(const RpcMessage& message) {
        if (outbound.size() < 2 * max_queued_messages)
            (void)outbound.force_push(rpc_text(message) + "\n");
    }
    void log(LogLevel level, std::string_view event) const {
        runtime->log.write(level, event, {{"server", options.server}});
    }
    /// Logs the last line of what the server has written to standard error.
    void log_errors(std::string_view text) const {
        while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
        const std::string line(text.substr(text.rfind('\n') + 1));
        if (!line.empty())
            runtime->log.write(LogLevel::debug, "mcp.stderr",
                               {{"server", options.server}, {"line", line}});
    }

    const McpStdioOptions options;
    const std::shared_ptr<const Runtime> runtime;
    const std::shared_ptr<Process> process;
    const std::weak_ptr<McpTransportListener> listener;
    AsyncQueue<std::string> outbound;
    RpcLineReader lines;
    std::map<std::int64_t, std::shared_ptr<PendingReply>> pending;
    std::size_t unrequested_bytes = 0;
    std::size_t garbage_lines = 0;
    std::size_t asked = 0;
    std::string error_tail;  ///< the end of standard error, without secrets
    detail::McpSecrets secrets;
    std::exception_ptr failure;
    bool is_over = false;
    bool is_closing = false;
    BackgroundScope scope;
};

using ConnectionPtr = std::shared_ptr<Connection>;

/// Returns "exited with status 3", "was ended by signal 9".
std::string exit_text(const ExitStatus& status) {
    if (status.signal) return "was ended by signal " + std::to_string(*status.signal);
    return "exited with status " + std::to_string(status.code.value_or(0));
}

std::exception_ptr disconnected(const std::string& text) {
    return std::make_exception_ptr(Error(ErrorCode::disconnected, text));
}

/// Waits for the exit of a process whose output has ended, and returns the reason for the end of the connection.
Task<std::exception_ptr> end_reason(ConnectionPtr self) {
    Task<ExitStatus> exit = self->process->wait();
    Task<ExitStatus> limited =
        with_timeout(*self->runtime->clock, exit_status_wait, std::move(exit), "exit");
    Outcome<ExitStatus> exited = co_await outcome_of(std::move(limited));
    std::string text = "The MCP server " + self->options.server + " ";
    if (exited.ok()) {
        text += exit_text(exited.value());
    } else {
        text += "has closed its standard output";
    }
    text += ".";
    std::string last_words = self->error_tail;
    if (last_words.size() > max_error_tail) last_words.erase(0, last_words.size() - max_error_tail);
    const std::string tail = detail::shown_mcp_text(last_words, max_error_tail);
    if (!tail.empty()) text += " Its standard error ends with: " + tail;
    co_return disconnected(text);
}

Task<> read_messages(ConnectionPtr self) {
    std::exception_ptr failure;
    try {
        std::string bytes;
        while (co_await self->process->read(bytes)) {
            self->receive(bytes);
            bytes.clear();
        }
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure && is_cancellation(failure)) std::rethrow_exception(failure);
    if (!failure) failure = co_await end_reason(self);
    self->end(std::move(failure));
}

/// A process that the server has started may hold its output open after the server has exited. What the server has written before
/// its end is read within the time that a normal end needs.
Task<> watch_exit(ConnectionPtr self) {
    Task<ExitStatus> exit = self->process->wait();
    const Outcome<ExitStatus> exited = co_await outcome_of(std::move(exit));
    if (exited.cancelled()) exited.rethrow();
    co_await self->runtime->clock->sleep_for(exit_status_wait);
    if (self->is_over || self->is_closing) co_return;
    std::exception_ptr reason = co_await end_reason(self);
    self->end(std::move(reason));
}

/// The log has at most the last whole line of each piece that arrives, so that a flood costs little: a secret may be complete only
/// with the next piece.
Task<> read_errors(ConnectionPtr self) {
    std::string bytes;
    while (co_await self->process->read_error(bytes)) {
        std::string& tail = self->error_tail;
        tail = self->secrets.end_without(tail + bytes);
        if (bytes.find('\n') != std::string::npos)
            self->log_errors(std::string_view(tail).substr(0, tail.rfind('\n') + 1));
        bytes.clear();
    }
    if (!self->error_tail.ends_with('\n')) self->log_errors(self->error_tail);
}

Task<> write_messages(ConnectionPtr self) {
    while (true) {
        std::optional<std::string> line = co_await self->outbound.next();
        if (!line) co_return;
        Task<> writing = self->process->write(std::move(*line));
        const Outcome<> written = co_await outcome_of(std::move(writing));
        if (written.cancelled()) co_return;
        if (!written.ok()) break;
    }
    // The input of a process that has exited is closed too. The end of its output has the better reason, so that comes first.
    co_await self->runtime->clock->sleep_for(2 * exit_status_wait);
    if (!self->is_closing) {
        self->end(disconnected("The MCP server " + self->options.server +
                               " does not read its standard input."));
    }
}

Task<> answer(ConnectionPtr self, RpcMessage request) {
    struct Counted {
        Connection& connection;
        ~Counted() { --connection.asked; }
    };
    const Counted counted{*self};
    const std::shared_ptr<McpTransportListener> listener = self->listener.lock();
    if (!listener) co_return;
    Json id = request.id;
    Task<RpcMessage> asking = listener->asked(std::move(request), std::nullopt);
    Outcome<RpcMessage> response = co_await outcome_of(std::move(asking));
    if (response.ok()) {
        self->send(response.value());
    } else {
        self->send(rpc_error(std::move(id), mcp_error::internal, "The client failed."));
    }
}

void Connection::start() {
    scope.spawn(read_messages(shared_from_this()));
    scope.spawn(watch_exit(shared_from_this()));
    scope.spawn(read_errors(shared_from_this()));
    scope.spawn(write_messages(shared_from_this()));
}

void Connection::receive(std::string_view bytes) {
    unrequested_bytes += bytes.size();
    lines.feed(bytes);
    while (const std::optional<std::string_view> line = lines.next()) {
        std::vector<RpcMessage> messages;
        try {
            messages = read_rpc_messages(*line, options.limits.max_batch);
            garbage_lines = 0;
        } catch (const Error&) {
            if (++garbage_lines == 1) log(LogLevel::warning, "mcp.garbage");
        }
        if (garbage_lines > options.limits.max_garbage_lines) {
            throw Error(ErrorCode::protocol, "The MCP server " + options.server +
                                                 " writes text to its standard output that is not "
                                                 "JSON-RPC; it must log to standard error.");
        }
        for (RpcMessage& message : messages) take(std::move(message));
    }
    if (unrequested_bytes > options.limits.max_unrequested_bytes) {
        throw Error(ErrorCode::too_large, "The MCP server " + options.server +
                                              " has sent more than " +
                                              std::to_string(options.limits.max_unrequested_bytes) +
                                              " bytes without answering a request.");
    }
}

void Connection::take(RpcMessage message) {
    switch (message.kind) {
        case RpcMessage::Kind::result:
        case RpcMessage::Kind::error: {
            const auto entry =
                message.id.is_int64() ? pending.find(message.id.get_int64()) : pending.end();
            if (entry == pending.end()) return;  // late, repeated or invented
            const std::shared_ptr<PendingReply> waiting = entry->second;
            if (message.kind == RpcMessage::Kind::error)
                message.text = secrets.without(std::move(message.text));
            pending.erase(entry);
            unrequested_bytes = 0;
            waiting->reply = std::move(message);
            waiting->arrived.set();
            return;
        }
        case RpcMessage::Kind::request: ask(std::move(message)); return;
        case RpcMessage::Kind::notification:
            if (const auto receiver = listener.lock()) receiver->notified(message);
            return;
    }
}

void Connection::ask(RpcMessage request) {
    if (asked >= max_asked) {
        // A flood of requests must not fill the queue either.
        if (outbound.size() < max_queued_messages)
            send(rpc_error(std::move(request.id), mcp_error::internal, "Too many requests."));
        return;
    }
    ++asked;
    scope.spawn(answer(shared_from_this(), std::move(request)));
}

void Connection::end(std::exception_ptr reason) noexcept {
    if (is_over) return;
    is_over = true;
    failure = reason;
    outbound.close();
    process->kill();
    const auto waiting = std::move(pending);
    pending.clear();
    for (const auto& [id, reply] : waiting) {
        reply->failure = reason;
        reply->arrived.set();
    }
    if (!is_closing) {
        runtime->log.write(LogLevel::warning, "mcp.disconnected",
                           {{"server", options.server}, {"error", logged_error(reason)}});
    }
}

/// Ends a connection at the latest when the block is left, also by a cancellation.
struct Ending {
    ConnectionPtr connection;

    explicit Ending(ConnectionPtr its_connection) : connection(std::move(its_connection)) {
        connection->is_closing = true;
    }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    ~Ending() { end(); }
    void end() const noexcept {
        connection->end(
            disconnected("The MCP server " + connection->options.server + " was closed."));
        connection->scope.cancel();
    }
};

/// Withdraws a request that ends without a response, because it is cancelled. One that is destroyed with its event loop is not.
struct Withdrawal {
    ConnectionPtr connection;
    std::int64_t id;
    bool is_cancellable;
    int exceptions = std::uncaught_exceptions();

    Withdrawal(ConnectionPtr its_connection, std::int64_t its_id, bool cancellable)
        : connection(std::move(its_connection)), id(its_id), is_cancellable(cancellable) {}
    Withdrawal(const Withdrawal&) = delete;
    Withdrawal& operator=(const Withdrawal&) = delete;
    ~Withdrawal() {
        const bool is_cancelled = std::uncaught_exceptions() > exceptions;
        if (connection->pending.erase(id) == 0 || connection->is_over) return;
        if (!is_cancelled || !is_cancellable) return;
        JsonObject params;
        params["requestId"] = id;
        connection->send(rpc_notification("notifications/cancelled", std::move(params)));
    }
};

class StdioTransport final : public McpTransport {
public:
    StdioTransport(McpStdioOptions options, std::shared_ptr<const Runtime> runtime)
        : options_(std::move(options)), runtime_(std::move(runtime)) {}
    ~StdioTransport() override { abandon(); }

    Task<> open(std::weak_ptr<McpTransportListener> listener) override {
        const Clock::time_point now = runtime_->clock->now();
        if (failed_starts_ > 0 && now < next_start_) {
            const auto wait = std::chrono::ceil<std::chrono::seconds>(next_start_ - now);
            const std::string times =
                failed_starts_ == 1 ? std::string() : std::to_string(failed_starts_) + " times ";
            throw Error(ErrorCode::unavailable, "The MCP server " + options_.server + " failed " +
                                                    times +
                                                    "to start; the next start is possible in " +
                                                    std::to_string(wait.count()) + " s.");
        }
        co_await close();
        count_start();
        ProcessOptions process(options_.program);
        process.arguments = options_.arguments;
        process.directory = options_.directory;
        process.environment = child_environment(options_.environment);
        const std::shared_ptr<ProcessLauncher> launcher = launcher_of(*runtime_);
        std::shared_ptr<Process> child = co_await launcher->start(std::move(process));
        const Executor executor = co_await this_executor;
        connection_ = std::make_shared<Connection>(options_, runtime_, std::move(child),
                                                   std::move(listener), executor);
        connection_->start();
    }

    bool is_open() const noexcept override { return connection_ && !connection_->is_over; }

    Task<RpcMessage> request(McpOutgoing outgoing) override {
        const ConnectionPtr connection = opened();
        const auto reply = std::make_shared<PendingReply>();
        connection->pending.emplace(outgoing.id, reply);
        // A client must not cancel `initialize`.
        const Withdrawal withdrawal(connection, outgoing.id, outgoing.method != "initialize");
        const RpcMessage message =
            rpc_request(outgoing.id, std::move(outgoing.method), std::move(outgoing.params));
        std::string line = rpc_text(message) + "\n";
        (void)co_await connection->outbound.push(std::move(line));
        co_await reply->arrived.wait();
        if (reply->failure) std::rethrow_exception(reply->failure);
        co_return std::move(*reply->reply);
    }

    Task<> notify(std::string method, JsonObject params) override {
        const ConnectionPtr connection = opened();
        const RpcMessage message = rpc_notification(std::move(method), std::move(params));
        std::string line = rpc_text(message) + "\n";
        (void)co_await connection->outbound.push(std::move(line));
    }

    void use_version(std::string_view) override {}
    void succeeded() noexcept override { failed_starts_ = 0; }

    Task<> close() override {
        const ConnectionPtr connection = std::exchange(connection_, nullptr);
        if (!connection) co_return;
        const Ending ending(connection);
        if (!connection->is_over) {
            connection->process->close_input();
            Task<ExitStatus> exit = connection->process->wait();
            Task<ExitStatus> limited =
                with_timeout(*runtime_->clock, options_.exit_grace, std::move(exit), "exit");
            (void)co_await outcome_of(std::move(limited));
        }
        Task<std::vector<SurvivingProcess>> terminating =
            connection->process->terminate(options_.exit_grace);
        (void)co_await outcome_of(std::move(terminating));
        ending.end();
        co_await connection->scope.close();
    }

    void abandon() noexcept override {
        if (connection_) const Ending ending(std::exchange(connection_, nullptr));
    }

private:
    ConnectionPtr opened() const {
        if (connection_ && !connection_->is_over) return connection_;
        if (connection_ && connection_->failure) std::rethrow_exception(connection_->failure);
        throw Error(ErrorCode::disconnected,
                    "The MCP server " + options_.server + " is not connected.");
    }

    /// Every start counts as failed until succeeded() is called.
    void count_start() noexcept {
        std::chrono::nanoseconds delay = options_.restart_delay;
        for (int i = 0; i < failed_starts_ && delay < options_.max_restart_delay; ++i) delay *= 2;
        next_start_ =
            deadline_after(runtime_->clock->now(), std::min(delay, options_.max_restart_delay));
        ++failed_starts_;
    }

    const McpStdioOptions options_;
    const std::shared_ptr<const Runtime> runtime_;
    ConnectionPtr connection_;
    int failed_starts_ = 0;
    Clock::time_point next_start_ = {};
};

}  // namespace

std::unique_ptr<McpTransport> mcp_stdio_transport(McpStdioOptions options,
                                                  std::shared_ptr<const Runtime> runtime) {
    return std::make_unique<StdioTransport>(std::move(options), std::move(runtime));
}

}  // namespace cubepi
