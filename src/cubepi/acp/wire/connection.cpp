#include <cstddef>
#include <cstdint>
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
#include <cubepi/acp/editor.hpp>
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

namespace cubepi::detail {

namespace {

/// Messages for the editor, in their order. An editor that does not read them cannot make them grow without limit.
class AcpOutbox {
public:
    explicit AcpOutbox(std::size_t max_bytes) : max_bytes_(max_bytes) {}

    void post(const RpcMessage& message);
    /// Returns the next line; nothing after close().
    Task<std::optional<std::string>> next();
    void close();
    /// Waits for close(). Throws Error(disconnected) after an overflow, which the writer cannot notice: it waits for the editor.
    Task<> until_closed();

private:
    const std::size_t max_bytes_;
    AsyncQueue<std::string> lines_{1};
    std::size_t bytes_ = 0;
    bool is_closed_ = false;
    bool has_overflowed_ = false;
    AsyncEvent closed_;
};

/// The editor of a connection, the requests that it has not answered, and for version 2 what it knows of the work of its sessions.
class ConnectedEditor final : public AcpEditor {
public:
    explicit ConnectedEditor(std::size_t max_queued_bytes) : outbox_(max_queued_bytes) {}

    const AcpEditorInfo& info() const noexcept override { return info_; }
    void update(std::string_view session, JsonObject update) override;
    Task<JsonObject> request(std::string method, JsonObject params) override;

    void set_info(AcpEditorInfo info) { info_ = std::move(info); }
    AcpOutbox& outbox() noexcept { return outbox_; }
    void post(const RpcMessage& message) { outbox_.post(message); }
    /// A response to an unknown id is one that came late, or was never asked for.
    void answered(RpcMessage response);
    /// Requests fail from now on.
    void end();

    // Version 2 reports the work of a session as its state; version 1 has the responses to prompts.

    void begin_work(const std::string& session);
    /// `idle`: the update that reports the end if this was the last work of the session.
    void end_work(const std::string& session, JsonObject idle);
    /// Reports the state of a session that continues.
    void report_state(const std::string& session);

private:
    struct Waiting {
        AsyncEvent done;
        std::optional<RpcMessage> response;
    };
    struct Work {
        std::size_t prompts = 0;
        std::size_t questions = 0;
        std::string_view state() const {
            if (prompts == 0) return "idle";
            return questions > 0 ? "requires_action" : "running";
        }
    };

    void withdraw(std::int64_t id);
    void count_question(const std::string& session, int change);

