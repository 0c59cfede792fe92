#pragma once

// Counts allocations with new, as a measure of work that is the same on every machine. To be included by one file of a program.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace cubepi::fuzz {

inline std::size_t& allocated_bytes() {
    static std::size_t bytes = 0;
    return bytes;
}

}  // namespace cubepi::fuzz

// All forms except those with an alignment: a library may allocate with one form and free with another.
// NOLINTBEGIN(misc-definitions-in-headers,cppcoreguidelines-no-malloc)
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    cubepi::fuzz::allocated_bytes() += size;
    return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
    if (void* memory = operator new(size, std::nothrow)) return memory;
    throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
    return operator new(size, tag);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
// NOLINTEND(misc-definitions-in-headers,cppcoreguidelines-no-malloc)
