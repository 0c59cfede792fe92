#include <cubepi/core/loop_lag.hpp>

#include <memory>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;

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

TEST(LoopLagGauge, D28_ASlowHandlerIsVisible) {
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

TEST(LoopLagGauge, D28_ManyShortHandlersBeforeTheTickAddUp) {
    Loop loop;
    loop.gauge.start();
    for (int i = 0; i < 30; ++i) {
        boost::asio::post(loop.context, [&loop] { loop.clock->advance(1ms); });
    }
    loop.context.poll();
    EXPECT_EQ(loop.gauge.worst(), 20ms);
}

TEST(LoopLagGauge, ResetForgets) {
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

TEST(LoopLagGauge, StoppedItMeasuresNothingAndHoldsNothing) {
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

TEST(LoopLagGauge, MayBeDestroyedWhileItsTickIsDue) {
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

TEST(LoopLagGauge, IntervalMustBePositive) {
    boost::asio::io_context context(1);
    try {
        const LoopLagGauge gauge(context.get_executor(), Runtime::standard(), 0ns);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    }
}

TEST(LoopLagGauge, WorksOnTheMachinesClock) {
    boost::asio::io_context context(1);
    LoopLagGauge gauge(context.get_executor(), Runtime::standard(), 1ms);
    gauge.start();
    while (gauge.ticks() < 3) context.run_one();
    EXPECT_GE(gauge.worst(), 0ns);
    gauge.stop();
    context.run();  // no work remains
}

}  // namespace
}  // namespace cubepi