    AcpEditorInfo info_;
    AcpOutbox outbox_;
    std::int64_t last_id_ = 0;
    std::map<std::int64_t, std::shared_ptr<Waiting>> waiting_;
    std::map<std::string, Work, std::less<>> works_;  ///< of sessions that work
    bool has_ended_ = false;
};

[[noreturn]] void throw_ended() {
    throw Error(ErrorCode::disconnected, "The editor has ended the connection.");
}

void AcpOutbox::post(const RpcMessage& message) {
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

Task<std::optional<std::string>> AcpOutbox::next() {
    std::optional<std::string> line = co_await lines_.next();
    if (line) bytes_ -= line->size();
    co_return line;
}

void AcpOutbox::close() {
    is_closed_ = true;
    lines_.close();
    closed_.set();
}

Task<> AcpOutbox::until_closed() {
    co_await closed_.wait();
    if (has_overflowed_)
        throw Error(ErrorCode::disconnected, "The editor does not read its messages.");
}

void ConnectedEditor::update(std::string_view session, JsonObject update) {
    JsonObject params;
    params["sessionId"] = session;
    if (info_.protocol >= 2) {
        std::optional<JsonObject> translated = update_two(std::move(update));
        if (!translated) return;
        update = std::move(*translated);
    }
    params["update"] = std::move(update);
    post(rpc_notification("session/update", std::move(params)));
}

Task<JsonObject> ConnectedEditor::request(std::string method, JsonObject params) {
    if (has_ended_) throw_ended();
    struct Withdrawal {
        ConnectedEditor& editor;
        std::int64_t id;
        std::string asks;  ///< the session whose user is asked
        ~Withdrawal() {
            editor.withdraw(id);
            if (!asks.empty()) editor.count_question(asks, -1);
        }
    };
    const bool asks = method == "session/request_permission";
    std::string session = asks ? text_member(params, "sessionId") : std::string();
    const std::int64_t id = ++last_id_;
    const auto waiting = std::make_shared<Waiting>();
    waiting_.emplace(id, waiting);
    post(rpc_request(id, std::move(method), std::move(params)));
    if (!session.empty()) count_question(session, 1);
    const Withdrawal withdrawal{*this, id, std::move(session)};
    co_await waiting->done.wait();
    if (!waiting->response) throw_ended();
    RpcMessage& response = *waiting->response;
    if (response.kind == RpcMessage::Kind::error)
        throw AcpError(response.code, "The editor has refused: " + response.text);
    co_return std::move(response.result);
}

void ConnectedEditor::answered(RpcMessage response) {
    const std::int64_t* id = response.id.if_int64();
    const auto entry = id ? waiting_.find(*id) : waiting_.end();
    if (entry == waiting_.end() || entry->second->response) return;
    entry->second->response = std::move(response);
    entry->second->done.set();
}

void ConnectedEditor::end() {
    has_ended_ = true;
    for (auto& [id, waiting] : waiting_) waiting->done.set();
}

void ConnectedEditor::withdraw(std::int64_t id) {
    const auto entry = waiting_.find(id);
    if (entry == waiting_.end()) return;
    const bool is_answered = entry->second->response.has_value();
    waiting_.erase(entry);
    if (is_answered || has_ended_) return;
    JsonObject params;
    params["requestId"] = id;
    post(rpc_notification("$/cancel_request", std::move(params)));
}

void ConnectedEditor::count_question(const std::string& session, int change) {
    // A question of background work does not block the foreground, which is idle.
    const auto entry = works_.find(session);
    if (entry == works_.end()) return;
    Work& work = entry->second;
    const std::string_view before = work.state();
    if (change > 0) {
        ++work.questions;
    } else if (work.questions > 0) {
        --work.questions;
    }
    if (work.state() != before) update(session, state_update(work.state()));
}

void ConnectedEditor::begin_work(const std::string& session) {
    Work& work = works_[session];
    if (++work.prompts == 1) update(session, state_update(work.state()));
}

void ConnectedEditor::end_work(const std::string& session, JsonObject idle) {
    const auto entry = works_.find(session);
    if (entry == works_.end() || --entry->second.prompts > 0) return;
    works_.erase(entry);
    update(session, std::move(idle));
}

void ConnectedEditor::report_state(const std::string& session) {
    const auto entry = works_.find(session);
    update(session, state_update(entry == works_.end() ? "idle" : entry->second.state()));
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

namespace {

using detail::ConnectedEditor;
using detail::required_text;

/// A session that the editor has open.
struct OpenSession {
    std::shared_ptr<AcpSession> session;
    std::size_t prompts = 0;  ///< in progress
    AsyncEvent idle;
};

/// Counts a prompt of a session as long as it exists.
class PromptCount {
public:
    explicit PromptCount(OpenSession& open) : open_(open) {
        ++open_.prompts;
        open_.idle.reset();
    }
    ~PromptCount() {
        if (--open_.prompts == 0) open_.idle.set();
    }
    PromptCount(const PromptCount&) = delete;
    PromptCount& operator=(const PromptCount&) = delete;

private:
    OpenSession& open_;
};

/// A prompt of version 2 before and after its message has become a part of the conversation.
struct Insertion {
    std::string session;
    JsonArray content;
    std::string id;  ///< of the message; empty: it is not inserted
    std::exception_ptr failure;
    AsyncEvent done;
};

/// The result of a request, and what follows its response.
struct Reply {
    JsonObject result = {};
    std::shared_ptr<AcpSession> opened = {};
};

constexpr std::int64_t max_version = 65535;

class Connection {
public:
    Connection(std::shared_ptr<AcpHost> host, std::unique_ptr<McpByteStream> stream,
               AcpLimits limits)
        : host_(std::move(host)),
          abilities_(host_->abilities()),
          stream_(std::move(stream)),
          limits_(limits),
          lines_(limits.max_message_bytes),
          editor_(std::make_shared<ConnectedEditor>(limits.max_queued_bytes)) {}

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
            ConnectedEditor& editor;
            ~Closing() { editor.outbox().close(); }
        };
        const Closing closing{*editor_};
        const auto body = [this](TaskScope& scope) { return read_all(scope); };
        Task<> reading = with_task_scope(body);
        co_await std::move(reading);
    }

    Task<> read_all(TaskScope& scope) {
        scope_ = &scope;
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
        if (message.method != "initialize") has_requests_ = true;
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
        JsonObject data = error_data(message);
        Outcome<Reply> reply = co_await outcome_of(perform(std::move(message), key));
        if (!reply.ok()) {
            RpcMessage error = error_of(std::move(id), reply.failure());
            if (error.code == acp_error::unsupported_version ||
                (is_two() && error.code == acp_error::not_found))
                error.data = std::move(data);
            editor_->post(error);
            co_return;
        }
        Reply made = std::move(reply).value();
        editor_->post(rpc_result(std::move(id), std::move(made.result)));
        if (made.opened) made.opened->announce();
    }

    /// Returns the data of errors about a version, and in version 2 about a session.
    static JsonObject error_data(const RpcMessage& message) {
        JsonObject data;
        if (message.method == "initialize") {
            const Json* version = message.params.if_contains("protocolVersion");
            if (version) data["requested"] = *version;
            data["supported"] = JsonArray{1, 2};
        } else {
            data["sessionId"] = detail::text_member(message.params, "sessionId");
        }
        return data;
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
        } else if (method == "session/prompt" && is_two()) {
            reply.result = co_await insert(params, std::move(key));
        } else if (method == "session/prompt") {
            reply.result = co_await prompt(params, std::move(key));
        } else if (method == "session/new") {
            reply = co_await create(params);
        } else if (method == "session/load" && abilities_.opens && !is_two()) {
            reply = co_await open(params, true);
        } else if (method == "session/resume" && (abilities_.opens || is_two())) {
            const bool replays = is_two() && detail::replays_from_start(params);
            if (!abilities_.opens)
                throw AcpError(acp_error::not_found, "this agent does not save sessions");
            reply = co_await open(params, replays);
        } else if (method == "session/list" && (abilities_.lists || is_two())) {
            // Version 2 does not ask whether there are saved sessions.
            AcpSessionList list;
            if (abilities_.lists) {
                list = co_await host_->list(detail::text_member(params, "cwd"),
                                            detail::text_member(params, "cursor"));
            }
            reply.result = detail::list_result(list);
        } else if (method == "session/delete" && abilities_.removes) {
            const std::string id = required_text(params, "sessionId");
            co_await close(id);
            co_await host_->remove(id);
        } else if (method == "session/close") {
            const std::string id = required_text(params, "sessionId");
            if (!is_two()) (void)find(id);
            co_await close(id);
        } else if (method == "session/set_mode" && !is_two()) {
            const auto session = find(required_text(params, "sessionId"))->session;
            co_await session->set_mode(required_text(params, "modeId"));
        } else if (method == "session/set_config_option") {
            const auto session = find(required_text(params, "sessionId"))->session;
            if (is_two()) detail::check_option_two(params);
            co_await session->set_option(required_text(params, "configId"),
                                         required_text(params, "value"));
            reply.result["configOptions"] = options_of(*session);
        } else if (is_two() && (method == "tool_call/cancel" || method == "terminal/cancel")) {
            throw AcpError(acp_error::invalid_params, "it cannot be cancelled alone");
        } else {
            throw AcpError(acp_error::method_not_found, "There is no method '" + method + "'.");
        }
        co_return reply;
    }

    /// Agents with version 1 alone answer every request with it; others choose the highest version that both have.
    JsonObject initialize(const JsonObject& params) {
        const Json* version = params.if_contains("protocolVersion");
        const std::int64_t* number = version ? version->if_int64() : nullptr;
        if (!number || *number < 0 || *number > max_version)
            throw AcpError(acp_error::invalid_params,
                           "`protocolVersion` must be an integer from 0 to 65535");
        if (is_initialized_ && (!is_two() || has_requests_ || *number < 2))
            throw AcpError(acp_error::invalid_request, "`initialize` was called before");
        if (abilities_.protocol >= 2 && *number == 0)
            throw AcpError(acp_error::unsupported_version, "this agent has the versions 1 and 2");
        if (abilities_.protocol >= 2 && *number >= 2) {
            editor_->set_info(detail::read_editor_two(params, *number == 2));
            is_initialized_ = true;
            return detail::initialize_result_two(abilities_);
        }
        editor_->set_info(detail::read_editor(params));
        is_initialized_ = true;
        return detail::initialize_result(abilities_);
    }

    bool is_two() const noexcept { return editor_->info().protocol >= 2; }

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
        const PromptCount count(*open);
        const AcpStop stop = co_await open->session->prompt(std::move(prompt));
        JsonObject result;
        result["stopReason"] = to_string(stop);
        co_return result;
    }

