#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// A gauge of the delay of an executor's queue (D28). All parts of an agent share one queue, so a listener, a tool or a
/// handler of the host that computes or blocks there delays all the others; this gauge makes the delay visible.
///
///     LoopLagGauge gauge(context.get_executor());
///     gauge.start();
///     ...
///     if (gauge.worst() > 100ms) ...
///
/// Uses one timer on the runtime's clock: it is due every `interval`, and the gauge records how late it ran. A delay
/// between two ticks is measured only as far as it extends beyond the next tick. On the system clock, a running gauge
/// is work that keeps an `io_context` from running out. `start`, `stop` and the destructor must be called on the
/// executor (or while nothing runs on it); the other members are thread-safe.
class LoopLagGauge {
public:
    /// Throws Error(invalid_argument) if `interval` is not positive.
    explicit LoopLagGauge(Executor executor,
                          std::shared_ptr<const Runtime> runtime = Runtime::standard(),
                          std::chrono::nanoseconds interval = std::chrono::milliseconds(100));
    ~LoopLagGauge();
    LoopLagGauge(const LoopLagGauge&) = delete;
    LoopLagGauge& operator=(const LoopLagGauge&) = delete;

    /// Starts measuring. Has no effect if already started.
    void start();
    /// Stops measuring; the measurements are preserved.
    void stop() noexcept;

    /// Returns the delay of the newest tick; zero before the first.
    std::chrono::nanoseconds last() const noexcept { return load(last_); }
    /// Returns the longest delay since the start or `reset`.
    std::chrono::nanoseconds worst() const noexcept { return load(worst_); }
    /// Returns the number of ticks since the start or `reset`.
    std::uint64_t ticks() const noexcept { return ticks_.load(std::memory_order_relaxed); }
    /// Sets all three to zero.
    void reset() noexcept;

private:
    using Nanoseconds = std::atomic<std::chrono::nanoseconds::rep>;

    static std::chrono::nanoseconds load(const Nanoseconds& value) noexcept {
        return std::chrono::nanoseconds(value.load(std::memory_order_relaxed));
    }
    void arm();
    void tick();

    const std::shared_ptr<Clock> clock_;
    const std::chrono::nanoseconds interval_;
    std::unique_ptr<ClockTimer> timer_;
    bool running_ = false;
    Clock::time_point due_ = {};
    Nanoseconds last_ = 0;
    Nanoseconds worst_ = 0;
    std::atomic<std::uint64_t> ticks_ = 0;
};

}  // namespace cubepi
