#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/client/client_state.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/transport.hpp>

namespace cubepi {

namespace {

using detail::challenge_in;

/// The member of the parameters that `Mcp-Name` repeats; empty for other methods.
std::string_view name_member(std::string_view method) {
    if (method == "tools/call" || method == "prompts/get") return "name";
    if (method.starts_with("tasks/")) return "taskId";
    return method == "resources/read" ? "uri" : "";
}

/// Registers a request while its response is awaited.
class InProgress {
public:
    InProgress(std::map<std::int64_t, detail::McpInProgress>& entries,
               std::shared_ptr<detail::McpAbandonedCalls> abandoned, std::int64_t id,
               detail::McpInProgress entry)
        : entries_(entries), abandoned_(std::move(abandoned)), id_(id), input_(entry.input) {
        if (entry.on_progress || entry.input) entries_.emplace(id, std::move(entry));
    }
    InProgress(const InProgress&) = delete;
    InProgress& operator=(const InProgress&) = delete;
    ~InProgress() {
        entries_.erase(id_);
        if (input_) abandoned_->add(input_->asker());
    }
    /// The server has answered, so that it asks nothing more for this request.
    void answered() { input_.reset(); }

private:
    std::map<std::int64_t, detail::McpInProgress>& entries_;
    const std::shared_ptr<detail::McpAbandonedCalls> abandoned_;  ///< of the connection
    const std::int64_t id_;
    detail::McpCallInputPtr input_;
};

}  // namespace

/// Sends the request again with another token if it was refused, once for each kind of refusal.
Task<JsonObject> McpClient::State::send(std::string method, JsonObject params,
                                        RequestExtras extras) {
    if (!transport->can_authorize())
        co_return co_await send_once(std::move(method), std::move(params), std::move(extras));
    std::set<int> refusals;
    for (;;) {
        Task<JsonObject> sending = send_once(method, params, extras);
        Outcome<JsonObject> sent = co_await outcome_of(std::move(sending));
        const std::optional<McpChallenge> challenge = challenge_in(sent.failure());
        if (!challenge || !refusals.insert(challenge->status).second)
            co_return std::move(sent).value();
        co_await transport->authorize(*challenge);
    }
}

Task<JsonObject> McpClient::State::send_once(std::string method, JsonObject params,
                                             RequestExtras extras) {
    const std::int64_t id = ++last_id;
    JsonObject meta;
    if (const JsonObject* given = detail::object_member(params, "_meta")) meta = *given;
    if (extras.on_progress) meta[mcp_meta::progress_token] = id;
    if (info.is_stateless) {
        meta[mcp_meta::version] = mcp_stateless_version;
        meta[mcp_meta::client_info] = to_json(options.implementation);
        meta[mcp_meta::client_capabilities] = capabilities(extras.input && extras.input->handler());
        extras.headers.set("Mcp-Method", method);
        const std::string_view member = name_member(method);
        if (!member.empty()) {
            extras.headers.set("Mcp-Name",
                               detail::encode_mcp_header(detail::string_member(params, member)));
        }
    }
    if (!meta.empty()) params["_meta"] = std::move(meta);
    InProgress entry(in_progress, abandoned, id, {std::move(extras.on_progress), extras.input});
    McpOutgoing outgoing;
    outgoing.id = id;
    outgoing.method = method;
    outgoing.params = std::move(params);
    outgoing.headers = std::move(extras.headers);
    RpcMessage reply = co_await transport->request(std::move(outgoing));
    entry.answered();
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
    const std::shared_ptr<detail::McpAbandonedCalls> connection = abandoned;
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
    // Another request may have begun a new session meanwhile, which this one uses.
    if (abandoned == connection) is_agreed = false;
    co_await ensure_connected();
    Task<JsonObject> second =
        limited(limit, send(method, std::move(params_again), std::move(extras_again)));
    co_return co_await std::move(second);
}

}  // namespace cubepi

// Conclusions from the refusal of a request for the next one.

namespace cubepi::detail {

namespace {

/// Returns the versions that a server offers in its refusal of another one; null if `failure` is not such a refusal.
const JsonArray* offered_versions(const McpError& error) {
    if (error.rpc_code() != mcp_error::unsupported_version) return nullptr;
    const JsonObject* data = error.data().if_object();
    return data ? array_member(*data, "supported") : nullptr;
}

}  // namespace

std::optional<McpChallenge> challenge_in(const std::exception_ptr& failure) {
    if (!failure) return std::nullopt;
    try {
        std::rethrow_exception(failure);
    } catch (const McpUnauthorized& error) {
        return error.challenge();
    } catch (...) {
        return std::nullopt;
    }
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

bool is_lasting_refusal(const std::exception_ptr& failure) {
    if (!failure) return false;
    try {
        std::rethrow_exception(failure);
    } catch (const McpError&) {
        return true;
    } catch (const McpRefused& error) {
        return error.status() >= 400 && error.status() < 500 && error.status() != 408 &&
               error.status() != 429;
    } catch (...) {
        return false;
    }
}

}  // namespace cubepi::detail
