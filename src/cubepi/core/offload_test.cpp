#include <cubepi/core/offload.hpp>

#include <atomic>
#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi {
namespace {

/// A gate between threads.
class Gate {
public:
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return open_; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
};

void wait_until(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::yield();
}

TEST(Offload, Call_RunsElsewhereAndResumesHere) {
    WorkerPool pool(2);
    const auto here = std::this_thread::get_id();
    run([](WorkerPool& p, std::thread::id caller) -> Task<> {
        const auto there = co_await offload(p, [] { return std::this_thread::get_id(); });
        EXPECT_NE(there, caller);
        EXPECT_EQ(std::this_thread::get_id(), caller);
        auto text = std::make_unique<std::string>("moved");
        auto move_only = [owned = std::move(text)]() mutable { return std::move(owned); };
        const auto back = co_await offload(p, std::move(move_only));
        EXPECT_EQ(*back, "moved");
        co_await offload(p, [] {});
    }(pool, here));
    wait_until([&] { return pool.stats().running == 0; });
}

TEST(Offload, Exception_IsRethrownByTheCaller) {
    WorkerPool pool(1);
    auto fails = []() -> int { throw std::runtime_error("on the worker"); };
    EXPECT_THROW(run(offload(pool, fails)), std::runtime_error);
}

TEST(Offload, Cancellation_ReturnsAtOnceAndStopsTheToken) {
    WorkerPool pool(1);
    Gate started;
    Gate release;
    std::atomic<bool> stop_seen{false};
    auto blocking = [&](std::stop_token token) {
        started.open();
        release.wait();
        stop_seen = token.stop_requested();
    };
    auto cancel_it = [&]() -> Task<> {
        TaskScope scope(co_await this_executor);
        scope.spawn(offload(pool, blocking));
        started.wait();
        scope.cancel();
        co_await scope.join();
        EXPECT_EQ(pool.stats().stuck, 1u);
    };
    run(cancel_it());
    release.open();
    wait_until([&] { return pool.stats().running == 0; });
    EXPECT_TRUE(stop_seen);
    EXPECT_EQ(pool.stats().stuck, 0u);
}

TEST(Offload, CancelledBeforeStart_CallIsNeverMade) {
    WorkerPool pool(1);
    Gate started;
    Gate release;
    bool made = false;
    auto occupy = [&] {
        started.open();
        release.wait();
    };
    auto body = [&]() -> Task<> {
        TaskScope occupied(co_await this_executor);
        occupied.spawn(offload(pool, occupy));
        started.wait();
        TaskScope queued(co_await this_executor);
        queued.spawn(offload(pool, [&made] { made = true; }));
        queued.cancel();
        co_await queued.join();
        EXPECT_EQ(pool.stats().stuck, 0u);
        release.open();
        co_await occupied.join();
        co_await offload(pool, [] {});
    };
    run(body());
    EXPECT_FALSE(made);
}

TEST(Offload, StuckJob_DoesNotStarveTheOthers) {
    WorkerPool pool(1);
    Gate started;
    Gate release;
    auto occupy = [&] {
        started.open();
        release.wait();
    };
    auto body = [&]() -> Task<> {
        TaskScope stuck(co_await this_executor);
        stuck.spawn(offload(pool, occupy));
        started.wait();
        stuck.cancel();
        co_await stuck.join();
        const int answer = co_await offload(pool, [] { return 42; });
        EXPECT_EQ(answer, 42);
    };
    run(body());
    EXPECT_EQ(pool.stats().threads, 2u);
    release.open();
}

TEST(Offload, EventLoop_MayEndWhileTheThreadWorks) {
    WorkerPool pool(1);
    Gate started;
    Gate release;
    auto owned = std::make_shared<int>(1);
    {
        boost::asio::io_context context(1);
        BackgroundScope scope(context.get_executor());
        auto blocking = [&, owned] {
            started.open();
            release.wait();
            return *owned;
        };
        auto task = [](WorkerPool& p, auto f) -> Task<> {
            (void)co_await offload(p, std::move(f));
        };
        scope.spawn(task(pool, blocking));
        context.poll();
        started.wait();
    }
    EXPECT_EQ(pool.stats().stuck, 1u);
    release.open();
    wait_until([&] { return owned.use_count() == 1; });
}

TEST(Offload, CallsOfManyStrands_SurviveCancellations) {
    constexpr int loops = 4;
    constexpr int rounds = 100;
    WorkerPool workers(3);
    std::atomic<int> made{0};
    boost::asio::thread_pool pool(4);
    std::vector<std::unique_ptr<BackgroundScope>> scopes;
    auto round_trip = [](WorkerPool& w, std::atomic<int>& count) -> Task<> {
        for (int i = 0; i < rounds; ++i) {
            auto echo = [i] { return i; };
            const int got = co_await offload(w, std::move(echo));
            EXPECT_EQ(got, i);
            TaskScope scope(co_await this_executor);
            auto job = [&count] { ++count; };
            for (int k = 0; k < 3; ++k) scope.spawn(offload(w, job));
            if (i % 2 == 0) scope.cancel();
            co_await scope.join();
        }
    };
    for (int i = 0; i < loops; ++i) {
        const Executor strand = boost::asio::make_strand(pool);
        BackgroundScope& scope = *scopes.emplace_back(std::make_unique<BackgroundScope>(strand));
        boost::asio::post(strand, [&] { scope.spawn(round_trip(workers, made)); });
    }
    pool.join();
    EXPECT_GE(made, loops * rounds / 2 * 3);
    wait_until([&] { return workers.stats().running == 0; });
    EXPECT_EQ(workers.stats().stuck, 0u);
}

TEST(WorkerPool, UnusedPool_StartsNoThread) {
    const WorkerPool pool(8);
    EXPECT_EQ(pool.stats().threads, 0u);
}

TEST(WorkerPool, ManyJobs_UseNoMoreThreadsThanAllowed) {
    std::atomic<int> ran{0};
    {
        std::latch both(2);
        std::latch all(100);
        WorkerPool pool(2);
        for (int i = 0; i < 2; ++i) {
            pool.post([&] {
                both.arrive_and_wait();
                ++ran;
            });
        }
        both.wait();
        for (int i = 0; i < 100; ++i) {
            pool.post([&] {
                ++ran;
                all.count_down();
            });
        }
        all.wait();
        EXPECT_EQ(pool.stats().threads, 2u);
        EXPECT_EQ(pool.stats().queued, 0u);
    }
    EXPECT_EQ(ran, 102);
}

TEST(WorkerPool, Jobs_RunInOrderOfArrival) {
    std::string order;
    std::latch done(1);
    WorkerPool pool(1);
    for (const char letter : {'a', 'b', 'c'}) pool.post([&order, letter] { order += letter; });
    pool.post([&done] { done.count_down(); });
    done.wait();
    EXPECT_EQ(order, "abc");
}

TEST(WorkerPool, Destruction_DropsQueuedJobsAndAwaitsRunningOnes) {
    auto token = std::make_shared<int>(0);
    std::atomic<bool> ended{false};
    std::latch started(1);
    std::latch release(1);
    std::thread opener;
    {
        WorkerPool pool(1);
        pool.post([&] {
            started.count_down();
            release.wait();
            ended = true;
        });
        started.wait();
        pool.post([token] { ++*token; });
        opener = std::thread([&] {
            while (token.use_count() > 1) std::this_thread::yield();  // the queue was dropped
            release.count_down();
        });
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(*token, 0);
    opener.join();
}

TEST(WorkerPool, JobIsLastOwner_PoolIsReleased) {
    const auto released = std::make_shared<std::latch>(1);
    const auto done = std::make_shared<std::latch>(1);
    auto pool = std::make_shared<WorkerPool>(1);
    pool->post([own = pool, released, done]() mutable {
        released->wait();
        own.reset();
        done->count_down();
    });
    pool.reset();
    released->count_down();
    done->wait();
}

}  // namespace
}  // namespace cubepi
