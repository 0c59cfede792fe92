#include <bub/channel/steering_inbox.hpp>

#include <gtest/gtest.h>

namespace bub {
namespace {

TEST(SteeringInbox, B14_IsBoundedPerSessionAndReturnsTheOldestFirst) {
    MemorySteeringInbox inbox(2);
    EXPECT_TRUE(inbox.enqueue("a", Envelope("1")));
    EXPECT_TRUE(inbox.enqueue("a", Envelope("2")));
    EXPECT_FALSE(inbox.enqueue("a", Envelope("3")));
    EXPECT_TRUE(inbox.enqueue("b", Envelope("4")));
    EXPECT_EQ(inbox.count("a"), 2u);
    const std::vector<Envelope> drained = inbox.drain("a");
    ASSERT_EQ(drained.size(), 2u);
    EXPECT_EQ(drained.front().content_text(), "1");
    EXPECT_EQ(inbox.count("a"), 0u);
    EXPECT_TRUE(inbox.drain("unknown").empty());
    EXPECT_EQ(inbox.count("b"), 1u);
}

}  // namespace
}  // namespace bub
