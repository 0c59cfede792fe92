#include <cubepi/core/error.hpp>

#include <stdexcept>
#include <typeinfo>
#include <utility>

#include <cubepi/core/support/error_with_text.hpp>

namespace cubepi {

std::string exception_text(const std::exception_ptr& exception) {
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "an exception that is not a std::exception";
    }
}

std::string_view to_string(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::unknown: return "unknown";
        case ErrorCode::invalid_argument: return "invalid_argument";
        case ErrorCode::invalid_state: return "invalid_state";
        case ErrorCode::busy: return "busy";
        case ErrorCode::no_messages: return "no_messages";
        case ErrorCode::cannot_continue: return "cannot_continue";
        case ErrorCode::unsupported: return "unsupported";
        case ErrorCode::cancelled: return "cancelled";
        case ErrorCode::timeout: return "timeout";
        case ErrorCode::limit: return "limit";
        case ErrorCode::parse: return "parse";
        case ErrorCode::validation: return "validation";
        case ErrorCode::dns: return "dns";
        case ErrorCode::connect: return "connect";
        case ErrorCode::tls: return "tls";
        case ErrorCode::proxy: return "proxy";
        case ErrorCode::disconnected: return "disconnected";
        case ErrorCode::protocol: return "protocol";
        case ErrorCode::too_large: return "too_large";
        case ErrorCode::auth: return "auth";
        case ErrorCode::rate_limited: return "rate_limited";
        case ErrorCode::unavailable: return "unavailable";
        case ErrorCode::bad_request: return "bad_request";
        case ErrorCode::context_length: return "context_length";
        case ErrorCode::model_not_found: return "model_not_found";
        case ErrorCode::content_filtered: return "content_filtered";
        case ErrorCode::provider: return "provider";
        case ErrorCode::storage: return "storage";
        case ErrorCode::storage_locked: return "storage_locked";
        case ErrorCode::storage_corrupt: return "storage_corrupt";
        case ErrorCode::storage_full: return "storage_full";
        case ErrorCode::schema_mismatch: return "schema_mismatch";
        case ErrorCode::thread_not_found: return "thread_not_found";
        case ErrorCode::thread_exists: return "thread_exists";
        case ErrorCode::run_not_completed: return "run_not_completed";
        case ErrorCode::run_not_claimed: return "run_not_claimed";
        case ErrorCode::run_already_claimed: return "run_already_claimed";
        case ErrorCode::run_already_completed: return "run_already_completed";
        case ErrorCode::stale_append: return "stale_append";
        case ErrorCode::not_found: return "not_found";
        case ErrorCode::permission_denied: return "permission_denied";
        case ErrorCode::io: return "io";
        case ErrorCode::hitl: return "hitl";
        case ErrorCode::stale_answer: return "stale_answer";
        case ErrorCode::no_pending_request: return "no_pending_request";
        case ErrorCode::bad_answer: return "bad_answer";
        case ErrorCode::no_channel: return "no_channel";
        case ErrorCode::pending_requests: return "pending_requests";
    }
    return "unknown";
}

void throw_provider_error(ErrorInfo info, const std::string& message) {
    switch (info.code) {
        case ErrorCode::context_length: throw ContextLengthExceeded(std::move(info), message);
        case ErrorCode::rate_limited: throw RateLimited(std::move(info), message);
        case ErrorCode::auth: throw ProviderAuthFailed(std::move(info), message);
        case ErrorCode::unavailable: throw ProviderUnavailable(std::move(info), message);
        case ErrorCode::bad_request: throw ProviderBadRequest(std::move(info), message);
        case ErrorCode::model_not_found: throw ModelNotFound(std::move(info), message);
        case ErrorCode::content_filtered: throw ContentFiltered(std::move(info), message);
        default: throw ProviderError(std::move(info), message);
    }
}

}  // namespace cubepi

namespace cubepi::detail {

namespace {

template <class E>
bool copy_as(const Error& error, const std::string& text, std::shared_ptr<const Error>& made) {
    if (typeid(error) != typeid(E)) return false;
    auto copy = std::make_shared<E>(static_cast<const E&>(error));
    static_cast<std::runtime_error&>(*copy) = std::runtime_error(text);
    made = std::move(copy);
    return true;
}

/// Returns null if the type of `error` is not in the list.
template <class... E>
std::shared_ptr<const Error> copy_as_one_of(const Error& error, const std::string& text) {
    std::shared_ptr<const Error> made;
    (void)(copy_as<E>(error, text, made) || ...);
    return made;
}

std::shared_ptr<const Error> copy_with_text(const Error& error, const std::string& text) {
    return copy_as_one_of<Error, TimeoutError, ProviderError, ContextLengthExceeded, RateLimited,
                          ProviderAuthFailed, ProviderUnavailable, ProviderBadRequest,
                          ModelNotFound, ContentFiltered, CheckpointerError, ThreadNotFoundError,
                          ThreadAlreadyExistsError, RunNotCompletedError, RunNotClaimedError,
                          RunAlreadyClaimedError, RunAlreadyCompletedError, StaleAppendError,
                          CheckpointerLockTimeoutError, CheckpointCorruptionError>(error, text);
}

}  // namespace

std::shared_ptr<const Error> error_with_text(const std::exception_ptr& failure,
                                             const std::string& text) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        std::shared_ptr<const Error> copy = copy_with_text(error, text);
        if (copy) return copy;
        // The exception object lives as long as an exception_ptr to it.
        const auto owner = std::make_shared<const std::exception_ptr>(std::current_exception());
        return std::shared_ptr<const Error>(owner, &error);
    } catch (...) {
        return std::make_shared<const Error>(ErrorCode::unknown, text);
    }
}

}  // namespace cubepi::detail
