#include <cubepi/core/outcome.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

Task<int> three() { co_return 3; }
Task<int> fails() {
    throw std::runtime_error("failed");
    co_return 0;
}
Task<void> cancelled() {
    throw_cancelled();
    co_return;
}

TEST(Outcome, HasTheValueOfATaskThatReturned) {
    Outcome<int> outcome = run(outcome_of(three()));
    EXPECT_TRUE(outcome);
    EXPECT_EQ(outcome.failure(), nullptr);
    EXPECT_EQ(outcome.value(), 3);
    EXPECT_NO_THROW(outcome.rethrow());
}

TEST(Outcome, ThrowsWhatTheTaskThrewWhenItsValueIsTaken) {
    Outcome<int> outcome = run(outcome_of(fails()));
    EXPECT_FALSE(outcome);
    EXPECT_FALSE(outcome.cancelled());
    EXPECT_THROW(outcome.rethrow(), std::runtime_error);
    EXPECT_THROW(outcome.value(), std::runtime_error);
}

TEST(Outcome, TellsACancellationFromAFailure) {
    const Outcome<> outcome = run(outcome_of(cancelled()));
    EXPECT_FALSE(outcome.ok());
    EXPECT_TRUE(outcome.cancelled());
}

Task<> set(std::shared_ptr<bool> flag) {
    *flag = true;
    co_return;
}

TEST(WithCleanup, CleansUpAfterASuccessAndReturnsTheValue) {
    auto cleaned = std::make_shared<bool>(false);
    EXPECT_EQ(run(with_cleanup(three(), set(cleaned))), 3);
    EXPECT_TRUE(*cleaned);
}

TEST(WithCleanup, CleansUpAfterAFailureAndThrowsIt) {
    auto cleaned = std::make_shared<bool>(false);
    EXPECT_THROW(run(with_cleanup(fails(), set(cleaned))), std::runtime_error);
    EXPECT_TRUE(*cleaned);
}

TEST(WithCleanup, AFailureOfTheCleanupDoesNotReplaceThatOfTheTask) {
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

TEST(WithCleanup, TheCleanupOfACancelledTaskCanWait) {
    auto clock = std::make_shared<testing::ManualClock>();
    auto cleaned = std::make_shared<bool>(false);
    Task<> work = with_cleanup(wait_for(clock, std::chrono::hours(1)), set_later(clock, cleaned));
    Task<> limited = with_timeout(*clock, std::chrono::seconds(5), std::move(work), "test");
    EXPECT_THROW(testing::run_advancing(*clock, std::move(limited)), TimeoutError);
    EXPECT_TRUE(*cleaned);
}

}  // namespace
}  // namespace cubepi
