#include <cubepi/core/clock.hpp>

#include <cstdint>
#include <utility>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cubepi {

namespace asio = boost::asio;

namespace {

class SystemTimer final : public ClockTimer {
public:
    explicit SystemTimer(Executor executor) : shot_(std::make_shared<Shot>(std::move(executor))) {}
    ~SystemTimer() override { SystemTimer::cancel(); }

    void expires_at(time_point deadline, std::function<void()> callback) override {
        shot_->callback = std::move(callback);
        shot_->deadline = deadline;
        schedule();
    }

    void expires_after(std::chrono::nanoseconds delay, std::function<void()> callback) override {
        expires_at(deadline_after(std::chrono::steady_clock::now(), delay), std::move(callback));
    }

    void postpone(std::chrono::nanoseconds delay) override {
        if (!shot_->callback) return;
        shot_->deadline = deadline_after(std::chrono::steady_clock::now(), delay);
        schedule();
    }

    void cancel() noexcept override {
        shot_->callback = nullptr;
        if (!shot_->waiting) return;
        shot_->waiting = false;
        ++shot_->generation;
        shot_->timer.cancel();
    }

private:
    struct Shot {
        explicit Shot(Executor executor) : timer(std::move(executor)) {}
        asio::steady_timer timer;
        std::function<void()> callback;
        time_point deadline;
        bool waiting = false;
        std::uint64_t generation = 0;
    };

    /// A wait that is due no later than necessary is not changed: it checks the deadline when it completes.
    void schedule() {
        if (shot_->waiting && shot_->timer.expiry() <= shot_->deadline) return;
        wait(shot_);
    }

    static void wait(const std::shared_ptr<Shot>& shot) {
        shot->waiting = true;
        const std::uint64_t generation = ++shot->generation;
        shot->timer.expires_at(shot->deadline);
        shot->timer.async_wait([shot, generation](const boost::system::error_code&) {
            if (generation != shot->generation) return;
            shot->waiting = false;
            if (std::chrono::steady_clock::now() < shot->deadline) {
                wait(shot);
                return;
            }
            const std::function<void()> callback = std::exchange(shot->callback, nullptr);
            callback();
        });
    }

    std::shared_ptr<Shot> shot_;
};

}  // namespace

Clock::time_point SystemClock::now() const noexcept { return std::chrono::steady_clock::now(); }

std::chrono::system_clock::time_point SystemClock::wall() const noexcept {
    return std::chrono::system_clock::now();
}

Task<> SystemClock::sleep_until(time_point deadline) {
    asio::steady_timer timer(co_await this_executor, deadline);
    const asio::use_awaitable_t<Executor> token;
    co_await timer.async_wait(token);
}

std::unique_ptr<ClockTimer> SystemClock::timer(Executor executor) {
    return std::make_unique<SystemTimer>(std::move(executor));
}

}  // namespace cubepi
