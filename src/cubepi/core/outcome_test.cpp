#include <cubepi/core/outcome.hpp>

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>

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

}  // namespace
}  // namespace cubepi
