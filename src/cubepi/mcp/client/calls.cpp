#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
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

// Calls that a server answers with a task (the extension "io.modelcontextprotocol/tasks" of the revision without sessions).

namespace {

constexpr std::size_t max_task_id = 256;
constexpr std::chrono::milliseconds default_interval = std::chrono::seconds(1);
constexpr std::chrono::milliseconds min_interval = std::chrono::milliseconds(100);
constexpr std::chrono::milliseconds max_interval = std::chrono::minutes(1);
/// Requests about a task in a row that get no answer.
constexpr int max_failures = 5;
constexpr std::chrono::nanoseconds goodbye_limit = std::chrono::seconds(2);

std::chrono::milliseconds interval_of(const JsonObject& task) {
    const auto wanted = detail::integer_member(task, "pollIntervalMs");
    if (!wanted) return default_interval;
    const auto bounded =
        std::clamp<std::int64_t>(*wanted, min_interval.count(), max_interval.count());
    return std::chrono::milliseconds(bounded);
}

/// Returns true if the server may answer the same request later: it has not answered this one.
bool may_answer_later(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const McpError&) {
        return false;
    } catch (const Error& error) {
        return error.code() == ErrorCode::disconnected || error.code() == ErrorCode::unavailable ||
               error.code() == ErrorCode::timeout;
    } catch (...) {
        return false;
    }
}

}  // namespace

/// Cancels a task at its server, unless it has ended, a later run continues its call, or the event loop is destroyed.
class McpClient::State::TaskEnd {
public:
    TaskEnd(std::shared_ptr<State> state, std::string id, std::shared_ptr<McpCallProgress> progress)
        : state_(std::move(state)), id_(std::move(id)), progress_(std::move(progress)) {}
    TaskEnd(const TaskEnd&) = delete;
    TaskEnd& operator=(const TaskEnd&) = delete;
    ~TaskEnd() {
        const bool is_unwound = std::uncaught_exceptions() > exceptions_;
        if (has_ended || !is_unwound || !state_->background || state_->is_ended) return;
        if (progress_ && progress_->is_suspending()) return;
        try {
            state_->background->spawn(cancel_task(state_, std::move(id_)));
        } catch (const std::exception&) {
            return;  // the server ends it when its time has passed
        }
    }

    bool has_ended = false;

private:
    std::shared_ptr<State> state_;
    std::string id_;
    std::shared_ptr<McpCallProgress> progress_;
    int exceptions_ = std::uncaught_exceptions();
};

/// Does not connect for that: a server that was lost may have lost the task, too.
Task<> McpClient::State::cancel_task(std::shared_ptr<State> self, std::string id) {
    if (!self->is_agreed || !self->transport->is_open()) co_return;
    JsonObject params;
    params["taskId"] = std::move(id);
    Task<JsonObject> sending = self->send_once("tasks/cancel", std::move(params), RequestExtras());
    Task<JsonObject> limited =
        with_timeout(*self->runtime->clock, goodbye_limit, std::move(sending), "tasks/cancel");
    const Outcome<JsonObject> sent = co_await outcome_of(std::move(limited));
    if (sent.cancelled()) sent.rethrow();
}

/// Asks for the state of a task. A connection that is lost is opened again: the task does not depend on it.
Task<JsonObject> McpClient::State::read_task(std::shared_ptr<State> self, std::string id,
                                             std::chrono::nanoseconds pause) {
    for (int failures = 0;;) {
        co_await self->runtime->clock->sleep_for(pause);
        JsonObject params;
        params["taskId"] = id;
        Task<JsonObject> asking = self->send_within(self->options.request_timeout, "tasks/get",
                                                    std::move(params), RequestExtras());
        Outcome<JsonObject> answered = co_await outcome_of(std::move(asking));
        if (answered.ok()) co_return std::move(answered).value();
        ++failures;
        if (answered.cancelled() || failures == max_failures ||
            !may_answer_later(answered.failure()))
            answered.rethrow();
        pause = std::min<std::chrono::nanoseconds>(2 * pause, max_interval);
    }
}

Task<JsonObject> McpClient::State::follow_task(std::shared_ptr<State> self, McpRound round,
                                               JsonObject task, RequestExtras extras) {
    const std::string id = round.task;
    if (id.empty() || id.size() > max_task_id || detail::shown_mcp_text(id, max_task_id) != id)
        throw Error(ErrorCode::protocol, self->about("has made a task with an invalid id."));
    const std::shared_ptr<McpCallProgress> progress = extras.input->progress();
    TaskEnd end(self, id, progress);
    if (task.empty()) {
        // Another process has made the call.
        task = co_await read_task(self, id, std::chrono::nanoseconds::zero());
    } else if (progress) {
        co_await progress->ask(round);
    }
    std::set<std::string> answered;
    std::string shown;
    std::int64_t steps = 0;
    for (;;) {
        const std::string status = detail::text_member(task, "status");
        end.has_ended = status == "completed" || status == "failed" || status == "cancelled";
        if (status == "completed") {
            const JsonObject* result = detail::object_member(task, "result");
            if (!result)
                throw Error(ErrorCode::protocol, self->about("has ended a task without a result."));
            co_return *result;
        }
        if (status == "failed") self->throw_failed_task(task);
        if (status == "cancelled")
            throw Error(ErrorCode::unavailable, self->about("has cancelled the task of the call."));
        if (status == "input_required") {
            Task<> answering = answer_task(self, &round, task, extras, &answered);
            co_await std::move(answering);
        } else if (status != "working") {
            throw Error(ErrorCode::protocol,
                        self->about("has a task in the unknown state '" +
                                    detail::shown_mcp_text(status, 64) + "'."));
        }
        const std::string message =
            detail::shown_mcp_text(detail::string_member(task, "statusMessage"), 500);
        if (extras.on_progress && !message.empty() && message != shown) {
            JsonObject progress;
            progress["progress"] = ++steps;
            progress["message"] = message;
            extras.on_progress(progress);
            shown = message;
        }
        task = co_await read_task(self, id, interval_of(task));
    }
}

