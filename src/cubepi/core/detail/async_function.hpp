#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cubepi/core/maybe_task.hpp>
#include <cubepi/core/shared_string.hpp>

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

/// Ownership of an object of any type; copies share it. Code that uses this type is compiled once, not for each type of object.
class SharedObject {
public:
    SharedObject() = default;
    SharedObject(const SharedObject& other) noexcept : holder_(other.holder_) {
        if (holder_) holder_->owners.retain();
    }
    SharedObject(SharedObject&& other) noexcept : holder_(std::exchange(other.holder_, nullptr)) {}
    SharedObject& operator=(SharedObject other) noexcept {
        std::swap(holder_, other.holder_);
        return *this;
    }
    ~SharedObject() {
        if (holder_ && holder_->owners.release()) holder_->destroy(holder_);
    }

    template <class T>
    static SharedObject make(T&& object) {
        return SharedObject(new Held<T>(std::forward<T>(object)));
    }
    /// Shares `object`; get() returns it.
    template <class T>
    static SharedObject share(std::shared_ptr<T> object) {
        void* const target = const_cast<std::remove_cv_t<T>*>(object.get());
        return SharedObject(new Held<std::shared_ptr<const void>>(std::move(object), target));
    }
    /// The address of the object; null if there is none.
    void* get() const noexcept { return holder_ ? holder_->object : nullptr; }

private:
    struct Holder {
        void* object;
        void (*destroy)(Holder*) noexcept;
        RefCount owners;
    };
    template <class T>
    struct Held : Holder {
        explicit Held(T&& moved) : Held(std::move(moved), nullptr) { object = &value; }
        Held(T&& moved, void* target)
            : Holder{target, &delete_holder<T>, {}}, value(std::move(moved)) {}
        T value;
    };
    template <class T>
    static void delete_holder(Holder* holder) noexcept {
        delete static_cast<Held<T>*>(holder);
    }

    explicit SharedObject(Holder* holder) noexcept : holder_(holder) {}

    Holder* holder_ = nullptr;
};

/// The call of an object as a function. A type with these two members can name another way to call an object.
struct DirectCall {
    template <class F, class... B>
    using Result = decltype(std::declval<F&>()(std::declval<B>()...));
    template <class F, class... B>
    static Result<F, B...> call(F& callable, B&&... args) {
        return callable(std::forward<B>(args)...);
    }
};

/// An object of type `T` that is called as `Call` says.
template <class T, class Call>
struct SharedCall {
    SharedObject object;
};

template <class... T>
struct TypeList {};

/// The types `T` without the last.
template <class Indices, class... T>
struct WithoutLast;
template <std::size_t... i, class... T>
struct WithoutLast<std::index_sequence<i...>, T...> {
    using type = TypeList<std::tuple_element_t<i, std::tuple<T...>>...>;
};

/// A callable that returns `R`, a Task or a MaybeTask of it; copies share the callable. The one wrapper of listeners,
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
        if (bind<F, DirectCall>()) object_ = SharedObject::make(std::move(callable));
    }
    template <class T, class Call>
    AsyncFunction(SharedCall<T, Call> call) {
        if (bind<T, Call>()) object_ = std::move(call.object);
    }

    explicit operator bool() const noexcept { return call_ != nullptr; }
    /// The callable may return a task.
    bool is_async() const noexcept { return is_async_; }
    MaybeTask<R> operator()(A... args) const {
        return call_(object_.get(), std::forward<A>(args)...);
    }

private:
    using All = TypeList<A...>;
    static constexpr std::size_t front_size = sizeof...(A) == 0 ? 0 : sizeof...(A) - 1;
    using Front = typename WithoutLast<std::make_index_sequence<front_size>, A...>::type;

    /// Sets the functions that call an `F`. Fails to compile with the sentence of the slot if the call does not fit.
    template <class F, class Call>
    bool bind() {
        constexpr bool whole = fits<F, Call>(All());
        constexpr bool shorter = !whole && rules.last_is_optional && fits<F, Call>(Front());
        Slot::template check<whole || shorter>();
        if constexpr (whole) {
            set<Invoke<F, Call, All>>();
        } else if constexpr (shorter) {
            set<InvokeShorter<F, Call>>();
        }
        return whole || shorter;
    }

    template <class Function>
    void set() {
        call_ = &Function::call;
        is_async_ = Awaited<typename Function::Result>::is_task;
    }

    template <class F, class Call, class... B>
    static consteval bool fits(TypeList<B...>) {
        if constexpr (requires { typename Call::template Result<F, B...>; }) {
            return returns<typename Call::template Result<F, B...>>();
        } else {
            return false;
        }
    }

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

    /// Calls with the arguments `B`, without those of types `Ignored`.
    template <class F, class Call, class Arguments, class... Ignored>
    struct Invoke;
    template <class F, class Call, class... B, class... Ignored>
    struct Invoke<F, Call, TypeList<B...>, Ignored...> {
        using Result = typename Call::template Result<F, B...>;
        using Value = typename Awaited<Result>::type;

        static MaybeTask<R> call(void* object, B&&... args, Ignored&&...) {
            F& callable = *static_cast<F*>(object);
            if constexpr (std::is_same_v<Result, Task<Value>> && !std::is_same_v<Value, R>) {
                return MaybeTask<R>(
                    converted<Value>(Call::call(callable, std::forward<B>(args)...)));
            } else if constexpr (Awaited<Result>::is_task) {
                return Call::call(callable, std::forward<B>(args)...);
            } else if constexpr (std::is_void_v<Result>) {
                Call::call(callable, std::forward<B>(args)...);
                if constexpr (std::is_void_v<R>) {
                    return MaybeTask<R>();
                } else {
                    return MaybeTask<R>(R());
                }
            } else {
                return MaybeTask<R>(R(Call::call(callable, std::forward<B>(args)...)));
            }
        }
    };
    template <class F, class Call>
    using InvokeShorter =
        Invoke<F, Call, Front, std::tuple_element_t<front_size, std::tuple<A..., void>>>;

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

    SharedObject object_;
    MaybeTask<R> (*call_)(void*, A&&...) = nullptr;
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
