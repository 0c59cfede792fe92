#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/client/client_state.hpp>
#include <cubepi/mcp/client/refusals.hpp>

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

}  // namespace cubepi
