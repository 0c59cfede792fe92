#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/client/client_state.hpp>

// Calls that a server answers with a task (the extension "io.modelcontextprotocol/tasks" of the revision without sessions).

namespace cubepi {

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

/// Cancels a task at its server, unless it has ended, or the event loop is destroyed.
class McpClient::State::TaskEnd {
public:
    TaskEnd(std::shared_ptr<State> state, std::string id)
        : state_(std::move(state)), id_(std::move(id)) {}
    TaskEnd(const TaskEnd&) = delete;
    TaskEnd& operator=(const TaskEnd&) = delete;
    ~TaskEnd() {
        const bool is_unwound = std::uncaught_exceptions() > exceptions_;
        if (has_ended || !is_unwound || !state_->background || state_->is_ended) return;
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

Task<JsonObject> McpClient::State::follow_task(std::shared_ptr<State> self, JsonObject task,
                                               RequestExtras extras) {
    const std::string id = detail::text_member(task, "taskId");
    if (id.empty() || id.size() > max_task_id || detail::shown_mcp_text(id, max_task_id) != id)
        throw Error(ErrorCode::protocol, self->about("has made a task with an invalid id."));
    TaskEnd end(self, id);
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
            Task<> answering =
                answer_task(self, id, task, extras.input->living_handler(), &answered);
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

/// Answers the requests for input that were not answered yet. `answered` outlives the task.
Task<> McpClient::State::answer_task(std::shared_ptr<State> self, std::string id, JsonObject task,
                                     McpInputHandler on_input, std::set<std::string>* answered) {
    JsonObject open;
    if (const JsonObject* requests = detail::object_member(task, "inputRequests")) {
        for (const auto& entry : *requests) {
            if (!answered->contains(std::string(entry.key()))) open[entry.key()] = entry.value();
        }
    }
    if (open.empty()) co_return;
    if (answered->size() + open.size() > self->options.limits.max_rounds) {
        throw Error(ErrorCode::limit,
                    self->about("asks for input again and again; the call was given up after " +
                                std::to_string(self->options.limits.max_rounds) + " answers."));
    }
    for (const auto& entry : open) answered->insert(std::string(entry.key()));
    JsonObject responses = co_await self->answer_inputs(std::move(open), std::move(on_input));
    JsonObject params;
    params["taskId"] = std::move(id);
    params["inputResponses"] = std::move(responses);
    Task<JsonObject> sending = self->send_within(self->options.request_timeout, "tasks/update",
                                                 std::move(params), RequestExtras());
    (void)co_await std::move(sending);
}

}  // namespace cubepi
