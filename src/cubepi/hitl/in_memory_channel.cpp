#include <cubepi/hitl/in_memory_channel.hpp>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include <cubepi/core/async/thread_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/hitl/channel/question_id.hpp>

namespace cubepi {

namespace {

/// A request that waits. The result is written under the lock of the channel, before the signal is set.
struct Waiting {
    HitlRequest request = {};
    std::optional<Json> answer = {};
    std::exception_ptr failure = {};
    detail::ThreadSignal ended = {};

    void end(std::exception_ptr why) {
        failure = std::move(why);
        ended.set();
    }
};

[[noreturn]] void throw_stale(const std::string& question_id) {
    throw Error(ErrorCode::stale_answer,
                "there is no pending request '" + question_id +
                    "': it was answered, cancelled or timed out before, or never made");
}

}  // namespace

struct InMemoryChannel::State {
    explicit State(InMemoryChannelOptions given) : options(std::move(given)) {
        if (!options.clock) options.clock = Runtime::standard()->clock;
    }

    std::shared_ptr<Waiting> add(HitlPayload payload, HitlOptions settings);
    /// Returns a pending request; throws Error(stale_answer). The lock is held.
    std::shared_ptr<Waiting> find(const std::string& question_id) const;
    /// Removes the request if it is pending. The lock is held.
    void remove(const std::shared_ptr<Waiting>& one) { std::erase(pending, one); }
    /// Removes the request, and returns the answer or throws the failure of a request that has ended; if it is neither, its timeout has expired.
    Json result_of(const std::shared_ptr<Waiting>& one, std::chrono::nanoseconds limit);

    InMemoryChannelOptions options;
    mutable std::mutex mutex;
    detail::QuestionIds ids;
    std::vector<std::shared_ptr<Waiting>> pending;  // oldest first
    HitlRequestFeed feed;
};

std::shared_ptr<Waiting> InMemoryChannel::State::add(HitlPayload payload, HitlOptions settings) {
    auto one = std::make_shared<Waiting>();
    HitlRequest& request = one->request;
    const std::chrono::nanoseconds limit = settings.timeout.value_or(options.default_timeout);
    if (limit.count() > 0) request.timeout_seconds = std::chrono::duration<double>(limit).count();
    request.created_at =
        std::chrono::duration<double>(options.clock->wall().time_since_epoch()).count();
    request.thread_id = options.thread_id;
    request.extra = std::move(settings.extra);
    const std::lock_guard lock(mutex);
    request.question_id = ids.next(payload, settings);
    request.payload = std::move(payload);
    for (const auto& other : pending) {
        if (other->request.question_id == request.question_id)
            throw HitlError(ErrorCode::hitl, "the request '" + request.question_id +
                                                 "' is already pending; wait for its answer");
    }
    pending.push_back(one);
    feed.publish(request);
    return one;
}

std::shared_ptr<Waiting> InMemoryChannel::State::find(const std::string& question_id) const {
    const auto found = std::find_if(
        pending.begin(), pending.end(),
        [&question_id](const auto& one) { return one->request.question_id == question_id; });
    if (found == pending.end()) throw_stale(question_id);
    return *found;
}

Json InMemoryChannel::State::result_of(const std::shared_ptr<Waiting>& one,
                                       std::chrono::nanoseconds limit) {
    const std::lock_guard lock(mutex);
    remove(one);  // from here on an answer is stale
    // An answer that arrived together with the timeout counts.
    if (one->answer) return std::move(*one->answer);
    if (one->failure) std::rethrow_exception(one->failure);
    throw HitlTimedOutError(limit);
}

/// Removes a request when the coroutine that waits for it ends, however it ends.
struct InMemoryChannel::Withdrawal {
    ~Withdrawal() {
        const std::lock_guard lock(state.mutex);
        state.remove(one);
    }
    State& state;
    std::shared_ptr<Waiting> one;
};

InMemoryChannel::InMemoryChannel(InMemoryChannelOptions options)
    : state_(std::make_shared<State>(std::move(options))) {}

InMemoryChannel::~InMemoryChannel() {
    const std::lock_guard lock(state_->mutex);
    for (const auto& one : std::exchange(state_->pending, {}))
        one->end(std::make_exception_ptr(HitlCancelledError("the channel was closed")));
    state_->feed.close();
}

Task<Json> InMemoryChannel::request(HitlPayload payload, HitlOptions options) {
    return ask_and_wait(state_, std::move(payload), std::move(options));
}

Task<Json> InMemoryChannel::ask_and_wait(std::shared_ptr<State> state, HitlPayload payload,
                                         HitlOptions options) {
    const std::chrono::nanoseconds limit = options.timeout.value_or(state->options.default_timeout);
    const std::shared_ptr<Waiting> one = state->add(std::move(payload), std::move(options));
    Task<> wait = one->ended.wait();
    if (limit.count() > 0) wait = with_timeout(*state->options.clock, limit, std::move(wait));
    const Withdrawal withdrawal{*state, one};
    const Outcome<> waited = co_await outcome_of(std::move(wait));
    if (waited.cancelled()) waited.rethrow();
    co_return state->result_of(one, limit);
}

std::vector<HitlRequest> InMemoryChannel::pending() const {
    const std::lock_guard lock(state_->mutex);
    std::vector<HitlRequest> requests;
    for (const auto& one : state_->pending) requests.push_back(one->request);
    return requests;
}

HitlRequestStream InMemoryChannel::subscribe() { return state_->feed.subscribe(); }

Task<> InMemoryChannel::answer(std::string question_id, Json value) {
    const std::shared_ptr<State> state = state_;
    const std::lock_guard lock(state->mutex);
    const std::shared_ptr<Waiting> one = state->find(question_id);
    one->answer = check_answer(one->request, std::move(value));
    state->remove(one);
    one->ended.set();
    co_return;
}

Task<> InMemoryChannel::cancel(std::string question_id, std::string reason) {
    const std::shared_ptr<State> state = state_;
    const std::lock_guard lock(state->mutex);
    const std::shared_ptr<Waiting> one = state->find(question_id);
    state->remove(one);
    one->end(std::make_exception_ptr(HitlCancelledError(std::move(reason))));
    co_return;
}

}  // namespace cubepi
