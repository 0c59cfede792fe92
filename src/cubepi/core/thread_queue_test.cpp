#include <cubepi/core/thread_queue.hpp>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi {
namespace {

Task<std::vector<int>> read(int count, std::size_t capacity, std::exception_ptr failure) {
    ThreadQueue<int> queue(co_await this_executor, capacity);
    const auto writer = queue.writer();
    std::thread thread([writer, count, failure] {
        for (int i = 0; i < count; ++i) EXPECT_TRUE(writer.push(i));
        writer.close(failure);
    });
    std::vector<int> all;
    try {
        for (;;) {
            const std::optional<int> item = co_await queue.next();
            if (!item) break;
            all.push_back(*item);
        }
    } catch (const std::runtime_error&) {
        all.push_back(-1);
    }
    thread.join();
    co_return all;
}

TEST(ThreadQueue, ItemsOfAnotherThreadInOrder) {
    for (const std::size_t capacity : {0u, 1u, 7u, 5000u}) {
        const std::vector<int> all = run(read(2000, capacity, nullptr));
        ASSERT_EQ(all.size(), 2000u);
        for (int i = 0; i < 2000; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
    }
}

TEST(ThreadQueue, AFailureFollowsTheItems) {
    const auto failure = std::make_exception_ptr(std::runtime_error("engine"));
    EXPECT_EQ(run(read(2, 8, failure)), (std::vector<int>{0, 1, -1}));
}

Task<void> leave_early(std::shared_ptr<std::atomic<int>> pushed, std::thread* thread) {
    ThreadQueue<int> queue(co_await this_executor, 2);
    const auto writer = queue.writer();
    *thread = std::thread([writer, pushed] {
        while (writer.push(1)) ++*pushed;
    });
    (void)co_await queue.next();
}

TEST(ThreadQueue, AWriterEndsWhenTheReaderIsGone) {
    const auto pushed = std::make_shared<std::atomic<int>>(0);
    std::thread thread;
    run(leave_early(pushed, &thread));
    thread.join();
    EXPECT_GE(*pushed, 1);
}

Task<bool> cancelled_wait() {
    ThreadQueue<int> queue(co_await this_executor, 2);
    std::stop_source stop;
    stop.request_stop();
    Task<std::optional<int>> next = queue.next();
    const Outcome<std::optional<int>> ended =
        co_await outcome_of(cancel_on(stop.get_token(), std::move(next)));
    co_return ended.cancelled();
}

TEST(ThreadQueue, AWaitCanBeCancelled) { EXPECT_TRUE(run(cancelled_wait())); }

Task<std::size_t> full() {
    ThreadQueue<std::string> queue(co_await this_executor, 3);
    const auto writer = queue.writer();
    std::size_t taken = 0;
    while (writer.try_push("x")) ++taken;
    writer.close();
    EXPECT_FALSE(writer.try_push("y"));
    std::size_t read = 0;
    for (;;) {
        const std::optional<std::string> item = co_await queue.next();
        if (!item) break;
        ++read;
    }
    EXPECT_EQ(read, taken);
    co_return taken;
}

TEST(ThreadQueue, TryPushDoesNotWait) { EXPECT_EQ(run(full()), 3u); }

}  // namespace
}  // namespace cubepi
