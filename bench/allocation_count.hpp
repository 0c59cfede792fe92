#pragma once

#include <cstddef>

namespace cubepi::bench {

/// Allocations of this thread since it began: this program's operator new counts.
std::size_t allocations() noexcept;

/// Counts the bytes that are allocated while it lives, and not freed again. Asking for the size of each block costs as
/// much as getting it, so nothing is timed beside it.
class LiveBytes {
public:
    LiveBytes() noexcept;
    ~LiveBytes();
    LiveBytes(const LiveBytes&) = delete;
    LiveBytes& operator=(const LiveBytes&) = delete;
    std::ptrdiff_t now() const noexcept;
};

}  // namespace cubepi::bench
