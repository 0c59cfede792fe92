#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <cubepi/core/detail/callable_slot.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

namespace detail {

template <class T>
struct HookReturn {
    using type = T;
    static constexpr bool is_task = false;
};
template <class T>
struct HookReturn<Task<T>> {
    using type = T;
    static constexpr bool is_task = true;
};

template <class R, class F, class... A>
concept HookResult =
    std::is_invocable_v<F&, A...> &&
    std::is_convertible_v<typename HookReturn<std::invoke_result_t<F&, A...>>::type, R>;

/// A hook may omit its last argument, the context.
template <class R, class F, class A, class C>
inline constexpr bool hook_fits_two = HookResult<R, F, A, C> || HookResult<R, F, A>;

template <class R, class F, class... A>
Task<R> await_hook(std::shared_ptr<F> hook, A... args) {
    if constexpr (HookReturn<std::invoke_result_t<F&, A...>>::is_task) {
        auto pending = (*hook)(std::forward<A>(args)...);
        R result = co_await std::move(pending);
        co_return result;
    } else {
        co_return R((*hook)(std::forward<A>(args)...));
    }
}

}  // namespace detail

/// A callable with the signature of a hook: a lambda, function or object that returns R or Task<R>. Contexts are passed
/// by reference and outlive the call. A hook whose second argument is the context may omit it. A callable with another
/// signature or result does not compile; the message of `Slot` names the hook.
template <class Signature, class Slot>
class Hook;

template <class R, class A, class Slot>
class Hook<R(A), Slot> {
public:
    Hook() = default;
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, Hook>)
    Hook(F callable) {
        constexpr bool fits = detail::HookResult<R, F, A>;
        Slot::template check<fits>();
        if constexpr (fits) {
            auto shared = std::make_shared<F>(std::move(callable));
            call_ = [shared](A a) {
                return detail::await_hook<R, F, A>(shared, std::forward<A>(a));
            };
        }
    }
    explicit operator bool() const noexcept { return static_cast<bool>(call_); }
    Task<R> operator()(A a) const { return call_(std::forward<A>(a)); }

private:
    std::function<Task<R>(A)> call_;
};

template <class R, class A, class C, class Slot>
class Hook<R(A, C), Slot> {
public:
    Hook() = default;
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, Hook>)
    Hook(F callable) {
        constexpr bool fits = detail::hook_fits_two<R, F, A, C>;
        Slot::template check<fits>();
        [[maybe_unused]] auto shared = std::make_shared<F>(std::move(callable));
        if constexpr (detail::HookResult<R, F, A, C>) {
            call_ = [shared](A a, C c) {
                return detail::await_hook<R, F, A, C>(shared, std::forward<A>(a),
                                                      std::forward<C>(c));
            };
        } else if constexpr (fits) {
            call_ = [shared](A a, C) {
                return detail::await_hook<R, F, A>(shared, std::forward<A>(a));
            };
        }
    }
    explicit operator bool() const noexcept { return static_cast<bool>(call_); }
    Task<R> operator()(A a, C c) const { return call_(std::forward<A>(a), std::forward<C>(c)); }

private:
    std::function<Task<R>(A, C)> call_;
};

}  // namespace cubepi
