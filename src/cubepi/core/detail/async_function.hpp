#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cubepi/core/maybe_task.hpp>

// Every public slot for a callable accepts exactly what it can call, await and return. Anything else fails to compile with
// a sentence that names the slot.

/// Defines the type `name##_slot`; `name##_slot::check<fits>()` fails to compile with `text` unless `fits`.
#define CUBEPI_DETAIL_SLOT(name, text)  \
    struct name##_slot {                \
        template <bool fits>            \
        static consteval void check() { \
            static_assert(fits, text);  \
        }                               \
    };

namespace cubepi::detail {

/// Whether `F`, called with `A...`, returns what `R` needs; exactly nothing where `R` is void.
template <class R, class F, class... A>
consteval bool fills_slot() {
    if constexpr (!std::is_invocable_v<F&, A...>) {
        return false;
    } else if constexpr (std::is_void_v<R>) {
        return std::is_void_v<std::invoke_result_t<F&, A...>>;
    } else {
        return std::is_convertible_v<std::invoke_result_t<F&, A...>, R>;
    }
}

/// fills_slot() with all arguments but the last.
template <class R, class F, class... A>
consteval bool fills_slot_without_last() {
    if constexpr (sizeof...(A) < 2) {
        return false;
    } else {
        return []<std::size_t... i>(std::index_sequence<i...>) {
            return fills_slot<R, F, std::tuple_element_t<i, std::tuple<A...>>...>();
        }(std::make_index_sequence<sizeof...(A) - 1>());
    }
}

/// A std::function that accepts only callables whose result it can return. They may leave out the last of several
/// parameters.
template <class Signature, class Slot>
class SlotFunction;

template <class R, class... A, class Slot>
class SlotFunction<R(A...), Slot> {
public:
    SlotFunction() = default;
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, SlotFunction>)
    SlotFunction(F callable) {
        constexpr bool fits = fills_slot<R, F, A...>();
        constexpr bool shorter = !fits && fills_slot_without_last<R, F, A...>();
        Slot::template check<fits || shorter>();
        if constexpr (fits) {
            call_ = std::move(callable);
        } else if constexpr (shorter) {
            call_ = [callable = std::move(callable)](A... args) mutable -> R {
                auto all = std::forward_as_tuple(std::forward<A>(args)...);
                return call_front(callable, all, std::make_index_sequence<sizeof...(A) - 1>());
            };
        }
    }
    explicit operator bool() const noexcept { return static_cast<bool>(call_); }
    R operator()(A... args) const { return call_(std::forward<A>(args)...); }

private:
    template <class F, class All, std::size_t... i>
    static R call_front(F& callable, All& all, std::index_sequence<i...>) {
        return callable(
            std::forward<std::tuple_element_t<i, std::tuple<A...>>>(std::get<i>(all))...);
    }

    std::function<R(A...)> call_;
};

/// The result type of awaiting a `T`: `U` for a Task<U> or MaybeTask<U>, else `T` itself.
template <class T>
struct Awaited {
    using type = T;
    static constexpr bool is_task = false;
};
template <class T>
struct Awaited<Task<T>> {
    using type = T;
    static constexpr bool is_task = true;
};
template <class T>
struct Awaited<MaybeTask<T>> {
    using type = T;
    static constexpr bool is_task = true;
};

/// Rules for the callables that an AsyncFunction accepts besides those of its signature.
struct AsyncRules {
    bool last_is_optional = false;  ///< callables without the last parameter
    bool void_is_default = false;   ///< callables that return nothing: the result is `R()`
};

/// A callable that returns `R`, a Task or a MaybeTask of it; copies share the callable. The one wrapper behind listeners,
/// observers and hooks. A task of the callable may use the callable's captures as long as a copy of the wrapper exists.
template <class Signature, class Slot, AsyncRules rules = AsyncRules()>
class AsyncFunction;

