#pragma once

#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// Rethrows the exception of the user's hook `name` as a ProviderError that names the hook and keeps the code, with
/// the original exception nested. Its info has the type "HookError". Cancellations are rethrown unchanged.
[[noreturn]] void throw_hook_error(std::string_view name, const std::exception_ptr& failure);

/// True for a failure of the user's hook, not of the endpoint: the call is not retried, and no other model is called.
bool is_hook_error(const ErrorInfo& info) noexcept;

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
