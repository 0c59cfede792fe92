#include <cubepi/testing/manual_clock.hpp>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include <boost/asio/post.hpp>

#include <cubepi/core/event_signal.hpp>

namespace cubepi::testing {

namespace {

using time_point = Clock::time_point;

/// One timer. All members except `executor` are used on that executor only.
struct Shot {
    explicit Shot(Executor where) : executor(std::move(where)) {}

    const Executor executor;
    std::function<void()> callback;
    std::uint64_t generation = 0;

    void fire(std::uint64_t expected) {
        if (expected != generation || !callback) return;
        const std::function<void()> taken = std::exchange(callback, nullptr);
        taken();
    }
};

struct Entry {
    std::shared_ptr<Shot> shot;
    std::uint64_t generation;
};

void fire_soon(const Entry& entry) {
    boost::asio::post(entry.shot->executor, [entry] { entry.shot->fire(entry.generation); });
}

}  // namespace

struct ManualClock::State {
    mutable std::mutex mutex;
    mutable std::condition_variable changed;
    time_point now = time_point() + std::chrono::hours(1);
    std::chrono::system_clock::time_point wall =
        std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);
    std::multimap<time_point, Entry> entries;

    using Place = std::multimap<time_point, Entry>::iterator;

    /// Posts under the lock: a thread that destroys a timer waits for it, and may then destroy the timer's event loop.
    void wake_due() {
        while (!entries.empty() && entries.begin()->first <= now) {
            fire_soon(entries.begin()->second);
            entries.erase(entries.begin());
        }
    }

    void advance_to(time_point target) {
        wall += std::chrono::duration_cast<std::chrono::system_clock::duration>(target - now);
        now = target;
        wake_due();
    }

    void add(time_point deadline, const Entry& entry) {
        const std::lock_guard lock(mutex);
        if (deadline <= now) {
            fire_soon(entry);
        } else {
            entries.emplace(deadline, entry);
            changed.notify_all();
        }
    }

    void remove(const Shot& shot) {
        const std::lock_guard lock(mutex);
        std::erase_if(entries,
                      [&shot](const auto& item) { return item.second.shot.get() == &shot; });
    }
};

namespace {

class ManualTimer final : public ClockTimer {
public:
    ManualTimer(std::shared_ptr<ManualClock::State> clock, Executor executor)
        : clock_(std::move(clock)), shot_(std::make_shared<Shot>(std::move(executor))) {}
    ~ManualTimer() override { ManualTimer::cancel(); }

    void expires_at(time_point deadline, std::function<void()> callback) override {
        ManualTimer::cancel();
        shot_->callback = std::move(callback);
        clock_->add(deadline, Entry{shot_, shot_->generation});
    }

    void expires_after(std::chrono::nanoseconds delay, std::function<void()> callback) override {
        expires_at(from_now(delay), std::move(callback));
    }

    void postpone(std::chrono::nanoseconds delay) override {
        if (shot_->callback) expires_at(from_now(delay), std::exchange(shot_->callback, nullptr));
    }

    void cancel() noexcept override {
        ++shot_->generation;
        shot_->callback = nullptr;
        clock_->remove(*shot_);
    }

private:
    time_point from_now(std::chrono::nanoseconds delay) const {
        const std::lock_guard lock(clock_->mutex);
        return deadline_after(clock_->now, delay);
    }

    std::shared_ptr<ManualClock::State> clock_;
    std::shared_ptr<Shot> shot_;
};

}  // namespace

ManualClock::ManualClock() : state_(std::make_shared<State>()) {}
ManualClock::~ManualClock() = default;

Clock::time_point ManualClock::now() const noexcept {
    const std::lock_guard lock(state_->mutex);
    return state_->now;
}

std::chrono::system_clock::time_point ManualClock::wall() const noexcept {
    const std::lock_guard lock(state_->mutex);
    return state_->wall;
}

Task<> ManualClock::sleep_until(time_point deadline) {
    if (deadline <= now()) co_return;
    AsyncEvent due;
    const std::unique_ptr<ClockTimer> waker = timer(co_await this_executor);
    waker->expires_at(deadline, [&due] { due.set(); });
    co_await due.wait();
}

std::unique_ptr<ClockTimer> ManualClock::timer(Executor executor) {
    return std::make_unique<ManualTimer>(state_, std::move(executor));
}

void ManualClock::advance(std::chrono::nanoseconds amount) {
    const std::lock_guard lock(state_->mutex);
    state_->advance_to(deadline_after(state_->now, amount));
}

bool ManualClock::advance_to_next() {
    const std::lock_guard lock(state_->mutex);
    if (state_->entries.empty()) return false;
    state_->advance_to(state_->entries.begin()->first);
    return true;
}

void ManualClock::set_wall(std::chrono::system_clock::time_point value) {
    const std::lock_guard lock(state_->mutex);
    state_->wall = value;
}

std::size_t ManualClock::pending_sleepers() const {
    const std::lock_guard lock(state_->mutex);
    return state_->entries.size();
}

std::optional<Clock::time_point> ManualClock::next_deadline() const {
    const std::lock_guard lock(state_->mutex);
    if (state_->entries.empty()) return std::nullopt;
    return state_->entries.begin()->first;
}

void ManualClock::wait_for_sleepers(std::size_t count) const {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this, count] { return state_->entries.size() >= count; });
}

}  // namespace cubepi::testing