template <class R, class... A, class Slot, AsyncRules rules>
class AsyncFunction<R(A...), Slot, rules> {
public:
    AsyncFunction() = default;
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, AsyncFunction>)
    AsyncFunction(F callable) {
        constexpr bool whole = fits<F, std::tuple<A...>>();
        constexpr bool shorter = !whole && fits_without_last<F>();
        Slot::template check<whole || shorter>();
        if constexpr (whole) {
            is_async_ = Awaited<std::invoke_result_t<F&, A...>>::is_task;
            call_ = [](void* self, A... args) -> MaybeTask<R> {
                return call(*static_cast<F*>(self), std::forward<A>(args)...);
            };
        } else if constexpr (shorter) {
            is_async_ = without_last<F>([]<class... B>(std::type_identity<std::tuple<B...>>) {
                return Awaited<std::invoke_result_t<F&, B...>>::is_task;
            });
            call_ = [](void* self, A... args) -> MaybeTask<R> {
                auto all = std::forward_as_tuple(std::forward<A>(args)...);
                return call_front(*static_cast<F*>(self), all,
                                  std::make_index_sequence<sizeof...(A) - 1>());
            };
        }
        if constexpr (whole || shorter) callable_ = std::make_shared<F>(std::move(callable));
    }

    explicit operator bool() const noexcept { return call_ != nullptr; }
    /// The callable may return a task.
    bool is_async() const noexcept { return is_async_; }
    MaybeTask<R> operator()(A... args) const {
        return call_(callable_.get(), std::forward<A>(args)...);
    }

private:
    template <class Result>
    static consteval bool returns() {
        using Value = typename Awaited<Result>::type;
        if constexpr (std::is_void_v<Value>) {
            return std::is_void_v<R> || rules.void_is_default;
        } else if constexpr (std::is_void_v<R>) {
            return false;
        } else {
            return std::is_convertible_v<Value, R>;
        }
    }

    template <class F, class Arguments>
    static consteval bool fits() {
        return []<class... B>(std::type_identity<std::tuple<B...>>) {
            if constexpr (std::is_invocable_v<F&, B...>) {
                return returns<std::invoke_result_t<F&, B...>>();
            } else {
                return false;
            }
        }(std::type_identity<Arguments>());
    }

    /// Calls `use` with the types of all arguments but the last.
    template <class F, class Use>
    static consteval auto without_last(Use use) {
        return []<std::size_t... i>(std::index_sequence<i...>, Use with) {
            using Front = std::tuple<std::tuple_element_t<i, std::tuple<A...>>...>;
            return with(std::type_identity<Front>());
        }(std::make_index_sequence<sizeof...(A) - 1>(), use);
    }

    template <class F>
    static consteval bool fits_without_last() {
        if constexpr (rules.last_is_optional) {
            return without_last<F>(
                []<class Front>(std::type_identity<Front>) { return fits<F, Front>(); });
        } else {
            return false;
        }
    }

    template <class T>
    static Task<R> converted(Task<T> task) {
        if constexpr (std::is_void_v<T>) {
            co_await std::move(task);
            co_return R();
        } else {
            T value = co_await std::move(task);
            co_return R(std::move(value));
        }
    }

    template <class F, class... B>
    static MaybeTask<R> call(F& callable, B&&... args) {
        using Result = std::invoke_result_t<F&, B...>;
        using Value = typename Awaited<Result>::type;
        if constexpr (std::is_same_v<Result, Task<Value>> && !std::is_same_v<Value, R>) {
            return MaybeTask<R>(converted<Value>(callable(std::forward<B>(args)...)));
        } else if constexpr (Awaited<Result>::is_task) {
            return callable(std::forward<B>(args)...);
        } else if constexpr (std::is_void_v<Result>) {
            callable(std::forward<B>(args)...);
            if constexpr (std::is_void_v<R>) {
                return MaybeTask<R>();
            } else {
                return MaybeTask<R>(R());
            }
        } else {
            return MaybeTask<R>(R(callable(std::forward<B>(args)...)));
        }
    }

    template <class F, class All, std::size_t... i>
    static MaybeTask<R> call_front(F& callable, All& all, std::index_sequence<i...>) {
        return call(callable,
                    std::forward<std::tuple_element_t<i, std::tuple<A...>>>(std::get<i>(all))...);
    }

    std::shared_ptr<void> callable_;
    MaybeTask<R> (*call_)(void*, A...) = nullptr;
    bool is_async_ = false;
};

/// Calls `function` when the task is awaited, and keeps it until the task has ended.
template <class R, class Function, class... A>
Task<R> await_call(Function function, A... args) {
    MaybeTask<R> outcome = function(std::forward<A>(args)...);
    if (!outcome.is_pending()) co_return std::move(outcome).value();
    R result = co_await std::move(outcome).task();
    co_return result;
}

}  // namespace cubepi::detail
