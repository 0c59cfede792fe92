#include <cubepi/core/runtime.hpp>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/loop_lag.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;
using testing::run_advancing;

TEST(SystemClock, Sleep_LastsAtLeastAsLongAsAsked) {
    SystemClock clock;
    const auto start = clock.now();
    run(clock.sleep_for(2ms));
    EXPECT_GE(clock.now() - start, 2ms);
    run(clock.sleep_until(start));
}

TEST(SystemClock, Sleep_CanBeCancelled) {
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

TEST(ClockTimer, SystemTimer_FiresOnceForTheLastArming) {
    SystemClock clock;
    std::vector<int> fired;
    run(fire_timer(clock, fired));
    EXPECT_EQ(fired, (std::vector<int>{2}));
}

TEST(ClockTimer, ManualTimer_FiresOnceForTheLastArming) {
    ManualClock clock;
    std::vector<int> fired;
    run_advancing(clock, fire_timer(clock, fired));
    EXPECT_EQ(fired, (std::vector<int>{2}));
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

TEST(ClockTimer, DestroyedDueTimer_DoesNotFire) {
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

TEST(ManualClock, Sleepers_WakeInOrderOfDeadlines) {
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

TEST(ManualClock, AdvanceFromAnotherThread_WakesTheSleeper) {
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

TEST(WithTimeout, ResultInTime_IsReturned) {
    ManualClock clock;
    EXPECT_EQ(run_advancing(clock, with_timeout(clock, 2s, answer_after(clock, 1s))), 42);
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

TEST(WithTimeout, LateResult_IsATimeout) {
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

TEST(WithTimeout, ImmediateResult_NeedsNoTimer) {
    ManualClock clock;
    EXPECT_EQ(run(with_timeout(clock, 0s, []() -> Task<int> { co_return 1; }())), 1);
}

TEST(WithTimeout, FailureOfTask_PassesThrough) {
    ManualClock clock;
    auto fails = [](ManualClock& c) -> Task<> {
        co_await c.sleep_for(1s);
        throw std::logic_error("own");
    };
    EXPECT_THROW(run_advancing(clock, with_timeout(clock, 2s, fails(clock))), std::logic_error);
}

TEST(WithTimeout, TaskFinishedDespiteDeadline_KeepsItsResult) {
    ManualClock clock;
    auto stubborn = [](ManualClock& c) -> Task<int> {
        co_await shield();
        co_await c.sleep_for(10s);
        co_return 7;
    };
    EXPECT_EQ(run_advancing(clock, with_timeout(clock, 1s, stubborn(clock))), 7);
}

TEST(WithTimeout, InnerTimeoutAndOuterCancellation_AreDistinguished) {
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

TEST(WithTimeout, NestedTimeouts_NameTheOneThatExpired) {
    ManualClock clock;
    auto inner = with_timeout(clock, 5s, clock.sleep_for(1h), "inner");
    try {
        run_advancing(clock, with_timeout(clock, 9s, std::move(inner), "outer"));
        FAIL();
    } catch (const TimeoutError& error) {
        EXPECT_EQ(error.timeout(), "inner");
    }
}

struct Loop {
    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    std::shared_ptr<const Runtime> runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock));
    boost::asio::io_context context{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
        context.get_executor()};
    LoopLagGauge gauge{context.get_executor(), runtime, 10ms};

    /// Advances the time while the queue is idle.
    void idle(std::chrono::nanoseconds time) {
        clock->advance(time);
        context.poll();
    }
    /// Posts a handler that takes this long.
    void busy(std::chrono::nanoseconds time) {
        boost::asio::post(context, [this, time] { clock->advance(time); });
        context.poll();
    }
};

TEST(LoopLagGauge, D28_SlowHandler_IsVisible) {
    Loop loop;
    loop.gauge.start();
    loop.idle(10ms);
    loop.idle(10ms);
    EXPECT_EQ(loop.gauge.ticks(), 2u);
    EXPECT_EQ(loop.gauge.worst(), 0ns);

    loop.busy(250ms);
    EXPECT_EQ(loop.gauge.last(), 240ms);
    EXPECT_EQ(loop.gauge.worst(), 240ms);

    loop.idle(10ms);
    EXPECT_EQ(loop.gauge.last(), 0ns);
    EXPECT_EQ(loop.gauge.worst(), 240ms);
}

TEST(LoopLagGauge, D28_ManyShortHandlers_AddUp) {
    Loop loop;
    loop.gauge.start();
    for (int i = 0; i < 30; ++i) {
        boost::asio::post(loop.context, [&loop] { loop.clock->advance(1ms); });
    }
    loop.context.poll();
    EXPECT_EQ(loop.gauge.worst(), 20ms);
}

TEST(LoopLagGauge, Reset_ClearsTheMeasurements) {
    Loop loop;
    loop.gauge.start();
    loop.busy(100ms);
    loop.gauge.reset();
    EXPECT_EQ(loop.gauge.last(), 0ns);
    EXPECT_EQ(loop.gauge.worst(), 0ns);
    EXPECT_EQ(loop.gauge.ticks(), 0u);
    loop.busy(15ms);
    EXPECT_EQ(loop.gauge.worst(), 5ms);
}

TEST(LoopLagGauge, StoppedGauge_MeasuresNothingAndHoldsNothing) {
    Loop loop;
    EXPECT_EQ(loop.clock->pending_sleepers(), 0u);
    loop.gauge.start();
    loop.gauge.start();
    EXPECT_EQ(loop.clock->pending_sleepers(), 1u);
    loop.busy(100ms);
    loop.gauge.stop();
    EXPECT_EQ(loop.clock->pending_sleepers(), 0u);
    loop.busy(500ms);
    EXPECT_EQ(loop.gauge.worst(), 90ms);
    loop.gauge.start();
    loop.idle(10ms);
    EXPECT_EQ(loop.gauge.last(), 0ns);
}

TEST(LoopLagGauge, Gauge_MayBeDestroyedWithTickDue) {
    const auto clock = std::make_shared<ManualClock>();
    boost::asio::io_context context(1);
    {
        const auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
        LoopLagGauge gauge(context.get_executor(), runtime, 1ms);
        gauge.start();
        clock->advance(1ms);
    }
    EXPECT_EQ(context.poll(), 1u);
}

TEST(LoopLagGauge, NonPositiveInterval_IsRefused) {
    boost::asio::io_context context(1);
    try {
        const LoopLagGauge gauge(context.get_executor(), Runtime::standard(), 0ns);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    }
}

TEST(LoopLagGauge, SystemClock_DrivesTheGauge) {
    boost::asio::io_context context(1);
    LoopLagGauge gauge(context.get_executor(), Runtime::standard(), 1ms);
    gauge.start();
    while (gauge.ticks() < 3) context.run_one();
    EXPECT_GE(gauge.worst(), 0ns);
    gauge.stop();
    context.run();  // no work remains
}

TEST(RandomIds, Id_HasFifteenAlphanumericsWithoutAllocation) {
    RandomIds ids;
    const std::string id = ids.next();
    EXPECT_EQ(id.size(), 15u);
    EXPECT_TRUE(
        std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0; }));
    const char* inside = reinterpret_cast<const char*>(&id);
    EXPECT_TRUE(id.data() >= inside && id.data() < inside + sizeof id);
}

TEST(RandomIds, IdsOfSeveralThreads_AreDifferent) {
    RandomIds ids;
    std::vector<std::vector<std::string>> made(4);
    std::vector<std::thread> threads;
    for (auto& list : made) {
        threads.emplace_back([&ids, &list] {
            for (int i = 0; i < 5000; ++i) list.push_back(ids.next());
        });
    }
    for (auto& thread : threads) thread.join();
    std::set<std::string> all;
    for (const auto& list : made) all.insert(list.begin(), list.end());
    EXPECT_EQ(all.size(), 20000u);
}

TEST(RandomIds, ChildProcess_DoesNotRepeatItsParent) {
    RandomIds ids;
    (void)ids.next();
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const std::string id = ids.next();
        const bool written = write(pipe_ends[1], id.data(), id.size()) == 15;
        _exit(written ? 0 : 1);
    }
    const std::string ours = ids.next();
    std::string theirs(15, ' ');
    ASSERT_EQ(read(pipe_ends[0], theirs.data(), theirs.size()), 15);
    int status = 0;
    waitpid(child, &status, 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    EXPECT_EQ(status, 0);
    EXPECT_NE(ours, theirs);
}

TEST(Version, MacrosAndFunction_StateTheSameVersion) {
    static_assert(CUBEPI_VERSION_MAJOR > 0 || CUBEPI_VERSION_MINOR >= 1);
    const std::string numbers = std::to_string(CUBEPI_VERSION_MAJOR) + "." +
                                std::to_string(CUBEPI_VERSION_MINOR) + "." +
                                std::to_string(CUBEPI_VERSION_PATCH);
    EXPECT_EQ(version(), numbers);
    EXPECT_EQ(version(), CUBEPI_VERSION);
}

TEST(SequentialIds, Ids_ArePredictable) {
    testing::SequentialIds ids("m");
    EXPECT_EQ(ids.next(), "m1");
    EXPECT_EQ(ids.next(), "m2");
}

}  // namespace
}  // namespace cubepi
