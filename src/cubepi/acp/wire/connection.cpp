#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/acp/agent.hpp>
#include <cubepi/acp/wire/messages.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {

namespace {

using detail::required_text;

/// Messages for the editor, in their order. An editor that does not read them cannot make them grow without limit.
class Outbox {
public:
    explicit Outbox(std::size_t max_bytes) : max_bytes_(max_bytes) {}

    void post(const RpcMessage& message) {
        if (is_closed_) return;
        std::string line = rpc_text(message) + "\n";
        bytes_ += line.size();
        if (bytes_ > max_bytes_) {
            has_overflowed_ = true;
            close();
            return;
        }
        (void)lines_.force_push(std::move(line));
    }
    Task<std::optional<std::string>> next() {
        std::optional<std::string> line = co_await lines_.next();
        if (line) bytes_ -= line->size();
        co_return line;
    }
    void close() {
        is_closed_ = true;
        lines_.close();
        closed_.set();
    }
    /// Waits for close(). The writer cannot notice an overflow: it waits for the editor.
    Task<> until_closed() {
        co_await closed_.wait();
        if (has_overflowed_)
            throw Error(ErrorCode::disconnected, "The editor does not read its messages.");
    }

private:
    const std::size_t max_bytes_;
    AsyncQueue<std::string> lines_{1};
    std::size_t bytes_ = 0;
    bool is_closed_ = false;
    bool has_overflowed_ = false;
    AsyncEvent closed_;
};

/// The editor, and the requests that it has not answered.
class Editor final : public AcpEditor {
public:
    explicit Editor(std::size_t max_queued_bytes) : outbox_(max_queued_bytes) {}

    const AcpEditorInfo& info() const noexcept override { return info_; }
    void update(std::string_view session, JsonObject update) override {
        JsonObject params;
        params["sessionId"] = session;
        params["update"] = std::move(update);
        post(rpc_notification("session/update", std::move(params)));
    }
    Task<JsonObject> request(std::string method, JsonObject params) override {
        if (has_ended_) throw_ended();
        const std::int64_t id = ++last_id_;
        const auto waiting = std::make_shared<Waiting>();
        waiting_.emplace(id, waiting);
        post(rpc_request(id, std::move(method), std::move(params)));
        struct Withdrawal {
            Editor& editor;
            std::int64_t id;
            ~Withdrawal() { editor.withdraw(id); }
        };
        const Withdrawal withdrawal{*this, id};
        co_await waiting->done.wait();
        if (!waiting->response) throw_ended();
        RpcMessage& response = *waiting->response;
        if (response.kind == RpcMessage::Kind::error)
            throw AcpError(response.code, "The editor has refused: " + response.text);
        co_return std::move(response.result);
    }

    void set_info(AcpEditorInfo info) { info_ = std::move(info); }
    Outbox& outbox() noexcept { return outbox_; }
    void post(const RpcMessage& message) { outbox_.post(message); }
    /// A response to an unknown id is one that came late, or was never asked for.
    void answered(RpcMessage response) {
        const std::int64_t* id = response.id.if_int64();
        const auto entry = id ? waiting_.find(*id) : waiting_.end();
        if (entry == waiting_.end() || entry->second->response) return;
        entry->second->response = std::move(response);
        entry->second->done.set();
    }
    /// Requests fail from now on.
    void end() {
        has_ended_ = true;
        for (auto& [id, waiting] : waiting_) waiting->done.set();
    }

private:
    struct Waiting {
        AsyncEvent done;
        std::optional<RpcMessage> response;
    };

    [[noreturn]] static void throw_ended() {
        throw Error(ErrorCode::disconnected, "The editor has ended the connection.");
    }
    void withdraw(std::int64_t id) {
        const auto entry = waiting_.find(id);
        if (entry == waiting_.end()) return;
        const bool is_answered = entry->second->response.has_value();
        waiting_.erase(entry);
        if (is_answered || has_ended_) return;
        JsonObject params;
        params["requestId"] = id;
        post(rpc_notification("$/cancel_request", std::move(params)));
    }

