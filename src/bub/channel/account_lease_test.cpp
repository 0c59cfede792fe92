#include <bub/channel/account_lease.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

using namespace std::chrono_literals;
using cubepi::testing::ManualClock;

/// A lease of ten seconds in memory.
class MemoryLease final : public AccountLease {
public:
    explicit MemoryLease(std::shared_ptr<ManualClock> clock) : clock_(std::move(clock)) {}

    Task<State> take() override {
        ++attempts;
        if (fails) throw cubepi::Error(cubepi::ErrorCode::storage, "the database is away");
        State state;
        state.is_held = clock_->now() >= others_until;
        if (state.is_held) until = clock_->now() + 10s;
        state.time = state.is_held ? 10s : others_until - clock_->now();
        co_return state;
    }
    Task<> release() override {
        until = {};
        co_return;
    }

    bool fails = false;
    int attempts = 0;
    cubepi::Clock::time_point others_until = {};
    cubepi::Clock::time_point until = {};

private:
    const std::shared_ptr<ManualClock> clock_;
};

class LeaseKeeperTest : public testing::Test {
protected:
    /// Runs the keeper for so long.
    void keep_for(std::chrono::nanoseconds time) {
        auto body = [this, time](cubepi::TaskScope& scope) { return keep(scope, time); };
        cubepi::testing::run_advancing(*clock, cubepi::with_task_scope(std::move(body)));
    }

    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    std::shared_ptr<MemoryLease> lease = std::make_shared<MemoryLease>(clock);
    std::vector<std::string> troubles;
    LeaseKeeper keeper{lease, *clock,
                       [this](std::string trouble) { troubles.push_back(std::move(trouble)); }};
    int begun = 0;
    bool outlived = false;  ///< the work has run while another process may have held the lease
    bool works = false;

private:
    Task<> work() {
        ++begun;
        works = true;
        const std::shared_ptr<void> over(nullptr, [this](void*) { works = false; });
        for (;;) {
            outlived = outlived || clock->now() >= lease->until;
            co_await clock->sleep_for(100ms);
        }
    }
    Task<> keep(cubepi::TaskScope& scope, std::chrono::nanoseconds time) {
        scope.spawn(keeper.run([this] { return work(); }));
        co_await clock->sleep_for(time);
        scope.cancel();
    }
};

TEST_F(LeaseKeeperTest, D236_RenewedLease_KeepsTheWork) {
    keep_for(1min);
    EXPECT_EQ(begun, 1);
    EXPECT_FALSE(outlived);
    EXPECT_FALSE(works);
    EXPECT_GT(lease->attempts, 10);
    EXPECT_TRUE(keeper.holds()) << "for what ends the work";
    cubepi::testing::run_advancing(*clock, keeper.release());
    EXPECT_FALSE(keeper.holds());
    EXPECT_EQ(lease->until, cubepi::Clock::time_point());
}

TEST_F(LeaseKeeperTest, D236_LeaseOfOther_IsWaitedFor) {
    lease->others_until = clock->now() + 7s;
    keep_for(6s);
    EXPECT_EQ(begun, 0);
    keep_for(2s);
    EXPECT_EQ(begun, 1);
    EXPECT_FALSE(outlived);
}

TEST_F(LeaseKeeperTest, D236_FailedRenewal_EndsTheWorkInTime) {
    keep_for(1s);
    lease->fails = true;
    keep_for(1min);
    EXPECT_FALSE(outlived);
    EXPECT_FALSE(keeper.holds());
    EXPECT_EQ(troubles, std::vector<std::string>{"the database is away"}) << "it is reported once";
    lease->fails = false;
    keep_for(5s);
    EXPECT_TRUE(keeper.holds());
    EXPECT_EQ(troubles, (std::vector<std::string>{"the database is away", ""}));
}

}  // namespace
}  // namespace bub
