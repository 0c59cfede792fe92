#include <cubepi/agent/run/run_questions.hpp>

#include <boost/asio/post.hpp>

#include <algorithm>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

RunQuestions::RunQuestions(RunCore& core, HitlChannel& channel, Executor executor, bool continued)
    : core_(core), channel_(channel), executor_(std::move(executor)), continued_(continued) {}

const std::string& RunQuestions::run_id() const noexcept { return core_.info().run_id; }
const std::string& RunQuestions::thread_id() const noexcept { return core_.info().thread_id; }

bool RunQuestions::is_suspending() const noexcept { return suspending_.load() && !core_.stopped(); }

bool RunQuestions::can_ask_again(const HitlOptions& options) const {
    if (!body_may_repeat) return true;
    const std::string_view call =
        options.asking_call.empty() ? std::string_view(asking_call_) : options.asking_call;
    return body_may_repeat(call);
}

/// Delivers an event. The exception of a listener fails the run when its tools have ended; it is not the fault of the
/// one who asks.
template <class E>
Task<> RunQuestions::emit(E event) {
    const Outcome<> delivered = co_await outcome_of(core_.emit(std::move(event)));
    if (!delivered.ok() && !listener_failure_) listener_failure_ = delivered.failure();
}

void RunQuestions::note_change() {
    changed_.pulse();
    if (on_change) on_change();
}

Task<> RunQuestions::begin_request(HitlRequest request, std::string asking_call) {
    if (asking_call.empty()) asking_call = asking_call_;
    if (before_wait) co_await before_wait();
    const std::string question_id = request.question_id;
    waiting_.push_back(Waiting{request, std::move(asking_call), false});
    waiting_count_.store(waiting_.size());
    core_.invalidate_timestamp();
    if (waiting_.size() == 1 && on_waiting) on_waiting(true);
    if (on_change) on_change();
    HitlRequestEvent event;
    event.request = std::move(request);
    co_await emit(std::move(event));
    if (listener_failure_) {
        throw Error(ErrorCode::hitl, "the user was not asked: a listener of the request threw");
    }
    // A listener may suspend the run at this event; the request can only be detached when its wait has begun.
    for (Waiting& one : waiting_) one.announced |= one.request.question_id == question_id;
    note_change();
}

Task<> RunQuestions::end_request(HitlRequest request, std::string asking_call, HitlEnd end,
                                 Json answer, AnswerOrigin origin) {
    if (asking_call.empty()) asking_call = asking_call_;
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) {
        return one.request.question_id == request.question_id;
    });
    const bool waited = found != waiting_.end();
    if (waited) {
        asking_call = std::move(found->call);
        waiting_.erase(found);
        waiting_count_.store(waiting_.size());
        if (waiting_.empty() && on_waiting) on_waiting(false);
    }
    core_.invalidate_timestamp();
    if (end == HitlEnd::answered && !asking_call.empty())
        answered_.push_back(Answered{asking_call, request.question_id, std::move(origin)});
    if (end == HitlEnd::answered || end == HitlEnd::cancelled) {
        HitlAnswerEvent event;
        event.question_id = std::move(request.question_id);
        event.request_id = std::move(request.request_id);
        event.answer = std::move(answer);
        event.cancelled = end == HitlEnd::cancelled;
        co_await emit(std::move(event));
    } else {
        Notice notice;
        notice.code = "hitl_request_ended";
        notice.text = "A question to the user ended without an answer.";
        notice.details["question_id"] = request.question_id;
        notice.details["outcome"] = to_string(end);
        if (end == HitlEnd::detached) {
            notice.text = "A question to the user stays open; the run is suspended.";
            detached_.push_back(std::move(request));
        }
        log_notice(core_.runtime().log, notice, core_.info().run_id);
        NoticeEvent event;
        event.notice = std::move(notice);
        co_await emit(std::move(event));
    }
    note_change();
}

bool RunQuestions::detach() {
    if (waiting_count_.load() == 0) return false;
    suspending_.store(true);
    boost::asio::post(executor_, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->note_change();
    });
    return true;
}

Task<> RunQuestions::withdraw_detached() {
    std::vector<std::string> ids;
    for (const HitlRequest& request : detached_) ids.push_back(request.question_id);
    if (!ids.empty()) core_.parts().log->settle_with_next(std::move(ids));
    co_await core_.close_open_calls();
}

bool RunQuestions::asks(std::string_view tool_call_id) const noexcept {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const Waiting& one) { return one.call == tool_call_id; });
}

bool RunQuestions::waits(std::string_view tool_call_id) const noexcept {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& one) {
        return one.announced && one.call == tool_call_id;
    });
}

std::vector<HitlRequest> RunQuestions::waiting() const {
    std::vector<HitlRequest> requests;
    for (const Waiting& one : waiting_) requests.push_back(one.request);
    return requests;
}

std::vector<std::string> RunQuestions::answered_for(std::string_view tool_call_id) const {
    std::vector<std::string> ids;
    for (const Answered& one : answered_) {
        if (one.call == tool_call_id) ids.push_back(one.question_id);
    }
    return ids;
}

AnswerOrigin RunQuestions::origin_for(std::string_view tool_call_id) const {
    AnswerOrigin origin;
    for (const Answered& one : answered_) {
        if (one.call == tool_call_id) origin = one.origin;
    }
    return origin;
}

void RunQuestions::settle(std::string_view tool_call_id) {
    std::erase_if(answered_, [&](const Answered& one) { return one.call == tool_call_id; });
}

}  // namespace cubepi::detail
