#include <cubepi/core/worker_pool.hpp>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(WorkerPool, StartsNoThreadBeforeItIsUsed) {
    const WorkerPool pool(8);
    EXPECT_EQ(pool.stats().threads, 0u);
}

TEST(WorkerPool, NeverMoreThreadsThanAllowed) {
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

TEST(WorkerPool, JobsRunInOrderOfArrival) {
    std::string order;
    std::latch done(1);
    WorkerPool pool(1);
    for (const char letter : {'a', 'b', 'c'}) pool.post([&order, letter] { order += letter; });
    pool.post([&done] { done.count_down(); });
    done.wait();
    EXPECT_EQ(order, "abc");
}

TEST(WorkerPool, DestructionDropsWhatHasNotStartedAndWaitsForTheRest) {
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

TEST(WorkerPool, LastOwnerMayBeAJob) {
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
