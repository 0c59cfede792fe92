#pragma once

#include <cstddef>

namespace cubepi::bench {

/// Returns the number of allocations of this thread since it began, as counted by this program's operator new.
std::size_t allocations() noexcept;

/// Counts the bytes allocated and not freed during its lifetime. Determining the size of each block costs as
/// much as allocating it, so nothing is timed at the same time.
class LiveBytes {
public:
    LiveBytes() noexcept;
    ~LiveBytes();
    LiveBytes(const LiveBytes&) = delete;
    LiveBytes& operator=(const LiveBytes&) = delete;
    std::ptrdiff_t now() const noexcept;
    /// Returns the largest value of now() since the last reset_peak().
    std::ptrdiff_t peak() const noexcept;
    void reset_peak() const noexcept;
};

}  // namespace cubepi::bench