    AcpEditorInfo info_;
    Outbox outbox_;
    std::int64_t last_id_ = 0;
    std::map<std::int64_t, std::shared_ptr<Waiting>> waiting_;
    bool has_ended_ = false;
};

/// A session that the editor has open.
struct OpenSession {
    std::shared_ptr<AcpSession> session;
    std::size_t prompts = 0;  ///< in progress
    AsyncEvent idle;
};

/// The result of a request, and what follows its response.
struct Reply {
    JsonObject result = {};
    std::shared_ptr<AcpSession> opened = {};
};

class Connection {
public:
    Connection(std::shared_ptr<AcpHost> host, std::unique_ptr<McpByteStream> stream,
               AcpLimits limits)
        : host_(std::move(host)),
          abilities_(host_->abilities()),
          stream_(std::move(stream)),
          limits_(limits),
          lines_(limits.max_message_bytes),
          editor_(std::make_shared<Editor>(limits.max_queued_bytes)) {}

    Task<> run() {
        std::vector<Task<>> parts;
        parts.push_back(read_and_finish());
        parts.push_back(write_all());
        parts.push_back(editor_->outbox().until_closed());
        Task<> serving = when_all(std::move(parts));
        co_await with_cleanup(std::move(serving), close_all());
    }

private:
    Task<> write_all() {
        while (true) {
            std::optional<std::string> line = co_await editor_->outbox().next();
            if (!line) co_return;
            co_await stream_->write(std::move(*line));
        }
    }

    /// Reads to the end, waits for the requests in progress, and then ends the writer.
    Task<> read_and_finish() {
        struct Closing {
            Editor& editor;
            ~Closing() { editor.outbox().close(); }
        };
        const Closing closing{*editor_};
        const auto body = [this](TaskScope& scope) { return read_all(scope); };
        Task<> reading = with_task_scope(body);
        co_await std::move(reading);
    }

    Task<> read_all(TaskScope& scope) {
        std::string bytes;
        while (co_await stream_->read(bytes)) {
            lines_.feed(bytes);
            bytes.clear();
            while (const std::optional<std::string_view> line = lines_.next())
                take_line(scope, *line);
        }
        // No question is answered any more, and no prompt has a reader.
        editor_->end();
        for (const auto& [id, open] : sessions_) open->session->cancel();
    }

    void take_line(TaskScope& scope, std::string_view line) {
        RpcMessage message;
        try {
            message = read_message(line);
        } catch (const Error& failure) {
            const int code = failure.code() == ErrorCode::protocol ? acp_error::invalid_request
                                                                   : acp_error::parse;
            editor_->post(rpc_error(nullptr, code, failure.what()));
            return;
        }
        switch (message.kind) {
            case RpcMessage::Kind::notification: notified(message); break;
            case RpcMessage::Kind::request: requested(scope, std::move(message)); break;
            case RpcMessage::Kind::result:
            case RpcMessage::Kind::error: editor_->answered(std::move(message)); break;
        }
    }

    /// Some editors write null for an empty object.
    static RpcMessage read_message(std::string_view line) {
        Json json = parse_json(line);
        if (JsonObject* object = json.if_object()) {
            for (const char* const key : {"result", "params"}) {
                Json* value = object->if_contains(key);
                if (value && value->is_null()) value->emplace_object();
            }
        }
        return read_rpc_message(std::move(json));
    }

    void notified(const RpcMessage& message) {
        if (message.method == "session/cancel") {
            const auto open = sessions_.find(detail::text_member(message.params, "sessionId"));
            if (open != sessions_.end()) open->second->session->cancel();
        } else if (message.method == "$/cancel_request") {
            const Json* id = message.params.if_contains("requestId");
            const auto entry = id ? running_.find(json_text(*id)) : running_.end();
            const auto session = entry == running_.end() ? nullptr : entry->second.lock();
            if (session) session->cancel();
        }
    }

    void requested(TaskScope& scope, RpcMessage message) {
        const std::string key = json_text(message.id);
        std::string refusal;
        if (running_.contains(key)) refusal = "A request with this id is in progress.";
        if (running_.size() >= limits_.max_requests) refusal = "Too many requests are in progress.";
        if (!is_initialized_ && message.method != "initialize")
            refusal = "The first request must be `initialize`.";
        if (!refusal.empty()) {
            editor_->post(
                rpc_error(std::move(message.id), acp_error::invalid_request, std::move(refusal)));
            return;
        }
        running_.emplace(key, std::weak_ptr<AcpSession>());
        scope.spawn(answer(std::move(message), key));
    }

