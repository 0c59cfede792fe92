#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

inline constexpr std::string_view hook_error_type = "HookError";

/// Rethrows the exception of the user's hook `name` as a ProviderError that names the hook and keeps the code, with
/// the original exception nested. Its info has the type "HookError". Cancellations are rethrown unchanged.
[[noreturn]] inline void throw_hook_error(std::string_view name,
                                          const std::exception_ptr& failure) {
    if (is_cancellation(failure)) std::rethrow_exception(failure);
    ErrorInfo info;
    info.type = hook_error_type;
    const std::string text = "hook " + std::string(name) + " failed: " + exception_text(failure);
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        info.code = error.code();
        std::throw_with_nested(ProviderError(std::move(info), text));
    } catch (...) {
        std::throw_with_nested(ProviderError(std::move(info), text));
    }
}

/// True for a failure of the user's hook, not of the endpoint: the call is not retried, and no other model is called.
inline bool is_hook_error(const ErrorInfo& info) noexcept { return info.type == hook_error_type; }

/// Calls `on_payload` or `on_response`. Exceptions are rethrown by throw_hook_error().
template <class Hook, class... Args>
std::invoke_result_t<Hook&, Args...> call_user_hook(std::string_view name, Hook hook,
                                                    Args... args) {
    std::exception_ptr failure;
    try {
        auto pending = hook(std::move(args)...);
        co_return co_await std::move(pending);
    } catch (...) {
        failure = std::current_exception();
    }
    throw_hook_error(name, failure);
}

}  // namespace cubepi::detail
