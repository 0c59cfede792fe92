#pragma once

// Counts what the program allocates with new, as a measure of work that is the same on every machine. To be included by one file of
// a program.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace cubepi::fuzz {

inline std::size_t& allocated_bytes() {
    static std::size_t bytes = 0;
    return bytes;
}

}  // namespace cubepi::fuzz

// NOLINTBEGIN(misc-definitions-in-headers,cppcoreguidelines-no-malloc)
void* operator new(std::size_t size) {
    cubepi::fuzz::allocated_bytes() += size;
    if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND(misc-definitions-in-headers,cppcoreguidelines-no-malloc)