    Task<> answer(RpcMessage message, std::string key) {
        struct Running {
            Connection& connection;
            const std::string& key;
            ~Running() { connection.running_.erase(key); }
        };
        const Running running{*this, key};
        Json id = message.id;
        Outcome<Reply> reply = co_await outcome_of(perform(std::move(message), key));
        if (!reply.ok()) {
            editor_->post(error_of(std::move(id), reply.failure()));
            co_return;
        }
        Reply made = std::move(reply).value();
        editor_->post(rpc_result(std::move(id), std::move(made.result)));
        if (made.opened) made.opened->announce();
    }

    static RpcMessage error_of(Json id, const std::exception_ptr& failure) {
        if (is_cancellation(failure))
            return rpc_error(std::move(id), acp_error::cancelled, "The request was cancelled.");
        int code = acp_error::internal;
        std::string text = "The agent has failed.";
        try {
            std::rethrow_exception(failure);
        } catch (const AcpError& error) {
            code = error.number();
            text = error.what();
        } catch (const Error& error) {
            if (error.code() == ErrorCode::invalid_argument) code = acp_error::invalid_params;
            text = error.what();
        } catch (const std::exception& error) {
            text = error.what();
        }
        return rpc_error(std::move(id), code, std::move(text));
    }

    Task<Reply> perform(RpcMessage message, std::string key) {
        const std::string& method = message.method;
        const JsonObject& params = message.params;
        Reply reply;
        if (method == "initialize") {
            reply.result = initialize(params);
        } else if (method == "session/prompt") {
            reply.result = co_await prompt(params, std::move(key));
        } else if (method == "session/new") {
            reply = co_await create(params);
        } else if (method == "session/load" && abilities_.opens) {
            reply = co_await open(params, true);
        } else if (method == "session/resume" && abilities_.opens) {
            reply = co_await open(params, false);
        } else if (method == "session/list" && abilities_.lists) {
            AcpSessionList list = co_await host_->list(detail::text_member(params, "cwd"),
                                                       detail::text_member(params, "cursor"));
            reply.result = detail::list_result(list);
        } else if (method == "session/delete" && abilities_.removes) {
            const std::string id = required_text(params, "sessionId");
            co_await close(id);
            co_await host_->remove(id);
        } else if (method == "session/close") {
            const std::string id = required_text(params, "sessionId");
            (void)find(id);
            co_await close(id);
        } else if (method == "session/set_mode") {
            const auto session = find(required_text(params, "sessionId"))->session;
            co_await session->set_mode(required_text(params, "modeId"));
        } else if (method == "session/set_config_option") {
            const auto session = find(required_text(params, "sessionId"))->session;
            co_await session->set_option(required_text(params, "configId"),
                                         required_text(params, "value"));
            reply.result["configOptions"] = detail::options_json(session->options());
        } else {
            throw AcpError(acp_error::method_not_found, "There is no method '" + method + "'.");
        }
        co_return reply;
    }

    JsonObject initialize(const JsonObject& params) {
        const Json* version = params.if_contains("protocolVersion");
        if (!version || !version->is_int64())
            throw AcpError(acp_error::invalid_params, "`protocolVersion` must be an integer");
        if (std::exchange(is_initialized_, true))
            throw AcpError(acp_error::invalid_request, "`initialize` was called before");
        editor_->set_info(detail::read_editor(params));
        return detail::initialize_result(abilities_);
    }

    std::shared_ptr<OpenSession> find(const std::string& id) const {
        const auto open = sessions_.find(id);
        if (open == sessions_.end())
            throw AcpError(acp_error::not_found, "no session with this id is open");
        return open->second;
    }

