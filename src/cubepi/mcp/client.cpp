#include <cubepi/mcp/client.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <utility>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/client/call_input.hpp>
#include <cubepi/mcp/client/offer_list.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/mcp/tools/tool_list.hpp>

namespace cubepi {

namespace {

constexpr std::size_t max_instruction_bytes = 4096;
/// Before the stream of notifications is opened again.
constexpr std::chrono::nanoseconds first_listen_delay = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds max_listen_delay = std::chrono::minutes(1);

/// The member of the parameters that `Mcp-Name` repeats; empty for other methods.
std::string_view name_member(std::string_view method) {
    if (method == "tools/call" || method == "prompts/get") return "name";
    return method == "resources/read" ? "uri" : "";
}

std::exception_ptr failure_in(const Outcome<>& outcome) {
    try {
        outcome.rethrow();
    } catch (...) {
        return std::current_exception();
    }
    return nullptr;
}

/// Returns the versions that a server offers in its refusal of another one; null if `failure` is not such a refusal.
const JsonArray* offered_versions(const McpError& error) {
    if (error.rpc_code() != mcp_error::unsupported_version) return nullptr;
    const JsonObject* data = error.data().if_object();
    return data ? detail::array_member(*data, "supported") : nullptr;
}

bool offers_stateless(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const McpError& error) {
        const JsonArray* versions = offered_versions(error);
        return versions && std::ranges::any_of(*versions, [](const Json& version) {
                   return version.is_string() && is_stateless_mcp_version(version.get_string());
               });
    } catch (...) {
        return false;
    }
}

/// Returns true if a server that has refused `server/discover` may be of the era with sessions.
bool may_have_sessions(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const McpError& error) {
        const JsonArray* versions = offered_versions(error);
        return !versions || std::ranges::any_of(*versions, [](const Json& version) {
            return version.is_string() && is_session_mcp_version(version.get_string());
        });
    } catch (const McpRefused& error) {
        return error.status() >= 400 && error.status() < 500 && error.status() != 407;
    } catch (const TimeoutError& error) {
        return (error.timeout)() == "server/discover";
    } catch (...) {
        return false;
    }
}

bool lists_version(const JsonObject& discovered, std::string_view wanted) {
    const JsonArray* versions = detail::array_member(discovered, "supportedVersions");
    return versions && std::ranges::any_of(*versions, [&](const Json& version) {
               return version.is_string() && std::string_view(version.get_string()) == wanted;
           });
}

/// The capabilities of this client. Without a user who can be asked there are none.
JsonObject capabilities(bool answers_input) {
    JsonObject object;
    if (answers_input) object["elicitation"] = JsonObject{{"form", JsonObject()}};
    return object;
}

/// The answer to a question that the user has not seen, or not answered.
JsonObject cancelled_input() {
    JsonObject object;
    object["action"] = "cancel";
    return object;
}

/// The parts of a request besides its parameters.
struct RequestExtras {
    HttpHeaders headers;
    McpProgressHandler on_progress;
    bool answers_input = false;

    RequestExtras() {}
};

}  // namespace

struct McpClient::State final : McpTransportListener, std::enable_shared_from_this<State> {
    State(McpClientOptions settings, std::unique_ptr<McpTransport> its_transport,
          std::shared_ptr<const Runtime> its_runtime)
        : options(std::move(settings)),
          transport(std::move(its_transport)),
          runtime(std::move(its_runtime)) {}

    // Connecting.
    Task<> ensure_connected();
    Task<> agree();
    Task<> discover();
    Task<> initialize();
    void adopt(const JsonObject& result, std::string version, bool is_stateless);
    void start_listening(const Executor& executor);
    static Task<> listen(std::shared_ptr<State> self);

