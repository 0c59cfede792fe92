#pragma once

#include <cstddef>

namespace cubepi::bench {

/// Bytes that are allocated now, and allocations since the start of the program: this program's operator new counts.
std::size_t live_bytes() noexcept;
std::size_t allocations() noexcept;

}  // namespace cubepi::bench
