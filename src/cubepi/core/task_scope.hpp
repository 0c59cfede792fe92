#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task.hpp>

// The only ways to start a coroutine concurrently with the current one:
//
//   when_all(tasks)        all results in source order; the first failure cancels the others and is
//                          thrown
//   collect_all(tasks)     all outcomes in source order; a failure leaves the others alone
//   run_on(executor, task) one task on another executor, e.g. that of another thread
//   with_task_scope(body)  body(TaskScope&) starts children as it goes; they are over when it returns
//   BackgroundScope        children of an object that is not a coroutine

namespace cubepi {

/// The effect of a child's failure on its siblings.
enum class ScopePolicy {
    cancel_siblings,  ///< cancels them; join() throws the first failure
    collect,          ///< leaves them alone; join() throws the first failure after all have ended
};

/// Children of one coroutine. All members are used on that coroutine's (serial) executor.
///
/// A child that runs on the scope's own executor starts inside spawn() and runs there until it first suspends. The
/// destructor terminates the program if children are running, because they would outlive the objects they use: leave
/// the block only through join(). Because a cancelled parent throws at its next co_await, before join() could begin,
/// this is hard to get right by hand: use with_task_scope().
class TaskScope {
public:
    explicit TaskScope(Executor executor, ScopePolicy policy = ScopePolicy::cancel_siblings)
        : core_(std::move(executor), policy == ScopePolicy::cancel_siblings) {}

    /// Starts a child on the scope's executor. Its result is discarded. After cancel() it is not started.
    template <class T>
    void spawn(Task<T> task) {
        start(nullptr, std::move(task));
    }

    /// Starts a child on another serial executor. The caller must synchronize its access to shared data.
    template <class T>
    void spawn(const Executor& executor, Task<T> task) {
        start(&executor, std::move(task));
    }

    /// Requests all children to end. The end of a child after that is not a failure unless it throws an exception other
    /// than a cancellation.
    void cancel() noexcept { core_.cancel(); }
    bool cancelled() const noexcept { return core_.cancelled(); }

    /// Returns the number of children that have not ended.
    std::size_t live() const noexcept { return core_.live(); }

    /// Waits for all children, then throws the first failure, if there was one. If the awaiting coroutine is cancelled,
    /// cancels the children, waits for them, and throws a cancellation.
    Task<> join() { return core_.join(); }

    /// Waits like join(), but returns the exception, or null.
    Task<std::exception_ptr> join_failure() { return core_.join_failure(); }

private:
    friend struct detail::ScopeAccess;

    template <class T>
    void start(const Executor* executor, Task<T> task) {
        if constexpr (std::is_void_v<T>) {
            core_.spawn(std::move(task), nullptr, executor);
        } else {
            core_.spawn(drop_result(std::move(task)), nullptr, executor);
        }
    }

    template <class T>
    static Task<> drop_result(Task<T> task) {
        (void)co_await std::move(task);
    }

    detail::ScopeCore core_;
};

namespace detail {
struct ScopeAccess {
    static ScopeCore& core(TaskScope& scope) noexcept { return scope.core_; }
};
}  // namespace detail

/// Children of one type whose results are wanted. Same rules as TaskScope.
template <class T>
class TaskGroup {
public:
    explicit TaskGroup(Executor executor, ScopePolicy policy = ScopePolicy::cancel_siblings)
        : core_(std::move(executor), policy == ScopePolicy::cancel_siblings) {}

    void spawn(Task<T> task) { start(nullptr, std::move(task)); }
    void spawn(const Executor& executor, Task<T> task) { start(&executor, std::move(task)); }

    void cancel() noexcept { core_.cancel(); }
    std::size_t live() const noexcept { return core_.live(); }

    /// Waits for all children; does not throw. Returns a cancellation if the awaiting coroutine was cancelled (its
    /// children then were too), else the first failure by time, else null.
    Task<std::exception_ptr> join_failure() { return core_.join_failure(); }

    /// Returns the outcomes in the order of the spawns; call it once, after join_failure().
    std::vector<Outcome<T>> take() {
        std::vector<Outcome<T>> outcomes;
        outcomes.reserve(slots_.size());
        for (Slot& slot : slots_) {
            if (slot.value) {
                outcomes.emplace_back(std::move(*slot.value));
            } else {
                outcomes.emplace_back(std::move(slot.failure));
            }
        }
        return outcomes;
    }

private:
    using Value = typename Outcome<T>::value_type;
    struct Slot {
        std::optional<Value> value;
        std::exception_ptr failure;
    };

    void start(const Executor* executor, Task<T> task) {
        Slot& slot = slots_.emplace_back();
        core_.spawn(fill(std::move(task), slot), &slot.failure, executor);
    }

    static Task<> fill(Task<T> task, Slot& slot) {
        if constexpr (std::is_void_v<T>) {
            co_await std::move(task);
            slot.value.emplace();
        } else {
            slot.value.emplace(co_await std::move(task));
        }
    }