    // Requests.
    Task<JsonObject> send(std::string method, JsonObject params, RequestExtras extras);
    Task<JsonObject> send_within(std::chrono::nanoseconds limit, std::string method,
                                 JsonObject params, RequestExtras extras);
    template <class T>
    Task<T> limited(std::chrono::nanoseconds limit, Task<T> task) const {
        if (limit <= std::chrono::nanoseconds::zero()) return task;
        return with_timeout(*runtime->clock, limit, std::move(task), "request");
    }
    Task<JsonObject> call(McpCall call);
    static Task<JsonObject> call_rounds(std::shared_ptr<State> self, McpCall call,
                                        TaskScope& scope);
    Task<JsonObject> ask_with_input(std::string method, JsonObject params,
                                    McpInputHandler on_input);
    static Task<JsonObject> input_rounds(std::shared_ptr<State> self, std::string method,
                                         JsonObject params, McpInputHandler on_input,
                                         TaskScope& scope);
    static Task<JsonObject> rounds(std::shared_ptr<State> self, std::string method,
                                   JsonObject params, RequestExtras extras,
                                   McpInputHandler on_input, TaskScope& scope);
    Task<JsonObject> answer_inputs(JsonObject requests, McpInputHandler on_input);
    Task<std::shared_ptr<const McpToolList>> list_tools();
    Task<> read_tool_pages();
    /// Reads all pages of a list; `add` returns the cursor of the next one. Returns how long the list is fresh.
    using AddPage = std::function<std::string(const JsonObject& page)>;
    Task<std::chrono::nanoseconds> read_pages(std::string method, AddPage add);
    Task<> read_prompt_pages();
    Task<> read_resource_pages();
    bool offers(std::string_view capability) const {
        return detail::object_member(info.capabilities, capability) != nullptr;
    }
    bool announces(std::string_view capability) const {
        const JsonObject* object = detail::object_member(info.capabilities, capability);
        return object && detail::flag_member(*object, "listChanged");
    }
    void lists_may_have_changed() {
        ++tools_revision;
        ++prompts.revision;
        ++resources.revision;
    }

    // Messages of the server.
    void notified(const RpcMessage& notification) noexcept override;
    Task<RpcMessage> asked(RpcMessage request) override;

    std::string about(std::string_view text) const {
        return "The MCP server " + options.server + " " + std::string(text);
    }

    const McpClientOptions options;
    const std::unique_ptr<McpTransport> transport;
    const std::shared_ptr<const Runtime> runtime;

    bool is_connecting = false;
    AsyncEvent connecting_ended;
    bool is_agreed = false;
    McpServerInfo info;
    std::int64_t last_id = 0;
    std::map<std::int64_t, McpProgressHandler> progress;
    detail::McpInputEntry::List inputs;  ///< of the calls in progress

    std::shared_ptr<const McpToolList> tools;
    std::uint64_t tools_revision = 1;
    std::uint64_t listed_revision = 0;
    Clock::time_point fresh_until = Clock::time_point::max();
    /// A list of the server, as it was when its revision was `listed`.
    template <class List>
    struct Cached {
        std::shared_ptr<const List> list = {};
        std::uint64_t revision = 1;
        std::uint64_t listed = 0;
        Clock::time_point fresh_until = Clock::time_point::max();

        bool is_current(const Clock& clock) const {
            return list && listed == revision && clock.now() < fresh_until;
        }
    };
    Cached<McpPromptList> prompts;
    Cached<McpResourceList> resources;
    std::unique_ptr<BackgroundScope> listening;
};

namespace {

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

/// Removes an entry of a map when the block is left.
struct ProgressEntry {
    std::map<std::int64_t, McpProgressHandler>& map;
    std::int64_t id;

    ProgressEntry(std::map<std::int64_t, McpProgressHandler>& entries, std::int64_t key,
                  McpProgressHandler handler)
        : map(entries), id(key) {
        if (handler) map.emplace(id, std::move(handler));
    }
    ProgressEntry(const ProgressEntry&) = delete;
    ProgressEntry& operator=(const ProgressEntry&) = delete;
    ~ProgressEntry() { map.erase(id); }
};

}  // namespace

// Connecting.

