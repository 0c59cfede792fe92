#include <cubepi/mcp/server_routes.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/http/endpoint.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/mcp/server/server_request.hpp>
#include <cubepi/mcp/server/session.hpp>
#include <cubepi/mcp/server/tasks.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

/// The sessions of clients over HTTP, by their secret ids. Their number is limited: a session without a request in progress ends after
/// a time without use, or when another one needs its place.
class McpHttpSessions {
public:
    McpHttpSessions(std::size_t max_sessions, std::chrono::nanoseconds idle_time,
                    std::shared_ptr<const Runtime> runtime);
    ~McpHttpSessions();

    /// Stores a session and returns its id; empty if there are too many sessions in use.
    std::string add(std::shared_ptr<McpSession> session);
    /// Returns null if there is no such session (any more).
    std::shared_ptr<McpSession> find(std::string_view id);
    /// Closes the session. Returns false if there is none.
    bool remove(std::string_view id);

private:
    struct Entry {
        std::shared_ptr<McpSession> session;
        Clock::time_point used;
    };
    using Entries = std::map<std::string, Entry, std::less<>>;

    static bool is_idle(const Entry& entry);
    Entries::iterator end_session(Entries::iterator entry);

    std::size_t max_sessions_;
    std::chrono::nanoseconds idle_time_;
    std::shared_ptr<const Runtime> runtime_;
    Entries entries_;
};

McpHttpSessions::McpHttpSessions(std::size_t max_sessions, std::chrono::nanoseconds idle_time,
                                 std::shared_ptr<const Runtime> runtime)
    : max_sessions_(max_sessions), idle_time_(idle_time), runtime_(std::move(runtime)) {}

McpHttpSessions::~McpHttpSessions() {
    for (const auto& [id, entry] : entries_) entry.session->close();
}

/// A request in progress and a stream share the session.
bool McpHttpSessions::is_idle(const Entry& entry) { return entry.session.use_count() == 1; }

McpHttpSessions::Entries::iterator McpHttpSessions::end_session(Entries::iterator entry) {
    const std::shared_ptr<McpSession> session = entry->second.session;
    const Entries::iterator next = entries_.erase(entry);
    session->close();
    session->abort_requests();
    return next;
}

std::string McpHttpSessions::add(std::shared_ptr<McpSession> session) {
    const Clock::time_point now = runtime_->clock->now();
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        if (!is_idle(entry->second)) {
            ++entry;
        } else if (deadline_after(entry->second.used, idle_time_) <= now) {
            entry = end_session(entry);
        } else {
            if (oldest == entries_.end() || entry->second.used < oldest->second.used)
                oldest = entry;
            ++entry;
        }
    }
    if (entries_.size() >= max_sessions_) {
        if (oldest == entries_.end()) return {};
        end_session(oldest);
    }
    std::string id = random_secret(16);
    Entry entry;
    entry.session = std::move(session);
    entry.used = now;
    entries_.emplace(id, std::move(entry));
    return id;
}

std::shared_ptr<McpSession> McpHttpSessions::find(std::string_view id) {
    const auto entry = entries_.find(id);
    if (entry == entries_.end()) return nullptr;
    const Clock::time_point now = runtime_->clock->now();
    if (is_idle(entry->second) && deadline_after(entry->second.used, idle_time_) <= now) {
        end_session(entry);
        return nullptr;
    }
    entry->second.used = now;
    return entry->second.session;
}

