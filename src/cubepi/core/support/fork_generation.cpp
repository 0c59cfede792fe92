#include <cubepi/core/support/fork_generation.hpp>

#include <pthread.h>

#include <atomic>

namespace cubepi::detail {

namespace {

std::atomic<unsigned> generation{1};

void count_fork() noexcept { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

unsigned fork_generation() noexcept {
    [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, count_fork);
    return generation.load(std::memory_order_relaxed);
}

}  // namespace cubepi::detail