    /// The prompt of version 2: the response states that the message is in the conversation; the end is an update.
    Task<JsonObject> insert(JsonObject params, std::string key) {
        const auto insertion = std::make_shared<Insertion>();
        insertion->session = required_text(params, "sessionId");
        const std::shared_ptr<OpenSession> open = find(insertion->session);
        AcpPrompt prompt = detail::read_prompt(params, abilities_.images);
        insertion->content = std::move(params["prompt"].as_array());
        prompt.on_inserted = [editor = editor_, insertion](const std::string& id) {
            inserted(*editor, *insertion, id);
        };
        running_[key] = open->session;
        scope_->spawn(work(open, std::move(prompt), insertion));
        co_await insertion->done.wait();
        if (insertion->failure) std::rethrow_exception(insertion->failure);
        JsonObject result;
        result["messageId"] = insertion->id;
        co_return result;
    }

    static void inserted(ConnectedEditor& editor, Insertion& insertion, const std::string& id) {
        if (insertion.done.is_set()) return;
        insertion.id = id.empty() ? "message-" + random_id() : id;
        editor.update(insertion.session,
                      detail::user_message_update(insertion.id, std::move(insertion.content)));
        insertion.done.set();
    }

    /// Runs a prompt of version 2 to its end.
    Task<> work(std::shared_ptr<OpenSession> open, AcpPrompt prompt,
                std::shared_ptr<Insertion> insertion) {
        const PromptCount count(*open);
        editor_->begin_work(insertion->session);
        Outcome<AcpStop> ended = co_await outcome_of(open->session->prompt(std::move(prompt)));
        JsonObject idle = detail::state_update("idle");
        if (ended.ok()) {
            idle["stopReason"] = to_string(ended.value());
            if (ended.value() != AcpStop::cancelled) inserted(*editor_, *insertion, {});
            insertion->failure = std::make_exception_ptr(
                AcpError(acp_error::cancelled, "The prompt was cancelled before it began."));
        } else if (ended.cancelled()) {
            idle["stopReason"] = to_string(AcpStop::cancelled);
            insertion->failure = ended.failure();
        } else {
            const RpcMessage error = error_of(nullptr, ended.failure());
            JsonObject described;
            described["code"] = error.code;
            described["message"] = error.text;
            idle["stopReason"] = "error";
            idle["error"] = std::move(described);
            insertion->failure = ended.failure();
        }
        if (!insertion->id.empty()) insertion->failure = nullptr;
        insertion->done.set();
        editor_->end_work(insertion->session, std::move(idle));
    }

