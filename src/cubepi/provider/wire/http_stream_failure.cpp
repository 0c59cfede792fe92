#include <cubepi/provider/wire/http_stream.hpp>

#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/provider/wire/user_hook.hpp>

// What a call does when an attempt has failed: send it again, send it differently, or give up.

namespace cubepi::detail {

namespace {

/// In [0, 1), from the runtime's source of chance, so that tests can tell what it will be.
double chance(IdSource& ids) {
    std::uint64_t hash = 14695981039346656037u;
    for (const char c : ids.next()) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return static_cast<double>(hash >> 11) * 0x1.0p-53;
}

bool reached_limit(const std::exception_ptr& failure) {
    if (!failure) return false;
    try {
        std::rethrow_exception(failure);
    } catch (const LimitReachedError&) {
        return true;
    } catch (...) {
        return false;
    }
}

}  // namespace

std::string seconds_text(std::chrono::nanoseconds time) {
    std::string text =
        std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100);
    text.insert(text.size() - 1, text.size() == 1 ? "0." : ".");
    return text + " s";
}

ErrorInfo HttpStreamSource::classify(const Failure& failure) const {
    if (!failure.endpoint) return classify_exception(failure.exception);
    return classify_failure(*failure.endpoint, request_.model.context_window,
                            estimate_prompt_tokens(request_.messages));
}

void HttpStreamSource::settle_failure() {
    Failure failure = std::move(*failure_);
    failure_.reset();
    if (failure.endpoint) {
        // The message is the whole text of an error inside a stream; of a refused request it has been cleaned before.
        for (std::string* said :
             {&failure.endpoint->message, &failure.endpoint->code, &failure.endpoint->type})
            *said = protocol_->without_secrets(std::move(*said));
    }
    close();
    if (decoder_ && decoder_->complete()) {
        finish_answer();
        return;
    }
    if (build_differently(failure)) return;
    ErrorInfo info = classify(failure);
    const RetryDecision decision = decide(failure, info);
    if (decision.retry && has_time_for(decision.delay)) {
        retry(decision, info);
    } else {
        give_up(failure, std::move(info));
    }
}

bool HttpStreamSource::build_differently(const Failure& failure) {
    if (!failure.endpoint || assembler_.has_content()) return false;
    std::string difference = protocol_->build_differently(*failure.endpoint);
    if (difference.empty()) return false;
    Notice notice;
    notice.code = "request_changed";
    notice.text = protocol_->without_secrets(std::move(difference));
    if (!failure.endpoint->code.empty()) notice.details["error_code"] = failure.endpoint->code;
    queue_.push(MessageAssembler::notice(std::move(notice)));
    decoder_.reset();
    prepared_ = false;
    phase_ = Phase::idle;
    return true;
}

RetryDecision HttpStreamSource::decide(const Failure& failure, const ErrorInfo& info) const {
    if (assembler_.has_content() || is_hook_error(info)) return RetryDecision();
    const double random = chance(*runtime_->ids);
    const RetryPolicy& policy = protocol_->retry();
    if (failure.endpoint) {
        const bool in_stream = failure.exception != nullptr;
        if (in_stream && !is_transient(info.code)) return RetryDecision();
        const int fallback = info.code == ErrorCode::rate_limited ? 429 : 503;
        return decide_retry(policy, retries_done_, failure.endpoint->status.value_or(fallback),
                            failure.hints, random);
    }
    try {
        std::rethrow_exception(failure.exception);
    } catch (const NetworkError& error) {
        return decide_retry(policy, retries_done_, error, random);
    } catch (const Error& error) {
        // An answer that ended without any content, as a proxy leaves it when its upstream broke.
        const NetworkError broken(ErrorCode::disconnected, {}, true, error.what());
        if (error.code() == ErrorCode::disconnected)
            return decide_retry(policy, retries_done_, broken, random);
        return decide_retry(policy, retries_done_, error, random);
    } catch (...) {
        return RetryDecision();
    }
}

bool HttpStreamSource::has_time_for(std::chrono::nanoseconds delay) const {
    return !deadline_ || *deadline_ - runtime_->clock->now() > delay;
}

void HttpStreamSource::retry(const RetryDecision& decision, const ErrorInfo& info) {
    ++retries_done_;
    delay_ = decision.delay;
    decoder_.reset();
    phase_ = Phase::waiting;
    Notice notice;
    notice.code = "retry";
    notice.text = protocol_->without_secrets(decision.reason) + "; trying again in " +
                  seconds_text(decision.delay) + " (" + std::to_string(retries_done_) + " of " +
                  std::to_string(protocol_->retry().max_retries) + ")";
    notice.details["attempt"] = retries_done_;
    notice.details["max_retries"] = protocol_->retry().max_retries;
    notice.details["delay_ms"] = decision.delay.count();
    notice.details["error_type"] = info.type;
    if (info.status_code) notice.details["status_code"] = *info.status_code;
    queue_.push(MessageAssembler::notice(std::move(notice)));
}

void HttpStreamSource::give_up(const Failure& failure, ErrorInfo info) {
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
    const bool limited = reached_limit(failure.exception);
    std::string text = limited || is_hook_error(info)
                           ? std::move(message)
                           : failure_text(request_.model, protocol_->base_url(), info, message);
    info.message = protocol_->without_secrets(std::move(info.message));
    phase_ = Phase::over;
    // A failed answer cannot be referred to later; CubePi's have no response id either.
    assembler_.head().response_id = SharedString();
    text = protocol_->without_secrets(std::move(text));
    queue_.push(limited ? assembler_.limited(text) : assembler_.error(text, std::move(info)));
}

}  // namespace cubepi::detail
