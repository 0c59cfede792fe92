#include "allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace {
std::atomic<std::size_t> live{0};
std::atomic<std::size_t> count{0};

void* counted(std::size_t size) {
    void* block = std::malloc(size);
    if (!block) throw std::bad_alloc();
    live.fetch_add(malloc_usable_size(block), std::memory_order_relaxed);
    count.fetch_add(1, std::memory_order_relaxed);
    return block;
}

void uncounted(void* block) noexcept {
    if (!block) return;
    live.fetch_sub(malloc_usable_size(block), std::memory_order_relaxed);
    std::free(block);
}
}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* block) noexcept { uncounted(block); }
void operator delete[](void* block) noexcept { uncounted(block); }
void operator delete(void* block, std::size_t) noexcept { uncounted(block); }
void operator delete[](void* block, std::size_t) noexcept { uncounted(block); }

namespace cubepi::bench {
std::size_t live_bytes() noexcept { return live.load(); }
std::size_t allocations() noexcept { return count.load(); }
}  // namespace cubepi::bench