    JsonArray options_of(const AcpSession& session) const {
        JsonArray options = detail::options_json(session.options());
        return is_two() ? detail::options_two(std::move(options)) : options;
    }

    /// Adds the options of a session to a result, and for version 1 its modes.
    void add_state(JsonObject& result, const AcpSession& session) const {
        if (!is_two()) detail::add_modes(result, session);
        JsonArray options = options_of(session);
        if (!options.empty()) result["configOptions"] = std::move(options);
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

    AcpSetup setup_of(const JsonObject& params) const {
        AcpSetup setup = detail::read_setup(params);
        if (is_two()) detail::check_servers_two(params);
        return setup;
    }

    Task<Reply> create(JsonObject params) {
        AcpSetup setup = setup_of(params);
        const std::string id = "acp-" + random_id();
        const Opening opening(*this, id);
        Reply reply;
        reply.opened = co_await host_->create(editor_, id, std::move(setup));
        add(id, reply.opened);
        reply.result["sessionId"] = id;
        add_state(reply.result, *reply.opened);
        co_return reply;
    }

    Task<Reply> open(JsonObject params, bool replays) {
        const std::string id = required_text(params, "sessionId");
        AcpSetup setup = setup_of(params);
        const Opening opening(*this, id);
        co_await close(id);
        Reply reply;
        reply.opened = co_await host_->open(editor_, id, std::move(setup));
        add(id, reply.opened);
        if (replays) co_await reply.opened->replay();
        if (is_two()) editor_->report_state(id);
        add_state(reply.result, *reply.opened);
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
    const std::shared_ptr<ConnectedEditor> editor_;
    bool is_initialized_ = false;
    bool has_requests_ = false;   ///< besides `initialize`
    TaskScope* scope_ = nullptr;  ///< of the requests in progress
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
