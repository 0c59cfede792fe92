#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include <cubepi/core/task.hpp>

// Every public slot for a callable accepts exactly the callables that it can call, await and return. Any other is a
// compile error with a message that names the slot.

/// Defines the type `name##_slot`; `name##_slot::check<fits>()` fails to compile with `text` unless `fits`.
#define CUBEPI_DETAIL_SLOT(name, text)  \
    struct name##_slot {                \
        template <bool fits>            \
        static consteval void check() { \
            static_assert(fits, text);  \
        }                               \
    };

namespace cubepi::detail {

/// Returns true if `F`, called with `A...`, returns void or a Task<void>. Any other result would be lost: a Task of
/// another type would never run.
template <class F, class... A>
consteval bool is_notification() {
    if constexpr (std::is_invocable_v<F&, A...>) {
        using Result = std::invoke_result_t<F&, A...>;
        return std::is_void_v<Result> || std::is_same_v<Result, Task<void>>;
    } else {
        return false;
    }
}

/// Returns true if `F`, called with `A...`, returns a value convertible to `R`; exactly void if `R` is void.
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

/// A std::function that accepts only callables whose result it can return.
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
        Slot::template check<fits>();
        if constexpr (fits) call_ = std::move(callable);
    }
    explicit operator bool() const noexcept { return static_cast<bool>(call_); }
    R operator()(A... args) const { return call_(std::forward<A>(args)...); }

private:
    std::function<R(A...)> call_;
};

}  // namespace cubepi::detail
