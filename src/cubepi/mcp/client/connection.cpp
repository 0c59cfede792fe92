#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/client/client_state.hpp>

// The connection: agreement about a version, what the server sends on it, subscriptions.

namespace cubepi {

namespace {

using detail::challenge_in;

constexpr std::size_t max_instruction_bytes = 4096;
constexpr std::string_view tasks_extension = "io.modelcontextprotocol/tasks";

std::exception_ptr failure_in(const Outcome<>& outcome) {
    try {
        outcome.rethrow();
    } catch (...) {
        return std::current_exception();
    }
    return nullptr;
}

bool lists_version(const JsonObject& discovered, std::string_view wanted) {
    const JsonArray* versions = detail::array_member(discovered, "supportedVersions");
    return versions && std::ranges::any_of(*versions, [&](const Json& version) {
               return version.is_string() && std::string_view(version.get_string()) == wanted;
           });
}

/// Lets one coroutine connect at a time; the others wait and then check again.
struct ConnectingMark {
    bool& is_connecting;
    AsyncEvent& ended;

    ConnectingMark(bool& flag, AsyncEvent& event) : is_connecting(flag), ended(event) {
        is_connecting = true;
    }
    ConnectingMark(const ConnectingMark&) = delete;
    ConnectingMark& operator=(const ConnectingMark&) = delete;
    ~ConnectingMark() {
        is_connecting = false;
        ended.pulse();
    }
};

}  // namespace

Task<> McpClient::State::ensure_connected() {
    while (is_connecting) co_await connecting_ended.wait();
    if (is_agreed && transport->is_open()) co_return;
    const ConnectingMark mark(is_connecting, connecting_ended);
    is_agreed = false;
    listening.reset();
    abandoned = std::make_shared<detail::McpAbandonedCalls>();
    std::set<int> refusals;
    for (;;) {
        Task<> agreeing =
            with_timeout(*runtime->clock, options.connect_timeout, agree(), "connect");
        const Outcome<> agreed = co_await outcome_of(std::move(agreeing));
        if (agreed.ok()) break;
        transport->abandon();
        const std::optional<McpChallenge> challenge = challenge_in(agreed.failure());
        if (!challenge || !refusals.insert(challenge->status).second) agreed.rethrow();
        // A user may take longer than a server, so this is outside of the time limits.
        co_await transport->authorize(*challenge);
    }
    is_agreed = true;
    lists_may_have_changed();
    transport->succeeded();
    runtime->log.write(LogLevel::info, "mcp.connected",
                       {{"server", options.server}, {"version", info.version}});
    const Executor executor = co_await this_executor;
    background = std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
    start_listening(executor);
}

Task<> McpClient::State::agree() {
    co_await transport->open(weak_from_this());
    const bool may_probe = !options.version || is_stateless_mcp_version(*options.version);
    const bool may_initialize = !options.version || !may_probe;
    // The second attempt is for a server that has answered "not this version, but the newest one": to the first request whatever it
    // was, or to `initialize` because the answer to the probe came too late.
    for (int attempt = 0;; ++attempt) {
        info = McpServerInfo();
        std::exception_ptr failure;
        if (may_probe) {
            failure = failure_in(co_await outcome_of(discover()));
            if (!failure && !info.version.empty()) co_return;
            if (failure && attempt == 0 && detail::offers_stateless(failure)) continue;
            if (failure && (!may_initialize || !detail::may_have_sessions(failure)))
                std::rethrow_exception(failure);
            if (!may_initialize)
                throw Error(ErrorCode::unsupported,
                            about("does not speak " + *options.version + "."));
        }
        failure = failure_in(co_await outcome_of(initialize()));
        if (!failure) co_return;
        if (attempt > 0 || !may_probe || !detail::offers_stateless(failure))
            std::rethrow_exception(failure);
    }
}

/// Leaves `info` empty if the server lists no version without sessions.
Task<> McpClient::State::discover() {
    transport->use_version(mcp_stateless_version);
    info.is_stateless = true;
    Task<JsonObject> asking = send_once("server/discover", JsonObject(), RequestExtras());
    const JsonObject result = co_await with_timeout(*runtime->clock, options.probe_timeout,
                                                    std::move(asking), "server/discover");
    if (lists_version(result, mcp_stateless_version))
        adopt(result, std::string(mcp_stateless_version), true);
}

Task<> McpClient::State::initialize() {
    info = McpServerInfo();
    transport->use_version("");
    JsonObject params;
    params["protocolVersion"] =
        options.version ? *options.version : std::string(mcp_session_version);
    params["capabilities"] = capabilities(true);
    params["clientInfo"] = to_json(options.implementation);
    const JsonObject result = co_await send_once("initialize", std::move(params), RequestExtras());
    const std::string version = detail::text_member(result, "protocolVersion");
    const bool is_wanted = !options.version || version == *options.version;
    if (!is_session_mcp_version(version) || !is_wanted) {
        throw Error(ErrorCode::unsupported,
                    about("speaks the protocol version '" + detail::shown_mcp_text(version, 32) +
                          "', which this client does not."));
    }
    adopt(result, version, false);
    transport->use_version(version);
    co_await transport->notify("notifications/initialized", JsonObject());
}

/// Returns what this client offers. Without a user who can be asked that is less.
JsonObject McpClient::State::capabilities(bool answers_input) const {
    JsonObject object;
    if (answers_input) object["elicitation"] = JsonObject{{"form", JsonObject()}};
    if (answers_input && options.sampling) object["sampling"] = JsonObject{{"tools", JsonObject()}};
    if (options.roots) {
        JsonObject roots;
        if (!info.is_stateless) roots["listChanged"] = true;
        object["roots"] = std::move(roots);
    }
    // Only for a server that has it, so that others get what their revision knows.
    const JsonObject* offered = detail::object_member(info.capabilities, "extensions");
    if (info.is_stateless && offered && offered->contains(tasks_extension)) {
        JsonObject extensions;
        extensions[tasks_extension] = JsonObject();
        object["extensions"] = std::move(extensions);
    }
    return object;
}

void McpClient::State::adopt(const JsonObject& result, std::string version, bool is_stateless) {
    const JsonObject* meta = detail::object_member(result, "_meta");
    const JsonObject* described =
        meta ? detail::object_member(*meta, mcp_meta::server_info) : nullptr;
    if (!described) described = detail::object_member(result, "serverInfo");
    if (described) info.implementation = mcp_implementation_from_json(*described);
    if (const JsonObject* capabilities = detail::object_member(result, "capabilities"))
        info.capabilities = *capabilities;
    info.instructions = detail::shown_mcp_text(detail::string_member(result, "instructions"),
                                               max_instruction_bytes);
    info.version = std::move(version);
    info.is_stateless = is_stateless;
}

// Notifications and requests of a server.

namespace {

constexpr std::size_t max_roots = 100;
/// The code of the protocol for a user's refusal, in the era with sessions.
constexpr int refused_by_user = -1;

using detail::McpCallInputPtr;

/// The answer to a question that the user has not seen, or not answered.
RpcMessage unanswered(RpcMessage request) {
    if (request.method != "elicitation/create")
        return rpc_error(std::move(request.id), refused_by_user, "No user can be asked.");
    JsonObject object;
    object["action"] = "cancel";
    return rpc_result(std::move(request.id), std::move(object));
}

/// Returns true if a user can be asked, who is the same for all these calls.
bool can_ask(const std::vector<McpCallInputPtr>& calls) {
    if (calls.size() == 1) return calls.front()->can_ask();
    return std::ranges::all_of(calls, [&](const McpCallInputPtr& call) {
        return call->can_share() && call->asker() == calls.front()->asker();
    });
}

RpcMessage failed(RpcMessage request, const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const McpInputRefused& refusal) {
        return rpc_error(std::move(request.id), refused_by_user, refusal.for_server());
    } catch (const McpError& error) {
        return rpc_error(std::move(request.id), error.rpc_code(), error.what());
    }
}

}  // namespace

