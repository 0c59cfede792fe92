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
