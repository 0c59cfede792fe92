#include <algorithm>
#include <utility>

#include <cubepi/mcp/client/client_state.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/mcp/sampling.hpp>

// Requests that a server may answer with questions, or with a task.

namespace cubepi {

Task<JsonObject> McpClient::State::call(std::shared_ptr<State> self, McpCall call) {
    const std::chrono::nanoseconds limit = call.timeout;
    std::optional<McpRound> round;
    if (call.progress) round = co_await call.progress->begin();
    if (round && !round->waiting_call.empty()) {
        Task<JsonObject> continuing =
            continue_waiting_call(self, std::move(call), std::move(*round));
        Task<JsonObject> within = self->limited(limit, std::move(continuing));
        co_return co_await std::move(within);
    }
    JsonObject params;
    params["name"] = call.tool;
    params["arguments"] = std::move(call.arguments);
    if (!call.traceparent.empty())
        params["_meta"] = JsonObject{{mcp_meta::traceparent, std::move(call.traceparent)}};
    if (call.progress && !round) co_await self->ensure_connected();
    Task<JsonObject> asking;
    if (call.progress && !round && self->may_wait()) {
        asking = start_waiting_call(self, std::move(call), std::move(params));
    } else {
        asking = self->ask("tools/call", std::move(params), std::move(call), std::move(round));
    }
    Task<JsonObject> within = self->limited(limit, std::move(asking));
    co_return co_await std::move(within);
}

Task<JsonObject> McpClient::State::ask_with_input(std::string method, JsonObject params,
                                                  McpInputHandler on_input) {
    McpCall call;
    call.tool = method;
    call.on_input = std::move(on_input);
    Task<JsonObject> asking =
        ask(std::move(method), std::move(params), std::move(call), std::nullopt);
    Task<JsonObject> within = limited(options.request_timeout, std::move(asking));
    co_return co_await std::move(within);
}

Task<JsonObject> McpClient::State::ask(std::string method, JsonObject params, McpCall call,
                                       std::optional<McpRound> round) {
    // The scope has the handlers of the server's requests for input.
    const auto body = [self = shared_from_this(), &method, &params, &call,
                       &round](TaskScope& scope) {
        return rounds(self, std::move(method), std::move(params), std::move(call), std::move(round),
                      scope);
    };
    co_return co_await with_task_scope(body);
}

/// `self` is shared because this runs in a scope of its own, which may be destroyed last if the event loop is.
Task<JsonObject> McpClient::State::rounds(std::shared_ptr<State> self, std::string method,
                                          JsonObject params, McpCall call,
                                          std::optional<McpRound> round, TaskScope& scope) {
    const std::size_t max_rounds = self->options.limits.max_rounds;
    RequestExtras extras;
    extras.on_progress = call.on_progress;
    if (method == "tools/call" && self->tools.list) {
        const std::vector<McpTool>& tools = self->tools.list->tools;
        const auto known = std::ranges::find(tools, call.tool, &McpTool::name);
        const JsonObject* arguments = detail::object_member(params, "arguments");
        if (known != tools.end() && arguments)
            detail::add_parameter_headers(extras.headers, known->headers, *arguments);
    }
    extras.input = std::make_shared<detail::McpCallInput>(std::move(call), scope, max_rounds);
    const detail::McpCallInputEnd end(*extras.input);
    const std::shared_ptr<McpCallProgress> progress = extras.input->progress();
    if (round && !round->task.empty()) {
        Task<JsonObject> following = follow_task(self, std::move(*round), JsonObject(), extras);
        JsonObject ended = co_await std::move(following);
        scope.cancel();
        co_return ended;
    }
    for (std::size_t number = round ? round->number : 0; number <= max_rounds; ++number) {
        if (!round) {
            JsonObject result = co_await self->send_within(std::chrono::nanoseconds::zero(), method,
                                                           params, extras);
            const std::string_view type = detail::string_member(result, "resultType");
            if (type.empty() || type == "complete") {
                // A server may answer the call without waiting for the answers to its questions.
                scope.cancel();
                co_return result;
            }
            if (type == "task" && method == "tools/call") {
                McpRound of_task;
                of_task.task = detail::text_member(result, "taskId");
                Task<JsonObject> following =
                    follow_task(self, std::move(of_task), std::move(result), extras);
                JsonObject ended = co_await std::move(following);
                scope.cancel();
                co_return ended;
            }
            if (type != "input_required") {
                throw Error(
                    ErrorCode::protocol,
                    self->about("answered " + method + " with a result of the unknown type '" +
                                detail::shown_mcp_text(type, 64) + "'."));
            }
            round.emplace();
            round->number = number;
            if (const JsonObject* asked = detail::object_member(result, "inputRequests"))
                round->requests = *asked;
            if (const Json* state = result.if_contains("requestState")) round->state = *state;
        }
        if (progress) co_await progress->ask(*round);
        params.erase("inputResponses");
        params.erase("requestState");
        if (!round->requests.empty()) {
            Task<JsonObject> answering =
                self->answer_inputs(*round, extras.input->handler(), progress);
            JsonObject responses = co_await std::move(answering);
            params["inputResponses"] = std::move(responses);
        }
        if (round->state) params["requestState"] = *round->state;
        if (progress) co_await progress->send();
        round.reset();
    }
    throw Error(ErrorCode::limit,
                self->about("asks for input again and again; the call was given up after " +
                            std::to_string(max_rounds) + " rounds."));
}

Task<JsonObject> McpClient::State::answer_inputs(McpRound round, McpInputHandler on_input,
                                                 std::shared_ptr<McpCallProgress> progress) {
    const JsonObject& requests = round.requests;
    if (requests.size() > options.limits.max_rounds)
        throw Error(ErrorCode::limit, about("asks for too much input at once."));
    JsonObject responses;
    // An answer of a model cannot be repeated without cost: the user is asked everything else before.
    std::vector<std::pair<std::string, const JsonObject*>> ordered;
    std::vector<std::pair<std::string, const JsonObject*>> samplings;
    for (const auto& entry : requests) {
        const JsonObject* asked_request = entry.value().if_object();
        if (!asked_request)
            throw Error(ErrorCode::protocol, about("sent an invalid request for input."));
        const bool is_sampling =
            detail::string_member(*asked_request, "method") == "sampling/createMessage";
        (is_sampling ? samplings : ordered).emplace_back(entry.key(), asked_request);
    }
    if (options.sampling && samplings.size() > options.sampling->max_per_call)
        throw McpInputRefused("The call asks for messages too many times.");
    ordered.insert(ordered.end(), samplings.begin(), samplings.end());
    for (const auto& [key, asked_request] : ordered) {
        if (const Json* known = round.responses.if_contains(key)) {
            responses[key] = *known;
            continue;
        }
        std::string method = detail::text_member(*asked_request, "method");
        JsonObject params;
        if (const JsonObject* found = detail::object_member(*asked_request, "params"))
            params = *found;
        if (method == "roots/list" && options.roots) {
            responses[key] = listed_roots();
            continue;
        }
        if (!on_input) {
            throw Error(ErrorCode::no_channel,
                        about("asks for input (" + detail::shown_mcp_text(method, 64) +
                              "), and no user can be asked."));
        }
        const bool is_sampling = method == "sampling/createMessage";
        JsonObject response = co_await on_input(std::move(method), std::move(params));
        if (progress && is_sampling) co_await progress->answered(key, response);
        responses[key] = std::move(response);
    }
    co_return responses;
}

}  // namespace cubepi
