#include <algorithm>
#include <exception>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/client/client_state.hpp>

// Calls of servers with sessions that wait on their connection while their runs are suspended (D130).

namespace cubepi {

namespace detail {

namespace {

/// Withdraws a question when the coroutine that waits for its answer ends.
class Withdrawal {
public:
    Withdrawal(McpWaitingCallPtr call, std::shared_ptr<McpWaitingQuestion> question)
        : call_(std::move(call)), question_(std::move(question)) {}
    Withdrawal(const Withdrawal&) = delete;
    Withdrawal& operator=(const Withdrawal&) = delete;
    ~Withdrawal() {
        std::erase(call_->questions, question_);
        question_->withdrawn.request_stop();
    }

private:
    McpWaitingCallPtr call_;
    std::shared_ptr<McpWaitingQuestion> question_;
};

}  // namespace

Task<JsonObject> McpWaitingCall::ask(std::shared_ptr<McpWaitingCall> call, std::string method,
                                     JsonObject params, std::vector<std::string> tools) {
    const auto question = std::make_shared<McpWaitingQuestion>();
    question->method = std::move(method);
    question->params = std::move(params);
    question->tools = std::move(tools);
    const Withdrawal withdrawal(call, question);
    call->questions.push_back(question);
    call->changed.pulse();
    co_await question->slot.ended.wait();
    if (question->slot.failure) std::rethrow_exception(question->slot.failure);
    co_return std::move(*question->slot.answer);
}

}  // namespace detail

/// A run that attends to a waiting call. Without leave() the call ends with it.
class McpClient::State::Attendance {
public:
    Attendance(std::shared_ptr<State> state, detail::McpWaitingCallPtr call)
        : state_(std::move(state)), call_(std::move(call)) {
        call_->is_attended = true;
        call_->expiry.request_stop();
    }
    Attendance(const Attendance&) = delete;
    Attendance& operator=(const Attendance&) = delete;
    ~Attendance() {
        call_->is_attended = false;
        call_->on_progress = nullptr;
        if (leaves_) return;
        state_->end_waiting_call(*call_);
    }
    /// The run is suspended; another one may attend to the call for some time.
    void leave() {
        if (!state_->waiting_scope) return;
        leaves_ = true;
        const Runtime& runtime = *state_->runtime;
        call_->expires = deadline_after(runtime.clock->now(), state_->options.suspended_call_time);
        call_->expiry = std::stop_source();
        state_->waiting_scope->spawn(expire(state_, call_));
    }

private:
    std::shared_ptr<State> state_;
    detail::McpWaitingCallPtr call_;
    bool leaves_ = false;
};

/// Ends a call to which no run has returned.
Task<> McpClient::State::expire(std::shared_ptr<State> self, detail::McpWaitingCallPtr call) {
    const std::stop_token ended = call->expiry.get_token();
    Task<> sleeping = self->runtime->clock->sleep_until(call->expires);
    Task<> waiting = cancel_on(ended, std::move(sleeping));
    const Outcome<> slept = co_await outcome_of(std::move(waiting));
    if (ended.stop_requested()) co_return;
    slept.rethrow();
    if (self->has_expired(*call)) self->end_waiting_call(*call);
}

bool McpClient::State::has_expired(const detail::McpWaitingCall& call) const {
    return !call.is_attended && runtime->clock->now() >= call.expires;
}

void McpClient::State::end_waiting_call(detail::McpWaitingCall& call) {
    waiting_calls.erase(call.id);
    call.expiry.request_stop();
    call.stop.request_stop();
}

bool McpClient::State::may_wait() const {
    return options.suspended_call_time > std::chrono::nanoseconds::zero() && !info.is_stateless &&
           waiting_calls.size() < options.limits.max_suspended_calls;
}

Task<JsonObject> McpClient::State::start_waiting_call(std::shared_ptr<State> self, McpCall call,
                                                      JsonObject params) {
    const auto waiting = std::make_shared<detail::McpWaitingCall>();
    waiting->id = self->runtime->ids->next();
    McpCall own(call.tool, JsonObject());
    own.asker = call.asker;
    own.on_progress = [waiting](const JsonObject& progress) {
        if (waiting->on_progress) waiting->on_progress(progress);
    };
    own.on_input = [waiting](std::string method, JsonObject its_params) {
        return detail::McpWaitingCall::ask(waiting, std::move(method), std::move(its_params), {});
    };
    if (call.on_shared_input) {
        own.on_shared_input = [waiting](std::string method, JsonObject its_params,
                                        std::vector<std::string> tools) {
            return detail::McpWaitingCall::ask(waiting, std::move(method), std::move(its_params),
                                               std::move(tools));
        };
    }
    // Without calls also for a client that is used on another event loop now.
    if (!self->waiting_scope || self->waiting_calls.empty()) {
        const Executor executor = co_await this_executor;
        self->waiting_scope =
            std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
    }
    self->waiting_calls.emplace(waiting->id, waiting);
    self->waiting_scope->spawn(run_waiting_call(self, waiting, std::move(own), std::move(params)));
    Task<JsonObject> attending = attend(self, waiting, std::move(call), 0);
    co_return co_await std::move(attending);
}

Task<> McpClient::State::run_waiting_call(std::shared_ptr<State> self,
                                          detail::McpWaitingCallPtr waiting, McpCall call,
                                          JsonObject params) {
    /// The event loop may be destroyed while the call waits.
    struct End {
        detail::McpWaitingCall& call;
        ~End() {
            if (call.ended) return;
            const Error lost(ErrorCode::disconnected, "The connection of the call has ended.");
            call.ended = Outcome<JsonObject>(std::make_exception_ptr(lost));
        }
    };
    const End end{*waiting};
    Task<JsonObject> asking =
        self->ask("tools/call", std::move(params), std::move(call), std::nullopt);
    Task<JsonObject> stoppable = cancel_on(waiting->stop.get_token(), std::move(asking));
    waiting->ended = co_await outcome_of(std::move(stoppable));
    waiting->changed.pulse();
}

Task<JsonObject> McpClient::State::continue_waiting_call(std::shared_ptr<State> self, McpCall call,
                                                         McpRound round) {
    const auto found = self->waiting_calls.find(round.waiting_call);
    const bool is_found = found != self->waiting_calls.end();
    if (!is_found || found->second->is_attended || self->has_expired(*found->second)) {
        throw Error(ErrorCode::disconnected,
                    self->about("waited for the user's answer on a connection that has ended, "
                                "because the process that had made the call has ended, or the "
                                "answer came too late. The answer was not sent, and the call was "
                                "not repeated; whether it took effect is unknown."));
    }
    const detail::McpWaitingCallPtr waiting = found->second;
    Task<JsonObject> attending = attend(self, waiting, std::move(call), round.number);
    co_return co_await std::move(attending);
}

Task<JsonObject> McpClient::State::attend(std::shared_ptr<State> self,
                                          detail::McpWaitingCallPtr waiting, McpCall call,
                                          std::size_t number) {
    Attendance attendance(self, waiting);
    waiting->on_progress = call.on_progress;
    for (;; ++number) {
        while (!waiting->ended && waiting->questions.empty()) co_await waiting->changed.wait();
        // A server may answer the call without waiting for the answers to its questions.
        if (waiting->ended && waiting->ended->cancelled()) {
            throw Error(ErrorCode::disconnected,
                        self->about("is not connected any more; whether the call took effect is "
                                    "unknown."));
        }
        if (waiting->ended) co_return std::move(*waiting->ended).value();
        const std::shared_ptr<detail::McpWaitingQuestion> question = waiting->questions.front();
        McpRound round;
        round.number = number;
        round.waiting_call = waiting->id;
        round.requests["question"] =
            JsonObject{{"method", question->method}, {"params", question->params}};
        Task<JsonObject> answering = answer_waiting_question(question, std::move(round), call);
        Task<JsonObject> withdrawable =
            cancel_on(question->withdrawn.get_token(), std::move(answering));
        Outcome<JsonObject> answered = co_await outcome_of(std::move(withdrawable));
        if (answered.cancelled() && call.progress->is_suspending()) {
            attendance.leave();
            answered.rethrow();
        }
        if (answered.cancelled() && !question->withdrawn.stop_requested()) answered.rethrow();
        if (question->withdrawn.stop_requested()) continue;
        co_await call.progress->send();
        if (answered.ok()) {
            question->slot.answer = std::move(answered).value();
        } else {
            question->slot.failure = answered.failure();
        }
        std::erase(waiting->questions, question);
        question->slot.ended.set();
    }
}

Task<JsonObject> McpClient::State::answer_waiting_question(
    std::shared_ptr<detail::McpWaitingQuestion> question, McpRound round, McpCall call) {
    co_await call.progress->ask(std::move(round));
    if (question->tools.size() > 1) {
        Task<JsonObject> shared =
            call.on_shared_input(question->method, question->params, question->tools);
        co_return co_await std::move(shared);
    }
    Task<JsonObject> answering = call.on_input(question->method, question->params);
    co_return co_await std::move(answering);
}

}  // namespace cubepi
