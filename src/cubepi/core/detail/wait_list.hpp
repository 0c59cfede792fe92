#pragma once

#include <cstddef>

#include <cubepi/core/task.hpp>

namespace cubepi::detail {

struct WaitNode;

/// Coroutines that wait, in order. Used on their serial executor only. Waiting costs no allocation
/// of its own: the list runs through the waiters' frames.
class WaitList {
public:
    WaitList() noexcept = default;

    /// Whoever still waits ends with `operation_aborted`.
    ~WaitList();

    /// Suspends until woken; throws `operation_aborted` when cancelled.
    Task<> wait();

    /// False when nobody waits. The one that is woken continues through its executor's queue.
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