void McpClient::State::throw_failed_task(const JsonObject& task) const {
    int code = mcp_error::internal;
    std::string text;
    if (const JsonObject* error = detail::object_member(task, "error")) {
        const auto stated = detail::integer_member(*error, "code");
        if (stated && *stated >= INT32_MIN && *stated <= INT32_MAX)
            code = static_cast<int>(*stated);
        text = detail::shown_mcp_text(detail::string_member(*error, "message"), 500);
    }
    throw McpError(code, about("could not do the task of the call: " + text));
}

/// Answers the requests for input that were not answered yet. `round` and `answered` outlive the task.
Task<> McpClient::State::answer_task(std::shared_ptr<State> self, McpRound* round, JsonObject task,
                                     RequestExtras extras, std::set<std::string>* answered) {
    const std::shared_ptr<McpCallProgress> progress = extras.input->progress();
    JsonObject open;
    if (const JsonObject* requests = detail::object_member(task, "inputRequests")) {
        for (const auto& entry : *requests) {
            if (!answered->contains(std::string(entry.key()))) open[entry.key()] = entry.value();
        }
    }
    if (open.empty()) co_return;
    const std::size_t asked = std::max(answered->size(), round->number);
    if (asked + open.size() > self->options.limits.max_rounds) {
        throw Error(ErrorCode::limit,
                    self->about("asks for input again and again; the call was given up after " +
                                std::to_string(self->options.limits.max_rounds) + " answers."));
    }
    for (const auto& entry : open) answered->insert(std::string(entry.key()));
    round->requests = std::move(open);
    if (progress) co_await progress->ask(*round);
    Task<JsonObject> answering = self->answer_inputs(*round, extras.input->handler(), progress);
    JsonObject responses = co_await std::move(answering);
    // A process that is killed from here on sends the same answers again, if the server still asks for them.
    ++round->number;
    round->requests.clear();
    round->responses = responses;
    if (progress) co_await progress->ask(*round);
    JsonObject params;
    params["taskId"] = round->task;
    params["inputResponses"] = std::move(responses);
    Task<JsonObject> sending = self->send_within(self->options.request_timeout, "tasks/update",
                                                 std::move(params), RequestExtras());
    (void)co_await std::move(sending);
}

}  // namespace cubepi

// The input that calls ask for.

namespace cubepi::detail {

namespace {

/// Ends the wait for an answer when the handler's coroutine is destroyed, even if it never ran.
class Ending {
public:
    explicit Ending(std::shared_ptr<McpInputAnswer> slot) : slot_(std::move(slot)) {}
    Ending(Ending&&) noexcept = default;
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    Ending& operator=(Ending&&) = delete;
    ~Ending() {
        if (slot_) slot_->ended.set();
    }

    McpInputAnswer& slot() const { return *slot_; }

private:
    std::shared_ptr<McpInputAnswer> slot_;
};

/// Owns the handlers while one of them runs, and turns an exception of its first step into one of the task.
Task<JsonObject> handled(McpCall call, std::string method, JsonObject params,
                         std::vector<std::string> tools) {
    if (tools.size() > 1) {
        Task<JsonObject> shared =
            call.on_shared_input(std::move(method), std::move(params), std::move(tools));
        co_return co_await std::move(shared);
    }
    Task<JsonObject> answering = call.on_input(std::move(method), std::move(params));
    co_return co_await std::move(answering);
}

/// Does not throw: a failed question must not cancel its call.
Task<> answer(Task<JsonObject> answering, Ending ending) {
    Outcome<JsonObject> answered = co_await outcome_of(std::move(answering));
    if (answered.ok()) {
        ending.slot().answer = std::move(answered).value();
    } else {
        ending.slot().failure = answered.failure();
    }
}

}  // namespace

std::shared_ptr<McpInputAnswer> McpCallInput::ask(std::string method, JsonObject params,
                                                  std::vector<std::string> tools) {
    if (left_ == 0) return nullptr;
    --left_;
    auto slot = std::make_shared<McpInputAnswer>();
    Task<JsonObject> answering =
        handled(call_, std::move(method), std::move(params), std::move(tools));
    scope_.spawn(answer(std::move(answering), Ending(slot)));
    return slot;
}

}  // namespace cubepi::detail
