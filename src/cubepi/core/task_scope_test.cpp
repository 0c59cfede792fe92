#include <cubepi/core/task_scope.hpp>

#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;
using testing::run_advancing;

/// Counts its instances, so that a test can check that none is left.
struct Live {
    explicit Live(int& counter) : count(&counter) { ++*count; }
    Live(const Live& other) : count(other.count) { ++*count; }
    ~Live() { --*count; }
    int* count;
};

Task<int> value_after(ManualClock& clock, std::chrono::seconds delay, int value) {
    co_await clock.sleep_for(delay);
    co_return value;
}

Task<int> fail_after(ManualClock& clock, std::chrono::seconds delay, std::string message) {
    co_await clock.sleep_for(delay);
    throw std::runtime_error(message);
}

Task<> note_cancellation(ManualClock& clock, bool& cancelled) {
    try {
        co_await clock.sleep_for(1h);
    } catch (...) {
        cancelled = is_cancellation(std::current_exception());
        throw;
    }
}

TEST(TaskScope, Results_ComeInSourceOrder) {
    ManualClock clock;
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 5; ++i)
        tasks.push_back(value_after(clock, std::chrono::seconds(10 - i), i));
    EXPECT_EQ(run_advancing(clock, when_all(std::move(tasks))), (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(TaskScope, FirstFailure_CancelsTheSiblingsAndIsThrown) {
    ManualClock clock;
    bool cancelled = false;
    std::vector<Task<>> tasks;
    tasks.push_back(note_cancellation(clock, cancelled));
    tasks.push_back(
        [](ManualClock& c) -> Task<> { (void)co_await fail_after(c, 1s, "one"); }(clock));
    tasks.push_back(
        [](ManualClock& c) -> Task<> { (void)co_await fail_after(c, 2s, "two"); }(clock));
    const auto start = clock.now();
    try {
        run_advancing(clock, when_all(std::move(tasks)));
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "one");
    }
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(clock.now() - start, 1s);
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

TEST(TaskScope, Collect_LeavesSiblingsRunning) {
    ManualClock clock;
    std::vector<Task<int>> tasks;
    tasks.push_back(value_after(clock, 2s, 7));
    tasks.push_back(fail_after(clock, 1s, "bad"));
    tasks.push_back(value_after(clock, 3s, 9));
    auto outcomes = run_advancing(clock, collect_all(std::move(tasks)));
    ASSERT_EQ(outcomes.size(), 3u);
    EXPECT_EQ(outcomes[0].value(), 7);
    EXPECT_FALSE(outcomes[1]);
    EXPECT_THROW(outcomes[1].value(), std::runtime_error);
    EXPECT_EQ(outcomes[2].value(), 9);
}

TEST(TaskScope, NoTasks_GiveAnEmptyResult) {
    EXPECT_TRUE(run(when_all(std::vector<Task<int>>())).empty());
    EXPECT_TRUE(run(collect_all(std::vector<Task<>>())).empty());
}

TEST(TaskScope, MoveOnlyResults_NeedNoDefault) {
    struct Odd {
        explicit Odd(int v) : value(std::make_unique<int>(v)) {}
        std::unique_ptr<int> value;
    };
    std::vector<Task<Odd>> tasks;
    for (int i = 0; i < 3; ++i) tasks.push_back([](int v) -> Task<Odd> { co_return Odd(v); }(i));
    const auto values = run(when_all(std::move(tasks)));
    ASSERT_EQ(values.size(), 3u);
    EXPECT_EQ(*values[2].value, 2);
}

TEST(TaskScope, Cancel_IsNotAFailure) {
    ManualClock clock;
    bool cancelled = false;
    run([](ManualClock& c, bool& flag) -> Task<> {
        TaskScope scope(co_await this_executor);
        scope.spawn(note_cancellation(c, flag));
        EXPECT_EQ(scope.live(), 1u);
        scope.cancel();
        scope.spawn(note_cancellation(c, flag));  // too late: not started
        EXPECT_EQ(scope.live(), 1u);
        co_await scope.join();
        EXPECT_EQ(scope.live(), 0u);
    }(clock, cancelled));
    EXPECT_TRUE(cancelled);
}

TEST(TaskScope, ChildFailsDuringCancellation_IsAFailure) {
    ManualClock clock;
    const auto stubborn = [](ManualClock& c) -> Task<> {
        try {
            co_await c.sleep_for(1h);
        } catch (...) {
            throw std::runtime_error("cleanup failed");
        }
    };
    EXPECT_THROW(run([](ManualClock& c, auto child) -> Task<> {
                     TaskScope scope(co_await this_executor);
                     scope.spawn(child(c));
                     scope.cancel();
                     co_await scope.join();
                 }(clock, stubborn)),
                 std::runtime_error);
}

TEST(TaskScope, ParentCancelledInJoin_AwaitsCleanupOfChildren) {
    ManualClock clock;
    bool cleaned = false;
    const auto slow_cleanup = [](ManualClock& c, bool& done) -> Task<> {
        std::exception_ptr failure;
        try {
            co_await c.sleep_for(1h);
        } catch (...) {
            failure = std::current_exception();
        }
        co_await shield();
        co_await c.sleep_for(5s);
        done = true;
        if (failure) std::rethrow_exception(failure);
    };
    const auto parent = [](ManualClock& c, auto child, bool& done) -> Task<> {
        std::vector<Task<>> tasks;
        tasks.push_back(child(c, done));
        co_await when_all(std::move(tasks));
    };
    std::exception_ptr seen;
    run_advancing(clock, [](ManualClock& c, Task<> inner, std::exception_ptr& out) -> Task<> {
        TaskScope scope(co_await this_executor, ScopePolicy::collect);
        scope.spawn([](Task<> t, std::exception_ptr& e) -> Task<> {
            try {
                co_await std::move(t);
            } catch (...) {
                e = std::current_exception();
            }
        }(std::move(inner), out));
        co_await c.sleep_for(1s);
        scope.cancel();
        co_await scope.join();
    }(clock, parent(clock, slow_cleanup, cleaned), seen));
    EXPECT_TRUE(cleaned);
    EXPECT_TRUE(is_cancellation(seen));
}

TEST(TaskScope, BodyFailure_EndsTheChildren) {
    ManualClock clock;
    bool cancelled = false;
    auto body = [&](TaskScope& scope) -> Task<int> {
        scope.spawn(note_cancellation(clock, cancelled));
        co_await clock.sleep_for(1s);
        throw std::runtime_error("body");
    };
    EXPECT_THROW(run_advancing(clock, with_task_scope(body)), std::runtime_error);
    EXPECT_TRUE(cancelled);
}

TEST(TaskScope, ChildFailure_EndsTheBody) {
    ManualClock clock;
    auto body = [&](TaskScope& scope) -> Task<int> {
        scope.spawn(fail_after(clock, 1s, "child"));
        AsyncEvent never;
        co_await never.wait();
        co_return 1;
    };
    try {
        run_advancing(clock, with_task_scope(body));
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "child");
    }
}

TEST(TaskScope, Body_ReturnsItsValueAfterTheChildren) {
    ManualClock clock;
    bool ended = false;
    auto body = [&](TaskScope& scope) -> Task<std::string> {
        auto child = [](ManualClock& c, bool& flag) -> Task<> {
            co_await c.sleep_for(3s);
            flag = true;
        };
        scope.spawn(child(clock, ended));
        co_return "done";
    };
    EXPECT_EQ(run_advancing(clock, with_task_scope(body)), "done");
    EXPECT_TRUE(ended);
}

TEST(TaskScope, ParentCancelledBeforeJoin_CancelsTheChildren) {
    ManualClock clock;
    int live = 0;
    auto parent = [&]() -> Task<> {
        std::vector<Task<>> tasks;
        for (int i = 0; i < 3; ++i) {
            tasks.push_back([](ManualClock& c, Live) -> Task<> { co_await c.sleep_for(1h); }(
                                                         clock, Live(live)));
        }
        co_await when_all(std::move(tasks));
    };
    run([](auto make) -> Task<> {
        TaskScope scope(co_await this_executor);
        scope.cancel();
        auto child = make();
        scope.spawn(std::move(child));
        co_await scope.join();
        // A child that cancels its own parent from inside its first step.
        TaskScope outer(co_await this_executor);
        outer.spawn([](TaskScope& self, auto make_inner) -> Task<> {
            self.cancel();
            co_await make_inner();
        }(outer, make));
        co_await outer.join();
    }(parent));
    EXPECT_EQ(live, 0);
}

/// A tree of children that waits at many places; `steps` counts its suspensions.
Task<> tree(ManualClock& clock, int depth, Live live, int& steps) {
    ++steps;
    co_await yield_now();
    if (depth == 0) {
        ++steps;
        co_await clock.sleep_for(1s);
        co_return;
    }
    std::vector<Task<>> children;
    for (int i = 0; i < 2; ++i) children.push_back(tree(clock, depth - 1, live, steps));
    co_await when_all(std::move(children));
    ++steps;
    co_await clock.sleep_for(1s);
}

TEST(TaskScope, CancellationAtEachStep_LeavesNothing) {
    for (int after = 0;; ++after) {
        ManualClock clock;
        int live = 0;
        int steps = 0;
        bool finished = false;
        boost::asio::io_context context(1);
        {
            BackgroundScope scope(context.get_executor());
            scope.spawn([](Task<> task, bool& done) -> Task<> {
                co_await std::move(task);
                done = true;
            }(tree(clock, 3, Live(live), steps), finished));
            for (int i = 0; i < after; ++i) {
                if (context.poll_one() == 0) clock.advance_to_next();
            }
            scope.cancel();
            while (scope.live() > 0) {
                ASSERT_TRUE(context.poll_one() > 0 || clock.advance_to_next() || finished);
            }
            context.poll();
        }
        EXPECT_EQ(live, 0) << after;
        EXPECT_EQ(clock.pending_sleepers(), 0u) << after;
        if (finished) {
            EXPECT_GT(after, 40);
            break;
        }
    }
}

TEST(TaskScope, ContextDestroyedAtEachStep_LeavesNothing) {
    for (int after = 0; after < 80; ++after) {
        ManualClock clock;
        int live = 0;
        int steps = 0;
        auto context = std::make_unique<boost::asio::io_context>(1);
        auto scope = std::make_unique<BackgroundScope>(context->get_executor());
        scope->spawn(tree(clock, 3, Live(live), steps));
        for (int i = 0; i < after; ++i) {
            if (context->poll_one() == 0) clock.advance_to_next();
        }
        context.reset();
        scope.reset();
        EXPECT_EQ(live, 0) << after;
        EXPECT_EQ(clock.pending_sleepers(), 0u) << after;
    }
}

TEST(TaskScopeDeathTest, DestroyedWithLiveChildren_EndsTheProgram) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            ManualClock clock;
            run([](ManualClock& c) -> Task<> {
                TaskScope scope(co_await this_executor);
                scope.spawn(c.sleep_for(1h));
            }(clock));
        },
        "with_task_scope");
}

