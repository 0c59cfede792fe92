#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// How late an executor's queue runs (D28). Everything of an agent shares one queue, so a listener, a tool or a
/// handler of the host that computes or blocks there holds up all the rest; this shows it.
///
///     LoopLagGauge gauge(context.get_executor());
///     gauge.start();
///     ...
///     if (gauge.worst() > 100ms) ...
///
/// One timer on the runtime's clock: it is due every `interval`, and the gauge notes how long after that it ran. What
/// holds the queue up between two ticks shows as far as it reaches beyond the next. On the machine's
/// clock a running gauge is work that keeps an `io_context` from running out.
/// `start`, `stop` and the destructor belong to the executor (or to a time when nothing runs on it); the rest may be
/// called from any thread.
class LoopLagGauge {
public:
    /// `interval` must be positive; throws Error(invalid_argument) otherwise.
    explicit LoopLagGauge(Executor executor,
                          std::shared_ptr<const Runtime> runtime = Runtime::standard(),
                          std::chrono::nanoseconds interval = std::chrono::milliseconds(100));
    ~LoopLagGauge();
    LoopLagGauge(const LoopLagGauge&) = delete;
    LoopLagGauge& operator=(const LoopLagGauge&) = delete;

    /// Measures from now on. Does nothing when it does already.
    void start();
    /// Ends measuring; what was measured stays.
    void stop() noexcept;

    /// How late the newest tick was; zero before the first.
    std::chrono::nanoseconds last() const noexcept { return load(last_); }
    /// How late the latest tick since the start or `reset` was.
    std::chrono::nanoseconds worst() const noexcept { return load(worst_); }
    /// The number of ticks since the start or `reset`.
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