Task<> McpClient::State::ensure_connected() {
    while (is_connecting) co_await connecting_ended.wait();
    if (is_agreed && transport->is_open()) co_return;
    const ConnectingMark mark(is_connecting, connecting_ended);
    is_agreed = false;
    listening.reset();
    Task<> agreeing = with_timeout(*runtime->clock, options.connect_timeout, agree(), "connect");
    const Outcome<> agreed = co_await outcome_of(std::move(agreeing));
    if (!agreed.ok()) transport->abandon();
    agreed.rethrow();
    is_agreed = true;
    lists_may_have_changed();
    transport->succeeded();
    runtime->log.write(LogLevel::info, "mcp.connected",
                       {{"server", options.server}, {"version", info.version}});
    const Executor executor = co_await this_executor;
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
            if (failure && attempt == 0 && offers_stateless(failure)) continue;
            if (failure && (!may_initialize || !may_have_sessions(failure)))
                std::rethrow_exception(failure);
            if (!may_initialize)
                throw Error(ErrorCode::unsupported,
                            about("does not speak " + *options.version + "."));
        }
        failure = failure_in(co_await outcome_of(initialize()));
        if (!failure) co_return;
        if (attempt > 0 || !may_probe || !offers_stateless(failure))
            std::rethrow_exception(failure);
    }
}

