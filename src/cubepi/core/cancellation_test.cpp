#include <cubepi/core/cancellation.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;
using testing::run_advancing;

Task<> wait_for_ever() {
    AsyncEvent never;
    co_await never.wait();
}

TEST(Cancellation, Cancellation_IsRecognized) {
    EXPECT_FALSE(is_cancellation(nullptr));
    EXPECT_TRUE(is_cancellation(make_cancelled()));
    EXPECT_TRUE(is_cancellation(std::make_exception_ptr(Error(ErrorCode::cancelled, "x"))));
    EXPECT_FALSE(is_cancellation(std::make_exception_ptr(Error(ErrorCode::timeout, "x"))));
    EXPECT_FALSE(is_cancellation(std::make_exception_ptr(std::runtime_error("x"))));
    const boost::system::system_error refused(boost::asio::error::connection_refused);
    EXPECT_FALSE(is_cancellation(std::make_exception_ptr(refused)));
}

TEST(Cancellation, Shield_LetsCleanupAwait) {
    bool cleaned = false;
    run([](bool& flag) -> Task<> {
        auto child = [](bool& f) -> Task<> {
            std::exception_ptr failure;
            try {
                co_await wait_for_ever();
            } catch (...) {
                failure = std::current_exception();
            }
            co_await shield();
            co_await yield_now();
            f = true;
            co_await unshield();
            if (failure) std::rethrow_exception(failure);
        };
        TaskScope scope(co_await this_executor);
        scope.spawn(child(flag));
        scope.cancel();
        co_await scope.join();
    }(cleaned));
    EXPECT_TRUE(cleaned);
}

TEST(Cancellation, State_IsReadable) {
    bool seen = false;
    run([](bool& flag) -> Task<> {
        auto child = [](TaskScope& scope, bool& f) -> Task<> {
            scope.cancel();
            const auto state = co_await this_cancellation;
            f = state.cancelled() != boost::asio::cancellation_type::none;
        };
        TaskScope scope(co_await this_executor);
        scope.spawn(child(scope, flag));
        co_await scope.join();
    }(seen));
    EXPECT_TRUE(seen);
}

TEST(CancelOn, StopFromAnotherThread_EndsTheTask) {
    for (int round = 0; round < 50; ++round) {
        std::stop_source source;
        std::thread other;
        std::exception_ptr failure;
        auto start_then_wait = [](std::stop_source s, std::thread& t) -> Task<> {
            t = std::thread([s]() mutable { s.request_stop(); });
            co_await wait_for_ever();
        };
        try {
            run(cancel_on(source.get_token(), start_then_wait(source, other)));
        } catch (...) {
            failure = std::current_exception();
        }
        other.join();
        EXPECT_TRUE(is_cancellation(failure));
    }
}

TEST(CancelOn, StoppedToken_PreventsTheTask) {
    std::stop_source source;
    source.request_stop();
    bool started = false;
    auto task = [](bool& flag) -> Task<> {
        flag = true;
        co_return;
    };
    EXPECT_THROW(run(cancel_on(source.get_token(), task(started))), boost::system::system_error);
    EXPECT_FALSE(started);
}

TEST(CancelOn, ResultAndFailure_PassThrough) {
    std::stop_source source;
    auto value = []() -> Task<int> {
        co_await yield_now();
        co_return 5;
    };
    auto failure = []() -> Task<int> {
        co_await yield_now();
        throw std::logic_error("own");
    };
    EXPECT_EQ(run(cancel_on(source.get_token(), value())), 5);
    EXPECT_THROW(run(cancel_on(source.get_token(), failure())), std::logic_error);
    source.request_stop();
}

/// Runs a stoppable task that is cancelled after one second; returns its exception.
std::exception_ptr stop_after_a_second(ManualClock& clock, std::stop_source source,
                                       std::chrono::seconds grace, Task<> task) {
    std::exception_ptr seen;
    auto outer = [](ManualClock& c, std::stop_source s, std::chrono::seconds g, Task<> t,
                    std::exception_ptr& out) -> Task<> {
        auto inner = [](ManualClock& k, std::stop_source ss, std::chrono::seconds gg, Task<> tt,
                        std::exception_ptr& e) -> Task<> {
            try {
                co_await stop_on_cancel(ss, k, gg, std::move(tt));
            } catch (...) {
                e = std::current_exception();
            }
        };
        TaskScope scope(co_await this_executor);
        scope.spawn(inner(c, s, g, std::move(t), out));
        co_await c.sleep_for(1s);
        scope.cancel();
        co_await scope.join();
    };
    run_advancing(clock, outer(clock, std::move(source), grace, std::move(task), seen));
    return seen;
}

