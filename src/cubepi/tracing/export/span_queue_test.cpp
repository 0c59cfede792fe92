#include <cubepi/tracing/export/span_queue.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/tracing/export/export_test_support.hpp>

namespace cubepi::detail {
namespace {

TEST(SpanQueue, ReturnsSpansInOrder) {
    SpanQueue queue(3, 100);
    for (int round = 0; round < 5; ++round) {
        EXPECT_TRUE(queue.push(make_span("a"), 1));
        EXPECT_TRUE(queue.push(make_span("b"), 2));
        SpanQueue::Entry entry;
        ASSERT_TRUE(queue.pop(entry));
        EXPECT_EQ(entry.span->name, "a");
        ASSERT_TRUE(queue.pop(entry));
        EXPECT_EQ(entry.span->name, "b");
        EXPECT_EQ(entry.bytes, 2u);
        EXPECT_FALSE(queue.pop(entry));
        queue.release(3);
    }
    EXPECT_EQ(queue.added(), 10u);
    EXPECT_EQ(queue.taken(), 10u);
}

TEST(SpanQueue, RefusesMoreThanItsLimits) {
    SpanQueue queue(3, 100);
    EXPECT_FALSE(queue.push(make_span(), 101));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(make_span(), 1));
    EXPECT_FALSE(queue.push(make_span(), 1));
    EXPECT_EQ(queue.size(), 3u);
}

TEST(SpanQueue, CountsBytesUntilTheyAreReleased) {
    SpanQueue queue(8, 100);
    EXPECT_TRUE(queue.push(make_span(), 60));
    SpanQueue::Entry entry;
    ASSERT_TRUE(queue.pop(entry));
    EXPECT_FALSE(queue.push(make_span(), 60));
    queue.release(60);
    EXPECT_TRUE(queue.push(make_span(), 60));
}

TEST(SpanQueue, LosesNothingBetweenThreads) {
    constexpr int producers = 4;
    constexpr int each = 20000;
    SpanQueue queue(64, 1U << 20U);
    const std::shared_ptr<const SpanData> span = make_span();
    std::atomic<int> added = 0;
    std::atomic<int> refused = 0;
    std::atomic<int> running = producers;
    std::vector<std::thread> threads;
    for (int i = 0; i < producers; ++i) {
        threads.emplace_back([&] {
            for (int n = 0; n < each; ++n) {
                std::shared_ptr<const SpanData> copy = span;
                ++(queue.push(std::move(copy), 1) ? added : refused);
            }
            --running;
        });
    }
    int taken = 0;
    SpanQueue::Entry entry;
    for (bool more = true; more;) {
        more = running > 0;
        while (queue.pop(entry)) {
            EXPECT_EQ(entry.span, span);
            queue.release(entry.bytes);
            ++taken;
        }
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(taken, added);
    EXPECT_EQ(added + refused, producers * each);
    EXPECT_EQ(queue.size(), 0u);
    entry = SpanQueue::Entry();
    EXPECT_EQ(span.use_count(), 1);
}

}  // namespace
}  // namespace cubepi::detail