/// Leaves `info` empty if the server lists no version without sessions.
Task<> McpClient::State::discover() {
    transport->use_version(mcp_stateless_version);
    info.is_stateless = true;
    Task<JsonObject> asking = send("server/discover", JsonObject(), RequestExtras());
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
    const JsonObject result = co_await send("initialize", std::move(params), RequestExtras());
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

/// The era without sessions has no notifications outside of a request, so one request waits for them.
void McpClient::State::start_listening(const Executor& executor) {
    const bool changes = announces("tools") || announces("prompts") || announces("resources");
    if (!info.is_stateless || !changes) return;
    listening = std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
    listening->spawn(listen(shared_from_this()));
}

/// Opens the stream again when it has ended, with growing delays. A change may have been missed in between.
Task<> McpClient::State::listen(std::shared_ptr<State> self) {
    std::chrono::nanoseconds delay = first_listen_delay;
    while (self->transport->is_open()) {
        JsonObject wanted;
        if (self->announces("tools")) wanted["toolsListChanged"] = true;
        if (self->announces("prompts")) wanted["promptsListChanged"] = true;
        if (self->announces("resources")) wanted["resourcesListChanged"] = true;
        JsonObject params;
        params["notifications"] = std::move(wanted);
        Task<JsonObject> listening_once =
            self->send("subscriptions/listen", std::move(params), RequestExtras());
        const Outcome<JsonObject> ended = co_await outcome_of(std::move(listening_once));
        if (ended.cancelled()) co_return;
        self->lists_may_have_changed();
        co_await self->runtime->clock->sleep_for(delay);
        delay = std::min(2 * delay, max_listen_delay);
    }
}

// Requests.

Task<JsonObject> McpClient::State::send(std::string method, JsonObject params,
                                        RequestExtras extras) {
    const std::int64_t id = ++last_id;
    JsonObject meta;
    if (const JsonObject* given = detail::object_member(params, "_meta")) meta = *given;
    if (extras.on_progress) meta[mcp_meta::progress_token] = id;
    if (info.is_stateless) {
        meta[mcp_meta::version] = mcp_stateless_version;
        meta[mcp_meta::client_info] = to_json(options.implementation);
        meta[mcp_meta::client_capabilities] = capabilities(extras.answers_input);
        extras.headers.set("Mcp-Method", method);
        const std::string_view member = name_member(method);
        if (!member.empty()) {
            extras.headers.set("Mcp-Name",
                               detail::encode_mcp_header(detail::string_member(params, member)));
        }
    }
    if (!meta.empty()) params["_meta"] = std::move(meta);
    const ProgressEntry entry(progress, id, std::move(extras.on_progress));
    McpOutgoing outgoing;
    outgoing.id = id;
    outgoing.method = method;
    outgoing.params = std::move(params);
    outgoing.headers = std::move(extras.headers);
    RpcMessage reply = co_await transport->request(std::move(outgoing));
    if (reply.kind == RpcMessage::Kind::error) {
        throw McpError(
            reply.code,
            about("answered " + method + " with the error " + std::to_string(reply.code) + ": " +
                  detail::shown_mcp_text(reply.text, 500)),
            std::move(reply.data));
    }
    co_return std::move(reply.result);
}

Task<JsonObject> McpClient::State::send_within(std::chrono::nanoseconds limit, std::string method,
                                               JsonObject params, RequestExtras extras) {
    co_await ensure_connected();
    // A request that has met the end of a session was not executed, so it is sent once more.
    const bool may_repeat = !info.is_stateless;
    JsonObject params_again;
    RequestExtras extras_again;
    if (may_repeat) {
        params_again = params;
        extras_again = extras;
    }
    Task<JsonObject> first = limited(limit, send(method, std::move(params), std::move(extras)));
    Outcome<JsonObject> sent = co_await outcome_of(std::move(first));
    try {
        sent.rethrow();
        co_return std::move(sent).value();
    } catch (const McpSessionExpired&) {
        if (!may_repeat) throw;
    }
    is_agreed = false;
    co_await ensure_connected();
    Task<JsonObject> second =
        limited(limit, send(method, std::move(params_again), std::move(extras_again)));
    co_return co_await std::move(second);
}

Task<JsonObject> McpClient::State::call(McpCall call) {
    const std::chrono::nanoseconds limit = call.timeout;
    // The scope has the handlers of the server's requests for input.
    const auto body = [self = shared_from_this(), &call](TaskScope& scope) {
        return call_rounds(self, std::move(call), scope);
    };
    Task<JsonObject> rounds = limited(limit, with_task_scope(body));
    co_return co_await std::move(rounds);
}

/// `self` is shared because this runs in a scope of its own, which may be destroyed last if the event loop is.
Task<JsonObject> McpClient::State::call_rounds(std::shared_ptr<State> self, McpCall call,
                                               TaskScope& scope) {
    const std::size_t max_rounds = self->options.limits.max_rounds;
    const auto input = std::make_shared<detail::McpCallInput>(call.on_input, scope, max_rounds);
    const detail::McpInputEntry entry(self->inputs, input);
    RequestExtras extras;
    extras.on_progress = call.on_progress;
    extras.answers_input = static_cast<bool>(call.on_input);
    if (self->tools) {
        const std::vector<McpTool>& tools = self->tools->tools;
        const auto known = std::ranges::find(tools, call.tool, &McpTool::name);
        if (known != tools.end())
            detail::add_parameter_headers(extras.headers, known->headers, call.arguments);
    }
    JsonObject params;
    params["name"] = call.tool;
    params["arguments"] = std::move(call.arguments);
    Task<JsonObject> asking =
        rounds(self, "tools/call", std::move(params), std::move(extras), call.on_input, scope);
    co_return co_await std::move(asking);
}

/// Sends a request that its server may answer with questions.
Task<JsonObject> McpClient::State::ask_with_input(std::string method, JsonObject params,
                                                  McpInputHandler on_input) {
    const auto body = [self = shared_from_this(), &method, &params, &on_input](TaskScope& scope) {
        return input_rounds(self, std::move(method), std::move(params), std::move(on_input), scope);
    };
    Task<JsonObject> asking = limited(options.request_timeout, with_task_scope(body));
    co_return co_await std::move(asking);
}

Task<JsonObject> McpClient::State::input_rounds(std::shared_ptr<State> self, std::string method,
                                                JsonObject params, McpInputHandler on_input,
                                                TaskScope& scope) {
    const auto input =
        std::make_shared<detail::McpCallInput>(on_input, scope, self->options.limits.max_rounds);
    const detail::McpInputEntry entry(self->inputs, input);
    RequestExtras extras;
    extras.answers_input = static_cast<bool>(on_input);
    Task<JsonObject> asking = rounds(self, std::move(method), std::move(params), std::move(extras),
                                     std::move(on_input), scope);
    co_return co_await std::move(asking);
}

Task<JsonObject> McpClient::State::rounds(std::shared_ptr<State> self, std::string method,
                                          JsonObject params, RequestExtras extras,
                                          McpInputHandler on_input, TaskScope& scope) {
    const std::size_t max_rounds = self->options.limits.max_rounds;
    for (std::size_t round = 0; round <= max_rounds; ++round) {
        JsonObject result =
            co_await self->send_within(std::chrono::nanoseconds::zero(), method, params, extras);
        const std::string_view type = detail::string_member(result, "resultType");
        if (type.empty() || type == "complete") {
            // A server may answer the call without waiting for the answers to its questions.
            scope.cancel();
            co_return result;
        }
        if (type != "input_required") {
            throw Error(ErrorCode::protocol,
                        self->about("answered " + method + " with a result of the unknown type '" +
                                    detail::shown_mcp_text(type, 64) + "'."));
        }
        params.erase("inputResponses");
        params.erase("requestState");
        if (const JsonObject* requests = detail::object_member(result, "inputRequests")) {
            JsonObject responses = co_await self->answer_inputs(*requests, on_input);
            params["inputResponses"] = std::move(responses);
        }
        if (const Json* state = result.if_contains("requestState")) params["requestState"] = *state;
    }
    throw Error(ErrorCode::limit,
                self->about("asks for input again and again; the call was given up after " +
                            std::to_string(max_rounds) + " rounds."));
}

Task<JsonObject> McpClient::State::answer_inputs(JsonObject requests, McpInputHandler on_input) {
    JsonObject responses;
    for (const auto& entry : requests) {
        const JsonObject* asked_request = entry.value().if_object();
        if (!asked_request)
            throw Error(ErrorCode::protocol, about("sent an invalid request for input."));
        std::string method = detail::text_member(*asked_request, "method");
        JsonObject params;
        if (const JsonObject* found = detail::object_member(*asked_request, "params"))
            params = *found;
        if (!on_input) {
            throw Error(ErrorCode::no_channel,
                        about("asks for input (" + detail::shown_mcp_text(method, 64) +
                              "), and no user can be asked."));
        }
        JsonObject response = co_await on_input(std::move(method), std::move(params));
        responses[entry.key()] = std::move(response);
    }
    co_return responses;
}

Task<std::shared_ptr<const McpToolList>> McpClient::State::list_tools() {
    co_await ensure_connected();
    const bool is_current = tools && listed_revision == tools_revision;
    if (is_current && runtime->clock->now() < fresh_until) co_return tools;
    // One limit for all pages: a server could send pages for ever.
    Task<> reading = limited(options.request_timeout, read_tool_pages());
    co_await std::move(reading);
    co_return tools;
}

Task<std::chrono::nanoseconds> McpClient::State::read_pages(std::string method, AddPage add) {
    std::string cursor;
    std::chrono::nanoseconds fresh = std::chrono::nanoseconds::max();
    do {
        JsonObject params;
        if (!cursor.empty()) params["cursor"] = cursor;
        const JsonObject page = co_await send_within(std::chrono::nanoseconds::zero(), method,
                                                     std::move(params), RequestExtras());
        cursor = add(page);
        // Without a time the list is valid until the server reports a change.
        if (const auto ttl = detail::integer_member(page, "ttlMs")) {
            const std::int64_t bounded = std::clamp<std::int64_t>(*ttl, 0, 86'400'000);
            fresh = std::min<std::chrono::nanoseconds>(fresh, std::chrono::milliseconds(bounded));
        }
    } while (!cursor.empty());
    co_return fresh;
}

Task<> McpClient::State::read_tool_pages() {
    const std::uint64_t revision = tools_revision;
    detail::McpToolListReader reader(options.limits);
    AddPage add = [&reader](const JsonObject& page) { return reader.add_page(page); };
    const std::chrono::nanoseconds fresh = co_await read_pages("tools/list", std::move(add));
    tools = std::make_shared<const McpToolList>(reader.take());
    listed_revision = revision;
    fresh_until = deadline_after(runtime->clock->now(), fresh);
    if (!tools->problems.empty()) {
        runtime->log.write(LogLevel::warning, "mcp.tools_left_out",
                           {{"server", options.server}, {"problems", tools->problems.size()}});
    }
}

Task<> McpClient::State::read_prompt_pages() {
    const std::uint64_t revision = prompts.revision;
    detail::McpOfferReader reader(options.limits);
    std::chrono::nanoseconds fresh = std::chrono::nanoseconds::max();
    if (offers("prompts")) {
        AddPage add = [&reader](const JsonObject& page) { return reader.add_prompts(page); };
        fresh = co_await read_pages("prompts/list", std::move(add));
    }
    prompts.list = std::make_shared<const McpPromptList>(std::move(reader.prompts));
    prompts.listed = revision;
    prompts.fresh_until = deadline_after(runtime->clock->now(), fresh);
}

Task<> McpClient::State::read_resource_pages() {
    const std::uint64_t revision = resources.revision;
    detail::McpOfferReader reader(options.limits);
    std::chrono::nanoseconds fresh = std::chrono::nanoseconds::max();
    if (offers("resources")) {
        AddPage add = [&reader](const JsonObject& page) { return reader.add_resources(page); };
        fresh = co_await read_pages("resources/list", std::move(add));
        AddPage add_more = [&reader](const JsonObject& page) { return reader.add_templates(page); };
        // Servers that have resources but no templates may not know this list.
        Task<std::chrono::nanoseconds> reading =
            read_pages("resources/templates/list", std::move(add_more));
        Outcome<std::chrono::nanoseconds> read = co_await outcome_of(std::move(reading));
        try {
            fresh = std::min(fresh, std::move(read).value());
        } catch (const McpError& error) {
            if (error.rpc_code() != mcp_error::method_not_found) throw;
        }
    }
    resources.list = std::make_shared<const McpResourceList>(std::move(reader.resources));
    resources.listed = revision;
    resources.fresh_until = deadline_after(runtime->clock->now(), fresh);
}

// Messages of the server.

void McpClient::State::notified(const RpcMessage& notification) noexcept {
    if (notification.method == "notifications/tools/list_changed") {
        ++tools_revision;
        return;
    }
    if (notification.method == "notifications/prompts/list_changed") ++prompts.revision;
    if (notification.method == "notifications/resources/list_changed") ++resources.revision;
    if (notification.method != "notifications/progress") return;
    const auto token = detail::integer_member(notification.params, mcp_meta::progress_token);
    const auto entry = token ? progress.find(*token) : progress.end();
    if (entry == progress.end()) return;
    try {
        entry->second(notification.params);
    } catch (const std::exception&) {
        // Progress is only information.
        return;
    }
}

Task<RpcMessage> McpClient::State::asked(RpcMessage request) {
    if (request.method == "ping") co_return rpc_result(std::move(request.id), JsonObject());
    if (request.method != "elicitation/create") {
        co_return rpc_error(
            std::move(request.id), mcp_error::method_not_found,
            "This client does not support " + detail::shown_mcp_text(request.method, 64) + ".");
    }
    // The protocol does not say to which call the question belongs. Of several, only the last one may be meant.
    std::shared_ptr<detail::McpCallInput> input;
    if (!inputs.empty()) input = inputs.back();
    if (!input || !input->can_ask()) co_return rpc_result(std::move(request.id), cancelled_input());
    const std::shared_ptr<detail::McpInputAnswer> slot =
        input->ask(request.method, std::move(request.params));
    if (!slot) {
        co_return rpc_error(std::move(request.id), mcp_error::internal,
                            "The call has asked for input too many times.");
    }
    co_await slot->ended.wait();
    if (slot->answer) co_return rpc_result(std::move(request.id), std::move(*slot->answer));
    if (slot->failure && !is_cancellation(slot->failure)) std::rethrow_exception(slot->failure);
    co_return rpc_result(std::move(request.id), cancelled_input());
}

// The interface.

McpClient::McpClient(McpClientOptions options, std::unique_ptr<McpTransport> transport,
                     std::shared_ptr<const Runtime> runtime)
    : state_(
          std::make_shared<State>(std::move(options), std::move(transport), std::move(runtime))) {}

McpClient::~McpClient() {
    state_->listening.reset();
    state_->transport->abandon();
}

const std::string& McpClient::server() const noexcept { return state_->options.server; }
const McpLimits& McpClient::limits() const noexcept { return state_->options.limits; }
std::uint64_t McpClient::tools_revision() const noexcept { return state_->tools_revision; }

Task<McpServerInfo> McpClient::connect() {
    const std::shared_ptr<State> state = state_;
    co_await state->ensure_connected();
    co_return state->info;
}

Task<std::shared_ptr<const McpToolList>> McpClient::tools() {
    const std::shared_ptr<State> state = state_;
    co_return co_await state->list_tools();
}

Task<JsonObject> McpClient::call(McpCall call) {
    const std::shared_ptr<State> state = state_;
    co_return co_await state->call(std::move(call));
}

Task<std::shared_ptr<const McpPromptList>> McpClient::prompts() {
    const std::shared_ptr<State> state = state_;
    co_await state->ensure_connected();
    if (!state->prompts.is_current(*state->runtime->clock)) {
        Task<> reading = state->limited(state->options.request_timeout, state->read_prompt_pages());
        co_await std::move(reading);
    }
    co_return state->prompts.list;
}

Task<std::shared_ptr<const McpResourceList>> McpClient::resources() {
    const std::shared_ptr<State> state = state_;
    co_await state->ensure_connected();
    if (!state->resources.is_current(*state->runtime->clock)) {
        Task<> reading =
            state->limited(state->options.request_timeout, state->read_resource_pages());
        co_await std::move(reading);
    }
    co_return state->resources.list;
}

Task<McpPromptText> McpClient::prompt(std::string name,
                                      std::map<std::string, std::string> arguments,
                                      McpInputHandler on_input) {
    const std::shared_ptr<State> state = state_;
    JsonObject values;
    for (const auto& [key, value] : arguments) values[key] = value;
    JsonObject params;
    params["name"] = std::move(name);
    params["arguments"] = std::move(values);
    const JsonObject result =
        co_await state->ask_with_input("prompts/get", std::move(params), std::move(on_input));
    co_return detail::mcp_prompt_text_from_json(result);
}

Task<std::vector<McpResourceContent>> McpClient::read_resource(std::string uri,
                                                               McpInputHandler on_input) {
    const std::shared_ptr<State> state = state_;
    JsonObject params;
    params["uri"] = std::move(uri);
    const JsonObject result =
        co_await state->ask_with_input("resources/read", std::move(params), std::move(on_input));
    co_return detail::mcp_contents_from_json(result);
}

Task<std::vector<std::string>> McpClient::complete(McpCompletionTarget target, std::string argument,
                                                   std::string value) {
    constexpr std::size_t max_values = 100;
    const std::shared_ptr<State> state = state_;
    co_await state->ensure_connected();
    std::vector<std::string> values;
    if (!state->offers("completions")) co_return values;
    JsonObject reference;
    if (target.prompt.empty()) {
        reference["type"] = "ref/resource";
        reference["uri"] = std::move(target.uri_template);
    } else {
        reference["type"] = "ref/prompt";
        reference["name"] = std::move(target.prompt);
    }
    JsonObject typed;
    typed["name"] = std::move(argument);
    typed["value"] = std::move(value);
    JsonObject params;
    params["ref"] = std::move(reference);
    params["argument"] = std::move(typed);
    const JsonObject result = co_await state->send_within(
        state->options.request_timeout, "completion/complete", std::move(params), RequestExtras());
    const JsonObject* completion = detail::object_member(result, "completion");
    const JsonArray* list = completion ? detail::array_member(*completion, "values") : nullptr;
    if (!list) co_return values;
    for (const Json& one : *list) {
        if (values.size() == max_values) break;
        if (one.is_string()) values.push_back(detail::shown_mcp_text(one.get_string()));
    }
    co_return values;
}

Task<JsonObject> McpClient::request(std::string method, JsonObject params) {
    const std::shared_ptr<State> state = state_;
    const std::chrono::nanoseconds limit = state->options.request_timeout;
    co_return co_await state->send_within(limit, std::move(method), std::move(params),
                                          RequestExtras());
}

Task<> McpClient::close() {
    const std::shared_ptr<State> state = state_;
    state->is_agreed = false;
    state->listening.reset();
    co_await state->transport->close();
}

}  // namespace cubepi