void McpClient::State::notified(const RpcMessage& notification) noexcept {
    if (notification.method == "notifications/tools/list_changed") ++tools.revision;
    if (notification.method == "notifications/prompts/list_changed") ++prompts.revision;
    if (notification.method == "notifications/resources/list_changed") ++resources.revision;
    if (notification.method == "notifications/subscriptions/acknowledged" &&
        std::exchange(replaces_stream, false))
        report_missed_changes();
    if (notification.method == "notifications/resources/updated")
        report_update(detail::text_member(notification.params, "uri"));
    if (notification.method != "notifications/progress") return;
    const auto token = detail::integer_member(notification.params, mcp_meta::progress_token);
    const auto entry = token ? in_progress.find(*token) : in_progress.end();
    if (entry == in_progress.end() || !entry->second.on_progress) return;
    try {
        entry->second.on_progress(notification.params);
    } catch (const std::exception&) {
        // Progress is only information.
        return;
    }
}

JsonObject McpClient::State::listed_roots() const {
    JsonArray listed;
    for (const McpRoot& root : options.roots()) {
        if (listed.size() == max_roots) break;
        JsonObject one;
        one["uri"] = root.uri;
        if (!root.name.empty()) one["name"] = root.name;
        listed.emplace_back(std::move(one));
    }
    JsonObject result;
    result["roots"] = std::move(listed);
    return result;
}

