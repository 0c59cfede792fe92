#include <cubepi/agent/detail/serial_check.hpp>

#include <cstdio>
#include <exception>

namespace cubepi::detail {

namespace {

/// Its address identifies the thread.
thread_local char this_thread = 0;

[[noreturn]] void report_two_threads() noexcept {
    std::fputs(
        "cubepi: an agent is used by two threads at once. An agent's executor must run one thing "
        "at a time: run the io_context on one thread, or give the agent a strand, as in "
        "co_spawn(boost::asio::make_strand(context), ...).\n",
        stderr);
    std::terminate();
}

}  // namespace

bool SerialCheck::enter() noexcept {
    const void* inside = nullptr;
    const void* const self = &this_thread;
    if (thread_.compare_exchange_strong(inside, self, std::memory_order_acquire)) return true;
    if (inside != self) report_two_threads();
    return false;
}

}  // namespace cubepi::detail
