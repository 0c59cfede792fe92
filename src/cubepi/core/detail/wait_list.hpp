#pragma once

#include <cstddef>

#include <cubepi/core/task.hpp>

namespace cubepi::detail {

struct WaitNode;

/// Coroutines that wait, in order. Used on their serial executor only. Waiting allocates no memory of its own: the list
/// is linked through the waiters' frames.
class WaitList {
public:
    WaitList() noexcept = default;

    /// Remaining waiters end with `operation_aborted`.
    ~WaitList();

    /// Suspends until woken; throws `operation_aborted` if cancelled.
    Task<> wait();

    /// Returns false if there is no waiter. The woken one resumes through its executor's queue.
    bool wake_one() noexcept;
    void wake_all() noexcept;

    bool empty() const noexcept { return first_ == nullptr; }
    std::size_t size() const noexcept;

    WaitList(const WaitList&) = delete;
    WaitList& operator=(const WaitList&) = delete;

private:
    friend struct WaitNode;
    WaitNode* first_ = nullptr;
    WaitNode* last_ = nullptr;
};

}  // namespace cubepi::detail
