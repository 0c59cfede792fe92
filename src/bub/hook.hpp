#pragma once

#include <type_traits>
#include <utility>

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

using cubepi::Task;

/// Result type of hooks that return no value.
struct Done {};

namespace detail {
CUBEPI_DETAIL_SLOT(plugin_hook,
                   "a plugin's hook must be callable with a reference to its call (bub/hooks.hpp) "
                   "and return the hook's result, what converts to it, nothing, or a Task of one "
                   "of these")
}  // namespace detail

/// A callable of a plugin: a lambda, function or object that takes `Call&` and returns R, something that converts to R,
/// nothing (the same as R()), or a Task of one of these. The call outlives it, and the task it returns. The callable
/// lives as long as its framework, so coroutine lambdas may have captures. Any other callable does not compile.
template <class Signature>
class Hook;

template <class R, class Call>
class Hook<R(Call)> {
public:
    Hook() = default;
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, Hook>)
    Hook(F callable) : call_(std::move(callable)) {}

    explicit operator bool() const noexcept { return static_cast<bool>(call_); }
    /// Calls the callable when the task is awaited; the task throws what the callable throws.
    Task<R> operator()(Call& call) const {
        return cubepi::detail::await_call<R, Function, Call&>(call_, call);
    }

private:
    static constexpr cubepi::detail::AsyncRules rules{.void_is_default = true};
    using Function = cubepi::detail::AsyncFunction<R(Call&), detail::plugin_hook_slot, rules>;

    Function call_;
};

}  // namespace bub