bool McpHttpSessions::remove(std::string_view id) {
    const auto entry = entries_.find(id);
    if (entry == entries_.end()) return false;
    end_session(entry);
    return true;
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

namespace {

using detail::object_member;
using detail::string_member;

/// Notifications that a client has not read yet; further ones are dropped.
constexpr std::size_t max_queued_notifications = 256;

/// The data that the handlers of the routes share.
struct Endpoint {
    std::shared_ptr<McpServer> server;
    McpRouteOptions options;
    detail::McpHttpSessions sessions;

    Endpoint(std::shared_ptr<McpServer> its_server, McpRouteOptions its_options)
        : server(std::move(its_server)),
          options(std::move(its_options)),
          sessions(options.max_sessions, options.session_idle_time, server->options().runtime) {}
};

using EndpointPtr = std::shared_ptr<Endpoint>;
using SessionPtr = std::shared_ptr<detail::McpSession>;

constexpr std::string_view session_header = "Mcp-Session-Id";

/// Returns true for "localhost", "127.0.0.1" and "[::1]", with or without a port.
bool is_local_host(std::string_view host) {
    const std::string lower = detail::lower_case(host);
    std::string_view name = lower;
    // The colons of an IPv6 address are in brackets.
    const std::size_t bracket = name.rfind(']');
    const std::size_t port = name.find(':', bracket == std::string_view::npos ? 0 : bracket);
    name = name.substr(0, port);
    return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

/// Returns why a request may come from a foreign web page; empty if it does not.
std::string origin_problem(const McpRouteOptions& options, const HttpServerRequest& request) {
    if (options.local_hosts_only && !is_local_host(request.headers.get("host")))
        return "This host is not accepted.";
    const std::string* origin = request.headers.find("origin");
    if (!origin) return {};
    if (std::ranges::find(options.allowed_origins, *origin) != options.allowed_origins.end())
        return {};
    const std::string normal = detail::mcp_url_origin(*origin);
    const std::size_t host = normal.find("://");
    const bool is_local = host != std::string::npos && is_local_host(normal.substr(host + 3));
    return is_local ? std::string() : std::string("This origin is not accepted.");
}

HttpServerResponse json_response(unsigned status, const RpcMessage& message) {
    return HttpServerResponse(status, rpc_text(message), "application/json");
}

/// The statuses that the revision without sessions requires.
unsigned status_of(const RpcMessage& response) {
    if (response.kind != RpcMessage::Kind::error) return 200;
    switch (response.code) {
        case mcp_error::method_not_found: return 404;
        case mcp_error::parse:
        case mcp_error::invalid_request:
        case mcp_error::invalid_params:
        case mcp_error::header_mismatch:
        case mcp_error::missing_client_capability:
        case mcp_error::unsupported_version: return 400;
        default: return 200;
    }
}

bool is_stateless(const RpcMessage& message) {
    const JsonObject* meta = object_member(message.params, "_meta");
    return meta && meta->contains(mcp_meta::version);
}

/// Returns why the headers of a request of the era without sessions differ from its body; empty if they do not.
std::string header_problem(const Endpoint& endpoint, const HttpHeaders& headers,
                           const RpcMessage& message) {
    const JsonObject& meta = *object_member(message.params, "_meta");
    const std::string* version = headers.find("MCP-Protocol-Version");
    if (!version || *version != string_member(meta, mcp_meta::version))
        return "The header MCP-Protocol-Version differs from the version in `_meta`.";
    if (headers.get("Mcp-Method") != message.method)
        return "The header Mcp-Method differs from the method.";
    std::string_view member;
    if (message.method == "tools/call" || message.method == "prompts/get") member = "name";
    if (message.method == "resources/read") member = "uri";
    if (detail::is_mcp_task_method(message.method)) member = "taskId";
    if (member.empty()) return {};
    const std::string name = detail::text_member(message.params, member);
    const std::string* sent = headers.find("Mcp-Name");
    if (!sent || detail::decode_mcp_header(*sent) != name)
        return "The header Mcp-Name differs from the name in the request.";
    const std::vector<McpHeaderParameter>* known = nullptr;
    if (message.method == "tools/call") known = endpoint.server->header_parameters(name);
    if (!known) return {};
    const JsonObject* arguments = object_member(message.params, "arguments");
    const std::string problem =
        detail::check_parameter_headers(headers, *known, arguments ? *arguments : JsonObject());
    return problem.empty() ? std::string() : problem + ".";
}

bool accepts_events(const HttpServerRequest& request) {
    return request.headers.get("accept").find("text/event-stream") != std::string_view::npos;
}

std::string client_of(const Endpoint& endpoint, const HttpServerRequest& request) {
    if (endpoint.options.client) return endpoint.options.client(request);
    // The token itself is not stored with the tasks.
    return detail::sha256_hex(request.headers.get("authorization"));
}

/// Returns the session that a request names; null if it has ended, or if it is that of another user: an id alone is not a login.
SessionPtr session_of(Endpoint& endpoint, const HttpServerRequest& request) {
    SessionPtr session = endpoint.sessions.find(request.headers.get(session_header));
    const bool is_own = session && (session->client.empty() || !endpoint.options.client ||
                                    session->client == endpoint.options.client(request));
    return is_own ? session : nullptr;
}

/// Returns true if messages may precede the response.
bool needs_stream(const McpServerCall& call) {
    const std::string& method = call.request.method;
    if (method == "subscriptions/listen") return true;
    const JsonObject* meta = object_member(call.request.params, "_meta");
    if (meta && meta->contains(mcp_meta::progress_token)) return true;
    if (meta && meta->contains(mcp_meta::version)) return meta->contains(mcp_meta::log_level);
    return call.session &&
           (method == "tools/call" || method == "prompts/get" || method == "resources/read");
}

using EventQueue = AsyncQueue<RpcMessage>;

/// Progress and messages for the log are dropped if the client does not read; others wait.
Task<> queue_event(std::shared_ptr<EventQueue> queue, RpcMessage message) {
    const bool may_be_dropped =
        message.method == "notifications/progress" || message.method == "notifications/message";
    if (may_be_dropped) {
        (void)queue->try_push(std::move(message));
    } else {
        (void)co_await queue->push(std::move(message));
    }
}

/// Answers a request, which its session can cancel meanwhile.
Task<RpcMessage> answer(std::shared_ptr<McpServer> server, McpServerCall call) {
    const SessionPtr session = call.session;
    if (!session) co_return co_await server->answer(std::move(call));
    const std::string key = json_text(call.request.id);
    const std::size_t limit = server->options().max_requests;
    if (session->running.contains(key) || session->running.size() >= limit) {
        co_return rpc_error(call.request.id, mcp_error::invalid_request,
                            "A request with this id, or too many, are in progress.");
    }
    struct Running {
        detail::McpSession& session;
        std::string key;
        ~Running() { session.running.erase(key); }
    };
    std::stop_source stop;
    session->running.emplace(key, stop);
    const Running running{*session, key};
    const std::stop_callback client_gone(call.stop, [&stop] { stop.request_stop(); });
    call.stop = stop.get_token();
    co_return co_await server->answer(std::move(call));
}

Task<> answer_into(EndpointPtr endpoint, McpServerCall call, std::shared_ptr<EventQueue> queue) {
    struct Closing {
        EventQueue& queue;
        ~Closing() { queue.close(); }
    };
    const Closing closing{*queue};
    RpcMessage response = co_await answer(endpoint->server, std::move(call));
    (void)queue->force_push(std::move(response));
}

Task<> write_events(std::shared_ptr<EventQueue> queue, ResponseStream* out) {
    while (true) {
        const std::optional<RpcMessage> message = co_await queue->next();
        if (!message) co_return;
        std::string event = server_sent_event("message", rpc_text(*message));
        co_await out->write(std::move(event));
    }
}

/// Writes the notifications of a call while it is executed, and then its response. A client that is gone ends the call.
Task<> stream_answer(EndpointPtr endpoint, McpServerCall call, ResponseStream* out) {
    const auto queue = std::make_shared<EventQueue>(max_queued_notifications);
    call.notify = [queue](RpcMessage notification) {
        return queue_event(queue, std::move(notification));
    };
    std::vector<Task<>> both;
    both.push_back(answer_into(endpoint, std::move(call), queue));
    both.push_back(write_events(queue, out));
    co_await when_all(std::move(both));
}

using ReplayPtr = std::shared_ptr<detail::McpReplay>;

Task<> add_event(ReplayPtr replay, RpcMessage message) {
    replay->add(message);
    co_return;
}

/// Answers a call of a session, whatever becomes of its connection.
Task<> answer_for_replay(std::shared_ptr<McpServer> server, McpServerCall call, ReplayPtr replay) {
    struct Ending {
        detail::McpReplay& replay;
        ~Ending() { replay.end(); }
    };
    const Ending ending{*replay};
    call.notify = [replay](RpcMessage message) { return add_event(replay, std::move(message)); };
    const RpcMessage response = co_await answer(std::move(server), std::move(call));
    replay->add(response);
}

Task<> read_or_ended(ReplayPtr replay) {
    while (!replay->is_ended() && !replay->has_reader()) co_await replay->change();
}

/// Aborts a call whose client has lost its connection and does not return. Ends with the call, so that its events do not stay longer.
Task<> abort_if_abandoned(ReplayPtr replay, std::shared_ptr<const Runtime> runtime,
                          std::chrono::nanoseconds limit, std::stop_source stop) {
    while (!replay->is_ended()) {
        if (replay->has_reader()) {
            co_await replay->change();
            continue;
        }
        Task<> waiting =
            with_timeout(*runtime->clock, limit, read_or_ended(replay), "a client that returns");
        const Outcome<> waited = co_await outcome_of(std::move(waiting));
        if (waited.cancelled()) waited.rethrow();
        if (!waited.ok()) {
            stop.request_stop();
            co_return;
        }
    }
}

/// Answers a call of a session with events that its client can read again over another connection.
HttpServerResponse answer_with_replay(Endpoint& endpoint, const Executor& executor,
                                      McpServerCall call, std::stop_token closed) {
    // Clients of earlier revisions do not expect events without data.
    const bool is_primed = call.session->version >= mcp_session_version;
    const ReplayPtr replay =
        call.session->replays.add(is_primed, endpoint.options.max_replay_bytes);
    const std::stop_source stop;
    call.stop = stop.get_token();
    HttpServerResponse response = HttpServerResponse::events([replay, closed](ResponseStream& out) {
        return detail::McpReplay::write(replay, 0, closed, &out);
    });
    McpServer& server = *endpoint.server;
    const bool is_started =
        server.spawn(executor, answer_for_replay(endpoint.server, std::move(call), replay));
    if (!is_started) replay->end();
    (void)server.spawn(executor, abort_if_abandoned(replay, server.options().runtime,
                                                    endpoint.options.resume_time, stop));
    return response;
}

/// Receives a response or a notification of a client.
HttpServerResponse take_message(Endpoint& endpoint, const HttpServerRequest& request,
                                RpcMessage message) {
    const std::string_view id = request.headers.get(session_header);
    if (id.empty()) return HttpServerResponse(202, "", "");
    const SessionPtr session = session_of(endpoint, request);
    if (!session) return HttpServerResponse::error(404, "This session has ended.");
    if (message.kind != RpcMessage::Kind::notification) {
        session->answered(std::move(message));
    } else if (message.method == "notifications/cancelled") {
        const Json* cancelled = message.params.if_contains("requestId");
        const auto entry =
            cancelled ? session->running.find(json_text(*cancelled)) : session->running.end();
        if (entry != session->running.end()) entry->second.request_stop();
    }
    return HttpServerResponse(202, "", "");
}

/// Returns the refusal of a request whose headers do not fit; otherwise sets the session of the call.
std::optional<HttpServerResponse> refuse_headers(Endpoint& endpoint,
                                                 const HttpServerRequest& request,
                                                 McpServerCall& call) {
    // A request without sessions is recognized by its body or its header; if only one of them says so, they differ.
    const std::string_view version = request.headers.get("MCP-Protocol-Version");
    if (is_stateless(call.request)) {
        std::string problem = header_problem(endpoint, request.headers, call.request);
        if (problem.empty()) return std::nullopt;
        return json_response(
            400, rpc_error(call.request.id, mcp_error::header_mismatch, std::move(problem)));
    }
    if (is_stateless_mcp_version(version)) {
        return json_response(
            400, rpc_error(call.request.id, mcp_error::invalid_params,
                           "`_meta` needs " + std::string(mcp_meta::version) + ", a text."));
    }
    if (!version.empty() && !is_session_mcp_version(version)) {
        JsonObject data;
        data["supported"] = JsonArray{mcp_stateless_version};
        data["requested"] = version;
        return json_response(400,
                             rpc_error(call.request.id, mcp_error::unsupported_version,
                                       "This protocol version is not supported.", std::move(data)));
    }
    // Clients of the first revision with this transport send no header.
    call.session_version = version.empty() ? "2025-03-26" : std::string(version);
    const std::string_view id = request.headers.get(session_header);
    if (call.request.method == "initialize") {
        call.session = std::make_shared<detail::McpSession>();
    } else if (!id.empty()) {
        call.session = session_of(endpoint, request);
        if (!call.session) return HttpServerResponse::error(404, "This session has ended.");
        call.session_version = call.session->version;
    }
    return std::nullopt;
}

Task<HttpServerResponse> open_session(EndpointPtr endpoint, McpServerCall call) {
    const SessionPtr session = call.session;
    if (endpoint->options.client) session->client = call.client;
    const RpcMessage response = co_await endpoint->server->answer(std::move(call));
    HttpServerResponse opened = json_response(200, response);
    if (response.kind == RpcMessage::Kind::result) {
        const std::string id = endpoint->sessions.add(session);
        if (id.empty()) co_return HttpServerResponse::error(503, "Too many sessions are open.");
        opened.headers.set(std::string(session_header), id);
    }
    co_return opened;
}

Task<HttpServerResponse> post(EndpointPtr endpoint, HttpServerRequest request) {
    const std::string foreign = origin_problem(endpoint->options, request);
    if (!foreign.empty()) co_return HttpServerResponse::error(403, foreign);
    McpServerCall call;
    std::optional<HttpServerResponse> refusal;
    try {
        call.request = read_rpc_message(std::string_view(request.body));
    } catch (const Error& error) {
        const bool is_json = error.code() == ErrorCode::protocol;
        const int code = is_json ? mcp_error::invalid_request : mcp_error::parse;
        refusal = json_response(400, rpc_error(nullptr, code, error.what()));
    }
    if (refusal) co_return std::move(*refusal);
    if (call.request.kind != RpcMessage::Kind::request)
        co_return take_message(*endpoint, request, std::move(call.request));
    refusal = refuse_headers(*endpoint, request, call);
    if (refusal) co_return std::move(*refusal);
    call.stop = request.closed;
    call.client = client_of(*endpoint, request);
    if (call.request.method == "initialize" && call.session)
        co_return co_await open_session(endpoint, std::move(call));
    const bool may_return =
        call.session && endpoint->options.resume_time > std::chrono::nanoseconds::zero();
    if (needs_stream(call) && accepts_events(request) && may_return) {
        const Executor executor = co_await this_executor;
        co_return answer_with_replay(*endpoint, executor, std::move(call), request.closed);
    }
    if (needs_stream(call) && accepts_events(request)) {
        const auto shared_call = std::make_shared<McpServerCall>(std::move(call));
        co_return HttpServerResponse::events([endpoint, shared_call](ResponseStream& out) {
            return stream_answer(endpoint, std::move(*shared_call), &out);
        });
    }
    const bool is_new = is_stateless(call.request);
    const RpcMessage response = co_await answer(endpoint->server, std::move(call));
    co_return json_response(is_new ? status_of(response) : 200, response);
}

Task<> write_event(ResponseStream* out, RpcMessage message) {
    std::string event = server_sent_event("message", rpc_text(message));
    co_await out->write(std::move(event));
}

/// Marks a session that has a stream, until the response is destroyed, which its client may not wait for.
class StreamMark {
public:
    explicit StreamMark(SessionPtr session) : session_(std::move(session)) {
        session_->has_stream = true;
    }
    StreamMark(const StreamMark&) = delete;
    StreamMark& operator=(const StreamMark&) = delete;
    ~StreamMark() { session_->has_stream = false; }

private:
    SessionPtr session_;
};

/// Writes the notifications of a session that belong to no request, until the session or its connection ends.
Task<> stream_changes(SessionPtr session, std::stop_token closed, ResponseStream* out) {
    const std::shared_ptr<detail::McpSubscriber> subscriber = session->subscriber;
    const std::stop_callback waking(closed, [&subscriber] { subscriber->wake(); });
    std::string comment = ":\n\n";  // so that the client receives the headers
    co_await out->write(std::move(comment));
    detail::McpSend send = [out](RpcMessage message) {
        return write_event(out, std::move(message));
    };
    co_await detail::send_changes(subscriber, std::move(send), closed);
}

Task<HttpServerResponse> get(EndpointPtr endpoint, HttpServerRequest request) {
    const std::string foreign = origin_problem(endpoint->options, request);
    if (!foreign.empty()) co_return HttpServerResponse::error(403, foreign);
    const std::string_view id = request.headers.get(session_header);
    if (id.empty()) co_return HttpServerResponse::error(405, "Only sessions have this stream.");
    const SessionPtr session = session_of(*endpoint, request);
    if (!session) co_return HttpServerResponse::error(404, "This session has ended.");
    if (const std::string* last = request.headers.find("Last-Event-ID")) {
        const auto [replay, number] = session->replays.find(*last);
        if (!replay || !accepts_events(request))
            co_return HttpServerResponse::error(400, "These events are not stored (any more).");
        const std::stop_token closed = request.closed;
        const std::uint64_t after = number;
        co_return HttpServerResponse::events([replay = replay, after, closed](ResponseStream& out) {
            return detail::McpReplay::write(replay, after, closed, &out);
        });
    }
    if (!session->subscriber || !accepts_events(request))
        co_return HttpServerResponse::error(405, "This server sends no events of its own.");
    if (session->has_stream)
        co_return HttpServerResponse::error(409, "The session has this stream already.");
    const auto mark = std::make_shared<StreamMark>(session);
    const std::stop_token closed = request.closed;
    co_return HttpServerResponse::events([session, closed, mark](ResponseStream& out) {
        return stream_changes(session, closed, &out);
    });
}

Task<HttpServerResponse> end_session(EndpointPtr endpoint, HttpServerRequest request) {
    const std::string foreign = origin_problem(endpoint->options, request);
    if (!foreign.empty()) co_return HttpServerResponse::error(403, foreign);
    const bool ended = session_of(*endpoint, request) &&
                       endpoint->sessions.remove(request.headers.get(session_header));
    if (!ended) co_return HttpServerResponse::error(404, "There is no such session.");
    co_return HttpServerResponse(204, "", "");
}

}  // namespace

void add_mcp_routes(HttpRoutes& routes, std::shared_ptr<McpServer> server,
                    McpRouteOptions options) {
    const auto endpoint = std::make_shared<Endpoint>(std::move(server), std::move(options));
    const std::string path = endpoint->options.path;
    routes.add("POST", path, [endpoint](HttpServerRequest request) {
        return post(endpoint, std::move(request));
    });
    routes.add("GET", path,
               [endpoint](HttpServerRequest request) { return get(endpoint, std::move(request)); });
    routes.add("DELETE", path, [endpoint](HttpServerRequest request) {
        return end_session(endpoint, std::move(request));
    });
}

}  // namespace cubepi
