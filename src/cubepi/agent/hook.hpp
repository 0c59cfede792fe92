#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// A callable with one of the hooks' signatures: a lambda, function or object that returns R or Task<R>. Contexts
/// are passed by reference and outlive the call. A hook whose second argument is the context may leave it out.
/// A callable with another signature or result does not compile; the message of `Slot` names the hook.
template <class Signature, class Slot>
class Hook;

template <class R, class... A, class Slot>
class Hook<R(A...), Slot> {
public:
    Hook() = default;
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, Hook>)
    Hook(F callable) : call_(std::move(callable)) {}
    template <class T, class Member>
    Hook(detail::SharedCall<T, Member> member) : call_(std::move(member)) {}

    explicit operator bool() const noexcept { return static_cast<bool>(call_); }
    /// The callable runs when the task is awaited.
    Task<R> operator()(A... args) const {
        return detail::await_call<R, Call, A...>(call_, std::forward<A>(args)...);
    }

private:
    static constexpr detail::AsyncRules rules{.last_is_optional = sizeof...(A) > 1};
    using Call = detail::AsyncFunction<R(A...), Slot, rules>;

    Call call_;
};

}  // namespace cubepi