std::vector<McpCallInputPtr> McpClient::State::calls_of(std::optional<std::int64_t> during) const {
    std::vector<McpCallInputPtr> found;
    for (const auto& [id, request] : in_progress) {
        if ((!during || id == *during) && request.input) found.push_back(request.input);
    }
    return found;
}

Task<RpcMessage> McpClient::State::asked(RpcMessage request, std::optional<std::int64_t> during) {
    if (request.method == "ping") co_return rpc_result(std::move(request.id), JsonObject());
    if (request.method == "roots/list" && options.roots)
        co_return rpc_result(std::move(request.id), listed_roots());
    const bool is_known = request.method == "elicitation/create" ||
                          (request.method == "sampling/createMessage" && options.sampling);
    if (!is_known) {
        co_return rpc_error(
            std::move(request.id), mcp_error::method_not_found,
            "This client does not support " + detail::shown_mcp_text(request.method, 64) + ".");
    }
    // Over standard streams the server does not say to which call the question belongs (D162). A server waits for the answer, so
    // the question belongs to none of the calls that end before: it is withdrawn from them, and asked for the others. A call that was
    // given up here may continue there.
    std::vector<McpCallInputPtr> calls = calls_of(during);
    for (const McpCallInputPtr& call : calls) {
        if (call->progress()) call->progress()->refused();
    }
    while (!calls.empty() && can_ask(calls) &&
           (during || abandoned->are_all_of(calls.front()->asker()))) {
        std::vector<std::string> tools;
        for (const McpCallInputPtr& call : calls) tools.push_back(call->tool());
        const McpCallInputPtr host = calls.back();
        const std::shared_ptr<detail::McpInputAnswer> slot =
            host->ask(request.method, request.params, std::move(tools));
        if (!slot) {
            co_return rpc_error(std::move(request.id), mcp_error::internal,
                                "The call has asked for input too many times.");
        }
        co_await slot->ended.wait();
        if (slot->answer) co_return rpc_result(std::move(request.id), std::move(*slot->answer));
        if (slot->failure && !is_cancellation(slot->failure))
            co_return failed(std::move(request), slot->failure);
        std::erase_if(
            calls, [&](const McpCallInputPtr& call) { return call == host || call->has_ended(); });
    }
    runtime->log.write(LogLevel::warning, "mcp.question_refused",
                       {{"server", options.server}, {"method", request.method}});
    co_return unanswered(std::move(request));
}

// Subscriptions.

namespace {

/// Before the stream of notifications is opened again.
constexpr std::chrono::nanoseconds first_listen_delay = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds max_listen_delay = std::chrono::minutes(1);
constexpr std::size_t max_subscriptions = 100;

}  // namespace

/// The era without sessions has no notifications outside of a request, so one request waits for them.
void McpClient::State::start_listening(const Executor& executor) {
    replaces_stream = listening != nullptr;
    listening.reset();
    notices_changes = true;
    const bool changes = announces("tools") || announces("prompts") || announces("resources");
    const bool is_needed =
        info.is_stateless ? changes || !subscriptions.empty() : !subscriptions.empty();
    if (!is_needed || is_ended) return;
    listening = std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
    if (info.is_stateless) {
        listening->spawn(listen(shared_from_this()));
    } else {
        listening->spawn(subscribe_again(shared_from_this()));
    }
}

