#include "allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace {
std::atomic<bool> watching{false};
std::atomic<std::ptrdiff_t> live{0};
std::atomic<std::ptrdiff_t> highest{0};
thread_local std::size_t count = 0;

void* counted(std::size_t size) {
    void* block = std::malloc(size);
    if (!block) throw std::bad_alloc();
    ++count;
    if (watching.load(std::memory_order_relaxed)) {
        const auto size_of_block = static_cast<std::ptrdiff_t>(malloc_usable_size(block));
        const std::ptrdiff_t now = live.fetch_add(size_of_block) + size_of_block;
        std::ptrdiff_t before = highest.load(std::memory_order_relaxed);
        while (now > before && !highest.compare_exchange_weak(before, now)) {
        }
    }
    return block;
}

void uncounted(void* block) noexcept {
    if (block && watching.load(std::memory_order_relaxed)) {
        live.fetch_sub(static_cast<std::ptrdiff_t>(malloc_usable_size(block)));
    }
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
std::size_t allocations() noexcept { return count; }
LiveBytes::LiveBytes() noexcept { watching = true; }
LiveBytes::~LiveBytes() { watching = false; }
std::ptrdiff_t LiveBytes::now() const noexcept { return live.load(); }
std::ptrdiff_t LiveBytes::peak() const noexcept { return highest.load(); }
void LiveBytes::reset_peak() const noexcept { highest = live.load(); }
}  // namespace cubepi::bench
