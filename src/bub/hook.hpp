#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <cubepi/core/task.hpp>

namespace bub {

/// The result of a hook: a value, or a task that produces one. A hook that completes synchronously needs no coroutine.
template <class R>
class HookOutcome {
public:
    HookOutcome(R value) : value_(std::move(value)) {}
    HookOutcome(cubepi::Task<R> task) : task_(std::move(task)) {}

    bool waits() const noexcept { return task_.has_value(); }
    /// Returns the task; valid only if waits(). Use `co_await std::move(outcome).task()`.
    cubepi::Task<R> task() && { return std::move(*task_); }
    /// Returns the value; valid only if not waits().
    R value() && { return std::move(*value_); }

private:
    std::optional<R> value_;
    std::optional<cubepi::Task<R>> task_;
};

/// Result type of hooks that return no value.
struct Done {};

namespace detail {

template <class T>
struct TaskResult {
    using type = T;
    static constexpr bool is_task = false;
};
template <class T>
struct TaskResult<cubepi::Task<T>> {
    using type = T;
    static constexpr bool is_task = true;
};

template <class T, class R>
concept gives = std::is_void_v<T> || std::is_convertible_v<T, R>;

template <class F, class R, class Call>
concept HookCallable = std::is_invocable_v<F&, Call&> &&
                       (std::is_same_v<std::invoke_result_t<F&, Call&>, HookOutcome<R>> ||
                        gives<typename TaskResult<std::invoke_result_t<F&, Call&>>::type, R>);

template <class R, class T>
cubepi::Task<R> convert_result(cubepi::Task<T> task) {
    if constexpr (std::is_void_v<T>) {
        co_await std::move(task);
        co_return R();
    } else {
        T value = co_await std::move(task);
        co_return R(std::move(value));
    }
}

}  // namespace detail

/// A plugin's callable: a lambda, function or object that takes `Call&` and returns R, a type convertible to R, void
/// (equivalent to R()), a Task of one of these, or a HookOutcome<R>. The call object outlives the invocation, including
/// the task of a coroutine. The callable lives as long as its framework, so coroutine lambdas may have captures.
template <class Signature>
class Hook;

template <class R, class Call>
class Hook<R(Call)> {
public:
    Hook() = default;
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, Hook>) && detail::HookCallable<F, R, Call>
    Hook(F callable) {
        using Result = std::invoke_result_t<F&, Call&>;
        auto shared = std::make_shared<F>(std::move(callable));
        call_ = [shared](Call& call) -> HookOutcome<R> {
            if constexpr (std::is_same_v<Result, HookOutcome<R>>) {
                return (*shared)(call);
            } else if constexpr (detail::TaskResult<Result>::is_task) {
                using T = typename detail::TaskResult<Result>::type;
                if constexpr (std::is_same_v<T, R>) {
                    return HookOutcome<R>((*shared)(call));
                } else {
                    return HookOutcome<R>(detail::convert_result<R, T>((*shared)(call)));
                }
            } else if constexpr (std::is_void_v<Result>) {
                (*shared)(call);
                return HookOutcome<R>(R());
            } else {
                return HookOutcome<R>(R((*shared)(call)));
            }
        };
    }

    explicit operator bool() const noexcept { return static_cast<bool>(call_); }
    HookOutcome<R> operator()(Call& call) const { return call_(call); }

private:
    std::function<HookOutcome<R>(Call&)> call_;
};

}  // namespace bub
