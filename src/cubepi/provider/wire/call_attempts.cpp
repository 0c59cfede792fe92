#include <cubepi/provider/wire/call_attempts.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/provider/wire/user_hook.hpp>

namespace cubepi::detail {

namespace {

RetryDecision decide_by_exception(const RetryPolicy& policy, int retries_done,
                                  const std::exception_ptr& exception, double random) {
    try {
        std::rethrow_exception(exception);
    } catch (const NetworkError& error) {
        return decide_retry(policy, retries_done, error, random);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::disconnected)
            return decide_retry(policy, retries_done, error, random);
        // A response without content, such as a proxy returns when its upstream fails.
        const NetworkError broken(ErrorCode::disconnected, {}, true, error.what());
        return decide_retry(policy, retries_done, broken, random);
    } catch (...) {
        return RetryDecision();
    }
}

}  // namespace

CallFailure::CallFailure(std::exception_ptr thrown) : exception(std::move(thrown)) {
    try {
        std::rethrow_exception(exception);
    } catch (const StreamFailure& error) {
        endpoint = error.failure();
    } catch (...) {
        // Any other failure has no error of the endpoint.
    }
}

bool CallFailure::limit_reached() const {
    if (!exception) return false;
    try {
        std::rethrow_exception(exception);
    } catch (const LimitReachedError&) {
        return true;
    } catch (...) {
        return false;
    }
}

HttpTimeouts CallAttempts::next_timeouts() {
    HttpTimeouts timeouts = protocol_->timeouts().http;
    if (timeouts.total.count() <= 0) return timeouts;
    const auto now = runtime_->clock->now();
    if (!deadline_) deadline_ = deadline_after(now, timeouts.total);
    timeouts.total = std::max(*deadline_ - now, std::chrono::nanoseconds(1));
    return timeouts;
}

RetryDecision CallAttempts::decide(const CallFailure& failure, const ErrorInfo& info) const {
    if (is_hook_error(info)) return RetryDecision();
    RetryDecision decision = decide_by_policy(failure, info);
    if (decision.retry && deadline_ && *deadline_ - runtime_->clock->now() <= decision.delay)
        decision.retry = false;
    return decision;
}

RetryDecision CallAttempts::decide_by_policy(const CallFailure& failure,
                                             const ErrorInfo& info) const {
    const double random = random_fraction(*runtime_->ids);
    const RetryPolicy& policy = protocol_->retry();
    if (!failure.endpoint)
        return decide_by_exception(policy, retries_done_, failure.exception, random);
    const bool in_stream = failure.exception != nullptr;
    if (in_stream && !is_transient(info.code)) return RetryDecision();
    const int default_status = info.code == ErrorCode::rate_limited ? 429 : 503;
    return decide_retry(policy, retries_done_, failure.endpoint->status.value_or(default_status),
                        failure.hints, random);
}

Notice CallAttempts::start_retry(const RetryDecision& decision, const ErrorInfo& info) {
    ++retries_done_;
    Notice notice;
    notice.code = "retry";
    notice.text = protocol_->without_secrets(decision.reason) + "; trying again in " +
                  rounded_seconds_text(decision.delay) + " (" + std::to_string(retries_done_) +
                  " of " + std::to_string(protocol_->retry().max_retries) + ")";
    notice.details["attempt"] = retries_done_;
    notice.details["max_retries"] = protocol_->retry().max_retries;
    notice.details["delay_ms"] = decision.delay.count();
    notice.details["error_type"] = info.type;
    if (info.status_code) notice.details["status_code"] = *info.status_code;
    return notice;
}

std::string CallAttempts::describe(const CallFailure& failure) const {
    std::string message;
    if (failure.endpoint) {
        if (failure.endpoint->status)
            message = "HTTP " + std::to_string(*failure.endpoint->status) + ": ";
        message += failure.endpoint->message;
    } else {
        message = exception_text(failure.exception);
    }
    if (retries_done_ > 0) {
        message += " (after " + std::to_string(retries_done_) +
                   (retries_done_ == 1 ? " retry)" : " retries)");
    }
    return message;
}

}  // namespace cubepi::detail
