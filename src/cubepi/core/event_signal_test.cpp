#include <cubepi/core/event_signal.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/thread_queue.hpp>

namespace cubepi {
namespace {

Task<> wait_and_note(AsyncEvent& event, std::vector<int>& order, int number) {
    co_await event.wait();
    order.push_back(number);
}

TEST(AsyncEvent, Set_WakesAllWaitersInOrder) {
    std::vector<int> order;
    run([](std::vector<int>& seen) -> Task<> {
        AsyncEvent event;
        TaskScope scope(co_await this_executor);
        for (int i = 0; i < 3; ++i) scope.spawn(wait_and_note(event, seen, i));
        EXPECT_EQ(event.waiters(), 3u);
        event.set();
        event.reset();
        EXPECT_TRUE(seen.empty());  // never from inside set()
        co_await scope.join();
    }(order));
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(AsyncEvent, SetEvent_DoesNotWait) {
    run([]() -> Task<> {
        AsyncEvent event(true);
        co_await event.wait();
        event.reset();
        EXPECT_FALSE(event.is_set());
    }());
}

TEST(AsyncEvent, Pulse_LeavesTheFlag) {
    std::vector<int> order;
    run([](std::vector<int>& seen) -> Task<> {
        AsyncEvent event;
        TaskScope scope(co_await this_executor);
        scope.spawn(wait_and_note(event, seen, 1));
        event.pulse();
        EXPECT_FALSE(event.is_set());
        co_await scope.join();
    }(order));
    EXPECT_EQ(order.size(), 1u);
}

TEST(AsyncEvent, CancelledWaiter_LeavesTheOthersInPlace) {
    std::vector<int> order;
    run([](std::vector<int>& seen) -> Task<> {
        AsyncEvent event;
        TaskScope stays(co_await this_executor);
        TaskScope goes(co_await this_executor);
        stays.spawn(wait_and_note(event, seen, 1));
        goes.spawn(wait_and_note(event, seen, 2));
        stays.spawn(wait_and_note(event, seen, 3));
        goes.cancel();
        co_await goes.join();
        EXPECT_EQ(event.waiters(), 2u);
        event.set();
        co_await stays.join();
    }(order));
    EXPECT_EQ(order, (std::vector<int>{1, 3}));
}

TEST(AsyncEvent, CancellationAfterWakeup_IsSeenAtNextAwait) {
    std::vector<int> order;
    run([](std::vector<int>& seen) -> Task<> {
        AsyncEvent event;
        TaskScope scope(co_await this_executor);
        auto twice = [](AsyncEvent& e, std::vector<int>& s) -> Task<> {
            co_await e.wait();
            s.push_back(1);
            co_await yield_now();
            s.push_back(2);
        };
        scope.spawn(twice(event, seen));
        event.set();
        scope.cancel();
        co_await scope.join();
    }(order));
    EXPECT_EQ(order, (std::vector<int>{1}));
}

TEST(AsyncEvent, Destruction_EndsTheWait) {
    bool cancelled = false;
    run([](bool& flag) -> Task<> {
        auto event = std::make_unique<AsyncEvent>();
        auto waiter = [](AsyncEvent& e, bool& f) -> Task<> {
            try {
                co_await e.wait();
            } catch (...) {
                f = is_cancellation(std::current_exception());
            }
        };
        TaskScope scope(co_await this_executor);
        scope.spawn(waiter(*event, flag));
        event.reset();
        co_await scope.join();
    }(cancelled));
    EXPECT_TRUE(cancelled);
}

TEST(AsyncEvent, DestroyedExecutionContext_RemovesItsWaiters) {
    AsyncEvent event;
    auto token = std::make_shared<int>(1);
    {
        boost::asio::io_context context(1);
        BackgroundScope scope(context.get_executor());
        scope.spawn(
            [](AsyncEvent& e, std::shared_ptr<int>) -> Task<> { co_await e.wait(); }(event, token));
        context.poll();
        EXPECT_EQ(event.waiters(), 1u);
        EXPECT_EQ(token.use_count(), 2);
    }
    EXPECT_EQ(event.waiters(), 0u);
    EXPECT_EQ(token.use_count(), 1);
}

Task<> produce(AsyncQueue<std::string>& queue, int count) {
    for (int i = 0; i < count; ++i) {
        std::string item = std::to_string(i);
        const bool taken = co_await queue.push(std::move(item));
        EXPECT_TRUE(taken);
        EXPECT_LE(queue.size(), 2u);
    }
    queue.close();
}

TEST(AsyncQueue, FullQueue_HoldsTheProducerBack) {
    std::vector<std::string> seen;
    run([](std::vector<std::string>& out) -> Task<> {
        AsyncQueue<std::string> queue(2);
        TaskScope scope(co_await this_executor);
        scope.spawn(produce(queue, 20));
        EXPECT_EQ(queue.size(), 2u);
        while (auto item = co_await queue.next()) out.push_back(*item);
        co_await scope.join();
    }(seen));
    ASSERT_EQ(seen.size(), 20u);
    EXPECT_EQ(seen.front(), "0");
    EXPECT_EQ(seen.back(), "19");
}

TEST(AsyncQueue, ClosedQueue_IsDrainedBeforeItThrows) {
    run([]() -> Task<> {
        AsyncQueue<int> queue(4);
        EXPECT_TRUE(queue.try_push(1));
        EXPECT_TRUE(queue.force_push(2));
        queue.close(std::make_exception_ptr(std::runtime_error("broken")));
        EXPECT_FALSE(queue.try_push(3));
        const auto first = co_await queue.next();
        EXPECT_EQ(first, 1);
        EXPECT_EQ(queue.try_next(), 2);
        EXPECT_EQ(queue.try_next(), std::nullopt);
        bool thrown = false;
        try {
            (void)co_await queue.next();
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        EXPECT_TRUE(thrown);
    }());
}

TEST(AsyncQueue, Close_ReleasesProducersAndConsumers) {
    run([]() -> Task<> {
        AsyncQueue<int> full(1);
        AsyncQueue<int> empty(1);
        EXPECT_TRUE(full.try_push(1));
        EXPECT_FALSE(full.try_push(2));
        auto producer = [](AsyncQueue<int>& q) -> Task<> {
            const bool taken = co_await q.push(2);
            EXPECT_FALSE(taken);
        };
        auto consumer = [](AsyncQueue<int>& q) -> Task<> {
            const auto item = co_await q.next();
            EXPECT_FALSE(item);
        };
        TaskScope scope(co_await this_executor);
        scope.spawn(producer(full));
        scope.spawn(consumer(empty));
        full.close();
        empty.close();
        co_await scope.join();
    }());
}

TEST(AsyncQueue, CancelledConsumer_LosesNoItem) {
    run([]() -> Task<> {
        AsyncQueue<int> queue(4);
        int got = 0;
        auto consumer = [](AsyncQueue<int>& q, int& out) -> Task<> {
            const auto item = co_await q.next();
            if (item) out += *item;
        };
        TaskScope first(co_await this_executor);
        TaskScope second(co_await this_executor);
        first.spawn(consumer(queue, got));
        second.spawn(consumer(queue, got));
        EXPECT_TRUE(queue.try_push(1));
        first.cancel();
        co_await first.join();
        EXPECT_TRUE(queue.try_push(10));
        co_await second.join();
        EXPECT_EQ(got + static_cast<int>(queue.size()) * 10, 11);
    }());
}

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

TEST(ThreadQueue, ItemsOfAnotherThread_ArriveInOrder) {
    for (const std::size_t capacity : {0u, 1u, 7u, 5000u}) {
        const std::vector<int> all = run(read(2000, capacity, nullptr));
        ASSERT_EQ(all.size(), 2000u);
        for (int i = 0; i < 2000; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
    }
}

TEST(ThreadQueue, Failure_FollowsTheItems) {
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

TEST(ThreadQueue, ReaderIsGone_EndsTheWriter) {
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

TEST(ThreadQueue, Wait_CanBeCancelled) { EXPECT_TRUE(run(cancelled_wait())); }

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

TEST(ThreadQueue, TryPush_DoesNotWait) { EXPECT_EQ(run(full()), 3u); }

}  // namespace
}  // namespace cubepi