TEST(BackgroundScope, Close_CancelsAndWaits) {
    ManualClock clock;
    bool cancelled = false;
    run([](ManualClock& c, bool& flag) -> Task<> {
        BackgroundScope scope(co_await this_executor);
        scope.spawn(note_cancellation(c, flag));
        co_await yield_now();
        EXPECT_FALSE(flag);
        co_await scope.close();
        EXPECT_TRUE(flag);
        EXPECT_EQ(scope.live(), 0u);
    }(clock, cancelled));
}

TEST(BackgroundScope, Failures_AreReported) {
    int told = 0;
    run([](int& count) -> Task<> {
        auto fail = []() -> Task<> {
            co_await yield_now();
            throw std::runtime_error("x");
        };
        std::function<void(std::exception_ptr)> on_failure = [&count](std::exception_ptr) {
            ++count;
        };
        BackgroundScope scope(co_await this_executor, on_failure);
        scope.spawn(fail());
        scope.spawn(fail());
        co_await scope.idle();
        co_await scope.close();
        BackgroundScope quiet(co_await this_executor);
        quiet.spawn(fail());
        co_await quiet.idle();
        bool thrown = false;
        try {
            co_await quiet.close();
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        EXPECT_TRUE(thrown);
    }(told));
    EXPECT_EQ(told, 2);
}

TEST(BackgroundScope, DestroyedOwner_CancelsItsChildren) {
    ManualClock clock;
    int live = 0;
    run([](ManualClock& c, int& count) -> Task<> {
        {
            BackgroundScope scope(co_await this_executor);
            scope.spawn(
                [](ManualClock& cl, Live) -> Task<> { co_await cl.sleep_for(1h); }(c, Live(count)));
        }
        while (count > 0) co_await yield_now();
    }(clock, live));
    EXPECT_EQ(clock.pending_sleepers(), 0u);
}

// Across executors: cases that Boost 1.81's own tools do not support.

Task<> quick(std::atomic<int>& ran) {
    co_await yield_now();
    ++ran;
}

Task<> fail_soon() {
    co_await yield_now();
    throw std::runtime_error("x");
}

Task<> wait_for_ever(std::atomic<int>& cancelled) {
    AsyncEvent never;
    try {
        co_await never.wait();
    } catch (...) {
        if (is_cancellation(std::current_exception())) ++cancelled;
        throw;
    }
}

struct Stress {
    std::atomic<int> ran{0};
    std::atomic<int> cancelled{0};
    std::atomic<int> failed{0};
};

Task<> stress_round(boost::asio::thread_pool& pool, Stress& stress) {
    auto body = [&](TaskScope& scope) -> Task<> {
        scope.spawn(boost::asio::make_strand(pool), fail_soon());
        for (int i = 0; i < 4; ++i) scope.spawn(boost::asio::make_strand(pool), quick(stress.ran));
        scope.spawn(boost::asio::make_strand(pool), wait_for_ever(stress.cancelled));
        scope.spawn(wait_for_ever(stress.cancelled));
        co_return;
    };
    try {
        co_await with_task_scope(body);
    } catch (const std::runtime_error&) {
        ++stress.failed;
    }
}

TEST(TaskScopeStress, ManyStrandsOnFourThreads_LoseNoTask) {
    constexpr int rounds = 500;
    constexpr int loops = 3;
    Stress stress;
    boost::asio::thread_pool pool(4);
    std::vector<std::unique_ptr<BackgroundScope>> scopes;
    for (int i = 0; i < loops; ++i) {
        const Executor strand = boost::asio::make_strand(pool);
        BackgroundScope& scope = *scopes.emplace_back(std::make_unique<BackgroundScope>(strand));
        boost::asio::post(strand, [&] {
            scope.spawn([](boost::asio::thread_pool& p, Stress& s) -> Task<> {
                for (int round = 0; round < rounds; ++round) co_await stress_round(p, s);
            }(pool, stress));
        });
    }
    pool.join();
    for (const auto& scope : scopes) {
        EXPECT_EQ(scope->live(), 0u);
    }
    EXPECT_EQ(stress.failed, rounds * loops);
    EXPECT_LE(stress.cancelled, 2 * rounds * loops);
}

}  // namespace
}  // namespace cubepi