    Task<JsonObject> prompt(JsonObject params, std::string key) {
        const std::shared_ptr<OpenSession> open = find(required_text(params, "sessionId"));
        AcpPrompt prompt = detail::read_prompt(params, abilities_.images);
        running_[key] = open->session;
        struct Count {
            OpenSession& open;
            explicit Count(OpenSession& its_open) : open(its_open) {
                ++open.prompts;
                open.idle.reset();
            }
            ~Count() {
                if (--open.prompts == 0) open.idle.set();
            }
        };
        const Count count(*open);
        const AcpStop stop = co_await open->session->prompt(std::move(prompt));
        JsonObject result;
        result["stopReason"] = to_string(stop);
        co_return result;
    }

    /// Reserves an id while a session is made, so that two requests cannot open it at once.
    class Opening {
    public:
        Opening(Connection& connection, std::string id)
            : connection_(connection), id_(std::move(id)) {
            if (connection_.sessions_.size() + connection_.opening_.size() >=
                connection_.limits_.max_sessions)
                throw AcpError(acp_error::internal, "too many sessions are open; close one");
            if (!connection_.opening_.insert(id_).second)
                throw AcpError(acp_error::invalid_params, "the session is being opened");
        }
        ~Opening() { connection_.opening_.erase(id_); }
        Opening(const Opening&) = delete;
        Opening& operator=(const Opening&) = delete;

    private:
        Connection& connection_;
        const std::string id_;
    };

    void add(const std::string& id, std::shared_ptr<AcpSession> session) {
        auto open = std::make_shared<OpenSession>();
        open->session = std::move(session);
        open->idle.set();
        sessions_[id] = std::move(open);
    }

    Task<Reply> create(JsonObject params) {
        AcpSetup setup = detail::read_setup(params);
        const std::string id = "acp-" + random_id();
        const Opening opening(*this, id);
        Reply reply;
        reply.opened = co_await host_->create(editor_, id, std::move(setup));
        add(id, reply.opened);
        reply.result["sessionId"] = id;
        detail::add_state(reply.result, *reply.opened);
        co_return reply;
    }

    Task<Reply> open(JsonObject params, bool replays) {
        const std::string id = required_text(params, "sessionId");
        AcpSetup setup = detail::read_setup(params);
        const Opening opening(*this, id);
        co_await close(id);
        Reply reply;
        reply.opened = co_await host_->open(editor_, id, std::move(setup));
        add(id, reply.opened);
        if (replays) co_await reply.opened->replay();
        detail::add_state(reply.result, *reply.opened);
        co_return reply;
    }

    Task<> close(std::string id) {
        const auto entry = sessions_.find(id);
        if (entry == sessions_.end()) co_return;
        const std::shared_ptr<OpenSession> open = entry->second;
        sessions_.erase(entry);
        open->session->cancel();
        co_await open->idle.wait();
        co_await open->session->close();
    }

    Task<> close_all() {
        editor_->end();
        while (!sessions_.empty()) {
            Task<> closing = close(sessions_.begin()->first);
            (void)co_await outcome_of(std::move(closing));
        }
    }

    static std::string random_id() {
        constexpr std::string_view digits = "0123456789abcdef";
        std::string id;
        std::uint64_t word = detail::random_word();
        for (int i = 0; i < 12; ++i, word >>= 4U) id += digits[word & 15U];
        return id;
    }

    const std::shared_ptr<AcpHost> host_;
    const AcpAbilities abilities_;
    const std::unique_ptr<McpByteStream> stream_;
    const AcpLimits limits_;
    RpcLineReader lines_;
    const std::shared_ptr<Editor> editor_;
    bool is_initialized_ = false;
    /// The requests in progress by their ids; prompts with their session.
    std::map<std::string, std::weak_ptr<AcpSession>> running_;
    std::map<std::string, std::shared_ptr<OpenSession>> sessions_;
    std::set<std::string> opening_;
};

Task<> serve_connection(std::unique_ptr<Connection> connection) { co_await connection->run(); }

}  // namespace

Task<> serve_acp(std::shared_ptr<AcpHost> host, std::unique_ptr<McpByteStream> stream,
                 AcpLimits limits) {
    return serve_connection(
        std::make_unique<Connection>(std::move(host), std::move(stream), limits));
}

}  // namespace cubepi
