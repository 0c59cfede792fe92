#pragma once

#include <atomic>
#include <cstdint>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace cubepi::detail {

/// The number of handles that share an object; initially one. Counts without atomic instructions as long as the process
/// is single-threaded, like std::shared_ptr.
class RefCount {
public:
    void retain() noexcept {
        if (single_threaded()) {
            count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        } else {
            count_.fetch_add(1, std::memory_order_relaxed);
        }
    }
    /// Returns true if that was the last handle.
    bool release() noexcept {
        // The only holder need not synchronize with others.
        if (is_one()) return true;
        if (single_threaded()) {
            count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
            return false;
        }
        return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
    bool is_one() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

private:
    static bool single_threaded() noexcept {
#if __has_include(<sys/single_threaded.h>)
        return __libc_single_threaded;
#else
        return false;
#endif
    }

    std::atomic<std::uint32_t> count_{1};
};

}  // namespace cubepi::detail