    std::deque<Slot> slots_;
    detail::ScopeCore core_;
};

/// Runs the tasks concurrently on the caller's executor and returns their outcomes in source order. A failure does not
/// affect the others. Cancelling the caller cancels them all, waits for them and throws.
template <class T>
Task<std::vector<Outcome<T>>> collect_all(std::vector<Task<T>> tasks) {
    TaskGroup<T> group(co_await this_executor, ScopePolicy::collect);
    for (Task<T>& task : tasks) group.spawn(std::move(task));
    const bool throws = co_await detail::throws_when_cancelled;
    co_await detail::throw_when_cancelled(false);
    const std::exception_ptr failure = co_await group.join_failure();
    co_await detail::throw_when_cancelled(throws);
    const auto state = co_await this_cancellation;
    if (state.cancelled() != boost::asio::cancellation_type::none) std::rethrow_exception(failure);
    co_return group.take();
}

/// Runs the tasks concurrently on the caller's executor and returns their results in source order (nothing for
/// Task<void>). The first failure cancels the others and is thrown when they have ended. Cancelling the caller does the
/// same.
template <class T>
auto when_all(std::vector<Task<T>> tasks)
    -> Task<std::conditional_t<std::is_void_v<T>, void, std::vector<T>>> {
    TaskGroup<T> group(co_await this_executor, ScopePolicy::cancel_siblings);
    for (Task<T>& task : tasks) group.spawn(std::move(task));
    const bool throws = co_await detail::throws_when_cancelled;
    co_await detail::throw_when_cancelled(false);
    const std::exception_ptr failure = co_await group.join_failure();
    co_await detail::throw_when_cancelled(throws);
    if (failure) std::rethrow_exception(failure);
    if constexpr (!std::is_void_v<T>) {
        std::vector<T> values;
        values.reserve(tasks.size());
        for (Outcome<T>& outcome : group.take()) values.push_back(std::move(outcome).value());
        co_return values;
    }
}

/// Runs the task on another serial executor, whose loop another thread may run, and returns its result. The task and the caller
/// must synchronize their access to shared data; what happens before the call and after the end needs no synchronization.
/// Cancelling the caller cancels the task, waits for it, and throws.
template <class T>
Task<T> run_on(Executor executor, Task<T> task) {
    TaskGroup<T> group(co_await this_executor);
    group.spawn(executor, std::move(task));
    const bool throws = co_await detail::throws_when_cancelled;
    co_await detail::throw_when_cancelled(false);
    const std::exception_ptr failure = co_await group.join_failure();
    co_await detail::throw_when_cancelled(throws);
    if (failure) std::rethrow_exception(failure);
    if constexpr (!std::is_void_v<T>) {
        std::vector<Outcome<T>> outcomes = group.take();
        co_return std::move(outcomes.front()).value();
    }
}

/// Runs `body(TaskScope&)`, which starts children, and then joins them: when this returns or throws, all of them have
/// ended. An exception from the body cancels them; with ScopePolicy::cancel_siblings the first failure of a child
/// cancels its siblings and the body, and is thrown. Cancelling the caller cancels the body and the children. `body` is
/// a callable that returns a Task; it is kept alive until then.
template <class F>
auto with_task_scope(F body, ScopePolicy policy = ScopePolicy::cancel_siblings)
    -> std::invoke_result_t<F&, TaskScope&> {
    using R = typename std::invoke_result_t<F&, TaskScope&>::value_type;
    const Executor executor = co_await this_executor;
    std::optional<std::conditional_t<std::is_void_v<R>, std::monostate, R>> result;
    TaskScope children(executor, policy);
    detail::ScopeCore body_scope(executor, false);
    detail::ScopeAccess::core(children).cancel_with(body_scope);
    std::exception_ptr own_failure;
    if constexpr (std::is_void_v<R>) {
        body_scope.spawn(body(children), &own_failure);
    } else {
        body_scope.spawn(detail::store_result(body(children), result), &own_failure);
    }
    const bool throws = co_await detail::throws_when_cancelled;
    co_await detail::throw_when_cancelled(false);
    std::function<void()> cancel_all = [&children, &body_scope] {
        body_scope.cancel();
        children.cancel();
    };
    std::exception_ptr failure = co_await body_scope.join_failure(std::move(cancel_all));
    if (!failure) failure = own_failure;
    if (failure) children.cancel();
    const std::exception_ptr child_failure = co_await children.join_failure();
    co_await detail::throw_when_cancelled(throws);
    // A failed child may be why the body was cancelled: prefer the cause to its consequence.
    if (child_failure && (!failure || is_cancellation(failure)))
        std::rethrow_exception(child_failure);
    if (failure) std::rethrow_exception(failure);
    if constexpr (!std::is_void_v<R>) co_return std::move(*result);
}

/// Children of an object that is not a coroutine. All members are used on the given executor.
///
/// Use close() to end it: it cancels and waits. The destructor can only cancel: running children then end soon after,
/// on the executor, so they must own or share the objects they use.
class BackgroundScope {
public:
    /// `on_failure` receives each exception thrown by a child, except cancellations after cancel(). Without it the
    /// first exception is stored and thrown by close().
    explicit BackgroundScope(Executor executor,
                             std::function<void(std::exception_ptr)> on_failure = {});
    ~BackgroundScope();

    /// Starts a child. Its failure does not affect the others. After cancel() or close() it is not started.
    void spawn(Task<> task);

    void cancel() noexcept;

    /// Cancels and waits for all children; then throws the first failure that was not passed to `on_failure`.
    Task<> close();

    /// Waits for all children without cancelling them.
    Task<> idle();

    std::size_t live() const noexcept;

    BackgroundScope(const BackgroundScope&) = delete;
    BackgroundScope& operator=(const BackgroundScope&) = delete;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
