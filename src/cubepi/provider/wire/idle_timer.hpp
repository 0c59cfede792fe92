#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// The idle timeout of a response (D16): the time without content while the consumer waits for it. Bytes without
/// content do not restart it, and the time that the consumer spends on an event does not count.
///
/// Two mechanisms enforce it: check(), for bytes that arrive without a pause, and a timer, for a read that waits.
class IdleTimer {
public:
    /// A `limit` of zero disables the timeout. `expired` is called on the executor of prepare() when the timer expires.
    IdleTimer(std::shared_ptr<const Runtime> runtime, std::chrono::nanoseconds limit,
              std::function<void()> expired);

    /// Starts a new response, paused.
    void restart() noexcept;
    /// Restarts the count: content was decoded.
    void content_received() noexcept { silence_ = {}; }
    /// Stops the count until the next count() or check().
    void pause() noexcept { counted_until_.reset(); }
    /// Adds the time since the last call. The first call after a pause only starts the count.
    void count();
    /// Counts; throws error() if the limit is reached.
    void check();

    /// Creates the timer on first use.
    void prepare(const Executor& executor);
    bool needs_prepare() const noexcept { return !timer_ && limit_.count() > 0; }
    /// Lets the timer expire when the limit would be reached without content.
    void arm();
    void cancel() noexcept;

    TimeoutError error() const;

private:
    std::shared_ptr<const Runtime> runtime_;
    std::chrono::nanoseconds limit_;
    std::function<void()> expired_;
    std::unique_ptr<ClockTimer> timer_;
    std::chrono::nanoseconds silence_{0};             ///< counted since the last content
    std::optional<Clock::time_point> counted_until_;  ///< absent: paused
    bool armed_ = false;
};

}  // namespace cubepi::detail
