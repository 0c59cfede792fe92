#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

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

}  // namespace cubepi::detail
