#pragma once

#include <atomic>
#include <thread>

namespace cubepi::detail {

/// A lock for a few assignments, which costs one atomic read-modify-write operation. For std::lock_guard.
class SpinLock {
public:
    void lock() noexcept {
        constexpr int spins_before_yield = 64;
        for (int spins = 0; locked_.test_and_set(std::memory_order_acquire);) {
            if (++spins >= spins_before_yield) std::this_thread::yield();
        }
    }
    void unlock() noexcept { locked_.clear(std::memory_order_release); }

private:
    std::atomic_flag locked_;
};

}  // namespace cubepi::detail
