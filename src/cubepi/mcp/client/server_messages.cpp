#include <algorithm>
#include <exception>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/mcp/client/client_state.hpp>

// Notifications and requests of a server.

namespace cubepi {

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

}  // namespace cubepi
