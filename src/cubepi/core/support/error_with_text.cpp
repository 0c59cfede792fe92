#include <cubepi/core/support/error_with_text.hpp>

#include <stdexcept>
#include <typeinfo>
#include <utility>

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