TEST(StopOnCancel, PoliteTask_EndsByItselfWithinTheGrace) {
    ManualClock clock;
    std::stop_source source;
    bool polite = false;
    auto task = [](ManualClock& c, std::stop_token token, bool& flag) -> Task<> {
        while (!token.stop_requested()) co_await c.sleep_for(300ms);
        flag = true;
    };
    const auto start = clock.now();
    EXPECT_TRUE(is_cancellation(
        stop_after_a_second(clock, source, 2s, task(clock, source.get_token(), polite))));
    EXPECT_TRUE(polite);
    EXPECT_LT(clock.now() - start, 2s);
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

TEST(StopOnCancel, UnresponsiveTask_IsCancelledAfterTheGrace) {
    ManualClock clock;
    std::stop_source source;
    const auto start = clock.now();
    EXPECT_TRUE(is_cancellation(stop_after_a_second(clock, source, 2s, wait_for_ever())));
    EXPECT_TRUE(source.stop_requested());
    EXPECT_EQ(clock.now() - start, 3s);
}

TEST(StopOnCancel, NoGrace_CancelsAtOnce) {
    ManualClock clock;
    std::stop_source source;
    const auto start = clock.now();
    EXPECT_TRUE(is_cancellation(stop_after_a_second(clock, source, 0s, wait_for_ever())));
    EXPECT_EQ(clock.now() - start, 1s);
}

TEST(StopOnCancel, UndisturbedTask_ReturnsItsResult) {
    ManualClock clock;
    const std::stop_source source;
    auto task = []() -> Task<int> {
        co_await yield_now();
        co_return 3;
    };
    EXPECT_EQ(run(stop_on_cancel(source, clock, 2s, task())), 3);
    EXPECT_FALSE(source.stop_requested());
}

Task<int> three() { co_return 3; }
Task<int> fails() {
    throw std::runtime_error("failed");
    co_return 0;
}
Task<void> cancelled() {
    throw_cancelled();
    co_return;
}

TEST(Outcome, ReturnedTask_HasItsValue) {
    Outcome<int> outcome = run(outcome_of(three()));
    EXPECT_TRUE(outcome);
    EXPECT_EQ(outcome.failure(), nullptr);
    EXPECT_EQ(outcome.value(), 3);
    EXPECT_NO_THROW(outcome.rethrow());
}

TEST(Outcome, FailedTask_ThrowsWhenTheValueIsTaken) {
    Outcome<int> outcome = run(outcome_of(fails()));
    EXPECT_FALSE(outcome);
    EXPECT_FALSE(outcome.cancelled());
    EXPECT_THROW(outcome.rethrow(), std::runtime_error);
    EXPECT_THROW(outcome.value(), std::runtime_error);
}

TEST(Outcome, Cancellation_IsDistinguishedFromFailure) {
    const Outcome<> outcome = run(outcome_of(cancelled()));
    EXPECT_FALSE(outcome.ok());
    EXPECT_TRUE(outcome.cancelled());
}

Task<> set(std::shared_ptr<bool> flag) {
    *flag = true;
    co_return;
}

TEST(WithCleanup, Success_RunsCleanupAndReturnsTheValue) {
    auto cleaned = std::make_shared<bool>(false);
    EXPECT_EQ(run(with_cleanup(three(), set(cleaned))), 3);
    EXPECT_TRUE(*cleaned);
}

TEST(WithCleanup, Failure_RunsCleanupAndIsThrown) {
    auto cleaned = std::make_shared<bool>(false);
    EXPECT_THROW(run(with_cleanup(fails(), set(cleaned))), std::runtime_error);
    EXPECT_TRUE(*cleaned);
}

TEST(WithCleanup, FailedCleanup_DoesNotReplaceTheTaskFailure) {
    EXPECT_THROW(run(with_cleanup(fails(), cancelled())), std::runtime_error);
    try {
        run(with_cleanup(three(), cancelled()));
        FAIL() << "the exception of the cleanup was discarded";
    } catch (...) {
        EXPECT_TRUE(is_cancellation(std::current_exception()));
    }
}

Task<> wait_for(std::shared_ptr<testing::ManualClock> clock, std::chrono::seconds time) {
    co_await clock->sleep_for(time);
}

Task<> set_later(std::shared_ptr<testing::ManualClock> clock, std::shared_ptr<bool> flag) {
    co_await clock->sleep_for(std::chrono::seconds(1));
    *flag = true;
}

TEST(WithCleanup, CleanupOfCancelledTask_CanWait) {
    auto clock = std::make_shared<testing::ManualClock>();
    auto cleaned = std::make_shared<bool>(false);
    Task<> work = with_cleanup(wait_for(clock, std::chrono::hours(1)), set_later(clock, cleaned));
    Task<> limited = with_timeout(*clock, std::chrono::seconds(5), std::move(work), "test");
    EXPECT_THROW(testing::run_advancing(*clock, std::move(limited)), TimeoutError);
    EXPECT_TRUE(*cleaned);
}

}  // namespace
}  // namespace cubepi
