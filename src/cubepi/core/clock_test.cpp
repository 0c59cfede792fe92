#include <cubepi/core/clock.hpp>

#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;
using testing::run_advancing;

TEST(SystemClock, SleepsAtLeastAsLongAsAsked) {
    SystemClock clock;
    const auto start = clock.now();
    run(clock.sleep_for(2ms));
    EXPECT_GE(clock.now() - start, 2ms);
    run(clock.sleep_until(start));
}

TEST(SystemClock, SleepIsCancelled) {
    SystemClock clock;
    run([](SystemClock& c) -> Task<> {
        TaskScope scope(co_await this_executor);
        scope.spawn(c.sleep_for(std::chrono::nanoseconds::max()));
        scope.cancel();
        co_await scope.join();
    }(clock));
}

Task<> fire_timer(Clock& clock, std::vector<int>& fired) {
    AsyncEvent done;
    const auto timer = clock.timer(co_await this_executor);
    timer->expires_after(1h, [&fired] { fired.push_back(1); });
    timer->expires_after(1ms, [&fired] { fired.push_back(2); });  // replaces the first
    timer->postpone(2ms);
    const auto last = clock.timer(co_await this_executor);
    last->expires_after(5ms, [&done] { done.set(); });
    co_await done.wait();
    timer->postpone(1ms);  // fired: nothing to postpone
    timer->expires_after(1ms, [&fired] { fired.push_back(3); });
    timer->cancel();
    done.reset();
    last->expires_after(3ms, [&done] { done.set(); });
    co_await done.wait();
}

TEST(ClockTimer, SystemTimerFiresOnceAndWhatWasArmedLast) {
    SystemClock clock;
    std::vector<int> fired;
    run(fire_timer(clock, fired));
    EXPECT_EQ(fired, (std::vector<int>{2}));
}

TEST(ClockTimer, ManualTimerFiresOnceAndWhatWasArmedLast) {
    ManualClock clock;
    std::vector<int> fired;
    run_advancing(clock, fire_timer(clock, fired));
    EXPECT_EQ(fired, (std::vector<int>{2}));
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

TEST(ClockTimer, DestroyedTimerDoesNotFireAlthoughItWasDue) {
    ManualClock clock;
    boost::asio::io_context context(1);
    auto timer = clock.timer(context.get_executor());
    bool fired = false;
    timer->expires_after(1s, [&fired] { fired = true; });
    clock.advance(1s);
    timer.reset();
    context.poll();
    EXPECT_FALSE(fired);
}

TEST(ManualClock, WakesInOrderOfDeadlines) {
    ManualClock clock;
    boost::asio::io_context context(1);
    std::vector<int> order;
    BackgroundScope scope(context.get_executor());
    auto sleeper = [](ManualClock& c, std::chrono::seconds delay, std::vector<int>& out) -> Task<> {
        co_await c.sleep_for(delay);
        out.push_back(static_cast<int>(delay.count()));
    };
    for (const int delay : {3, 1, 2})
        scope.spawn(sleeper(clock, std::chrono::seconds(delay), order));
    context.poll();
    EXPECT_EQ(clock.pending_sleepers(), 3u);
    EXPECT_EQ(clock.next_deadline(), clock.now() + 1s);
    const auto wall = clock.wall();
    clock.advance(2s);
    EXPECT_TRUE(order.empty());
    context.poll();
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    EXPECT_EQ(clock.wall() - wall, 2s);
    EXPECT_TRUE(clock.advance_to_next());
    EXPECT_FALSE(clock.advance_to_next());
    context.poll();
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(ManualClock, MovedOnFromAnotherThread) {
    ManualClock clock;
    std::thread other([&clock] {
        for (int i = 0; i < 20; ++i) {
            clock.wait_for_sleepers(1);
            clock.advance(1s);
        }
    });
    run([](ManualClock& c) -> Task<> {
        for (int i = 0; i < 20; ++i) co_await c.sleep_for(1s);
    }(clock));
    other.join();
}

Task<int> answer_after(Clock& clock, std::chrono::seconds delay) {
    co_await clock.sleep_for(delay);
    co_return 42;
}

TEST(WithTimeout, ResultInTime) {
    ManualClock clock;
    EXPECT_EQ(run_advancing(clock, with_timeout(clock, 2s, answer_after(clock, 1s))), 42);
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

TEST(WithTimeout, TooLate) {
    ManualClock clock;
    try {
        run_advancing(clock, with_timeout(clock, 1500ms, answer_after(clock, 2s), "idle"));
        FAIL();
    } catch (const TimeoutError& error) {
        EXPECT_EQ(error.timeout(), "idle");
        EXPECT_EQ(error.code(), ErrorCode::timeout);
        EXPECT_STREQ(error.what(), "timed out after 1.5 s (idle)");
    }
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

TEST(WithTimeout, TaskThatEndsWithoutWaitingNeedsNoTimer) {
    ManualClock clock;
    EXPECT_EQ(run(with_timeout(clock, 0s, []() -> Task<int> { co_return 1; }())), 1);
}

TEST(WithTimeout, FailureOfTheTaskPasses) {
    ManualClock clock;
    auto fails = [](ManualClock& c) -> Task<> {
        co_await c.sleep_for(1s);
        throw std::logic_error("own");
    };
    EXPECT_THROW(run_advancing(clock, with_timeout(clock, 2s, fails(clock))), std::logic_error);
}

TEST(WithTimeout, TaskThatFinishesInSpiteOfTheDeadlineKeepsItsResult) {
    ManualClock clock;
    auto stubborn = [](ManualClock& c) -> Task<int> {
        co_await shield();
        co_await c.sleep_for(10s);
        co_return 7;
    };
    EXPECT_EQ(run_advancing(clock, with_timeout(clock, 1s, stubborn(clock))), 7);
}

TEST(WithTimeout, InnerTimeoutAndOuterCancellationAreToldApart) {
    ManualClock clock;
    std::exception_ptr seen;
    run([](ManualClock& c, std::exception_ptr& out) -> Task<> {
        auto inner = [](ManualClock& k, std::exception_ptr& e) -> Task<> {
            try {
                co_await with_timeout(k, 10s, k.sleep_for(1h));
            } catch (...) {
                e = std::current_exception();
            }
        };
        TaskScope scope(co_await this_executor);
        scope.spawn(inner(c, out));
        co_await yield_now();
        scope.cancel();
        co_await scope.join();
    }(clock, seen));
    EXPECT_TRUE(is_cancellation(seen));
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

TEST(WithTimeout, Nested) {
    ManualClock clock;
    auto inner = with_timeout(clock, 5s, clock.sleep_for(1h), "inner");
    try {
        run_advancing(clock, with_timeout(clock, 9s, std::move(inner), "outer"));
        FAIL();
    } catch (const TimeoutError& error) {
        EXPECT_EQ(error.timeout(), "inner");
    }
}

}  // namespace
}  // namespace cubepi