/// Opens the stream again when it has ended, with growing delays. A change may have been missed in between.
Task<> McpClient::State::listen(std::shared_ptr<State> self) {
    std::chrono::nanoseconds delay = first_listen_delay;
    while (self->transport->is_open()) {
        JsonObject wanted;
        if (self->announces("tools")) wanted["toolsListChanged"] = true;
        if (self->announces("prompts")) wanted["promptsListChanged"] = true;
        if (self->announces("resources")) wanted["resourcesListChanged"] = true;
        if (!self->subscriptions.empty()) {
            JsonArray uris;
            for (const std::string& uri : self->subscriptions) uris.emplace_back(uri);
            wanted["resourceSubscriptions"] = std::move(uris);
        }
        JsonObject params;
        params["notifications"] = std::move(wanted);
        const Clock::time_point begun = self->runtime->clock->now();
        Task<JsonObject> listening_once =
            self->send_once("subscriptions/listen", std::move(params), RequestExtras());
        const Outcome<JsonObject> ended = co_await outcome_of(std::move(listening_once));
        if (ended.cancelled()) co_return;
        self->report_missed_changes();
        if (detail::is_lasting_refusal(ended.failure())) {
            self->notices_changes = false;
            co_return;
        }
        // Servers and proxies end long streams without a fault.
        if (self->runtime->clock->now() - begun > max_listen_delay) delay = first_listen_delay;
        co_await self->runtime->clock->sleep_for(delay);
        delay = std::min(2 * delay, max_listen_delay);
    }
}

/// A new session knows nothing of the subscriptions of the one before.
Task<> McpClient::State::subscribe_again(std::shared_ptr<State> self) {
    const std::set<std::string> uris = self->subscriptions;
    for (const std::string& uri : uris) {
        JsonObject params;
        params["uri"] = uri;
        Task<JsonObject> sending =
            self->send_once("resources/subscribe", std::move(params), RequestExtras());
        const Outcome<JsonObject> sent = co_await outcome_of(std::move(sending));
        if (sent.cancelled()) co_return;
    }
    self->report_missed_changes();
}

Task<> McpClient::State::subscribe(std::string uri) {
    co_await ensure_connected();
    if (subscriptions.contains(uri)) co_return;
    if (subscriptions.size() == max_subscriptions) {
        throw Error(ErrorCode::limit, "There are " + std::to_string(max_subscriptions) +
                                          " subscriptions to resources of the MCP server " +
                                          options.server + "; end one of them first.");
    }
    if (!info.is_stateless) {
        JsonObject params;
        params["uri"] = uri;
        (void)co_await send_within(options.request_timeout, "resources/subscribe",
                                   std::move(params), RequestExtras());
        subscriptions.insert(std::move(uri));
        co_return;
    }
    subscriptions.insert(std::move(uri));
    const Executor executor = co_await this_executor;
    start_listening(executor);
}

Task<> McpClient::State::unsubscribe(std::string uri) {
    if (subscriptions.erase(uri) == 0 || !is_agreed || !transport->is_open()) co_return;
    if (!info.is_stateless) {
        JsonObject params;
        params["uri"] = std::move(uri);
        (void)co_await send_within(options.request_timeout, "resources/unsubscribe",
                                   std::move(params), RequestExtras());
        co_return;
    }
    const Executor executor = co_await this_executor;
    start_listening(executor);
}

void McpClient::State::report_update(const std::string& uri) const noexcept {
    if (!options.on_resource_updated || !subscriptions.contains(uri)) return;
    try {
        options.on_resource_updated(uri);
    } catch (const std::exception&) {
        return;  // the host's; a server must not suffer from it
    }
}

void McpClient::State::report_missed_changes() {
    lists_may_have_changed();
    const std::set<std::string> uris = subscriptions;
    for (const std::string& uri : uris) report_update(uri);
}

}  // namespace cubepi
