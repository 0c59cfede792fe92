#include <cubepi/agent/run/serial_check.hpp>

#include <cstdio>
#include <exception>

namespace cubepi::detail {

namespace {

/// Numbers the threads that have been inside an agent, from 1 on.
std::uint32_t number_of_this_thread() noexcept {
    static std::atomic<std::uint32_t> last{0};
    thread_local const std::uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
    return number;
}

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
    std::uint32_t inside = 0;
    const std::uint32_t self = number_of_this_thread();
    if (thread_.compare_exchange_strong(inside, self, std::memory_order_acquire)) return true;
    if (inside != self) report_two_threads();
    return false;
}

}  // namespace cubepi::detail
