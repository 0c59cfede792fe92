#include <cubepi/core/shared_value.hpp>

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

using Text = SharedValue<std::string>;

TEST(SharedValue, IsOneWordAndMayBeNone) {
    static_assert(sizeof(Text) == sizeof(void*));
    EXPECT_FALSE(Text());
    EXPECT_FALSE(Text(nullptr));
    EXPECT_EQ(Text(), nullptr);
    EXPECT_EQ(Text().get(), nullptr);
}

TEST(SharedValue, CopiesShareTheValue) {
    const Text one(std::string("a"));
    Text other = one;
    EXPECT_EQ(one.get(), other.get());
    const Text moved = std::move(other);
    EXPECT_EQ(one.get(), moved.get());
    EXPECT_EQ(*moved, "a");
    EXPECT_EQ(moved->size(), 1u);
}

TEST(SharedValue, EqualsByValue) {
    EXPECT_EQ(Text(std::string("a")), Text(std::string("a")));
    EXPECT_NE(Text(std::string("a")), Text(std::string("b")));
    EXPECT_NE(Text(std::string("a")), Text());
    EXPECT_EQ(Text(), Text());
}

TEST(SharedValue, TakesWhatASharedPointerHolds) {
    EXPECT_EQ(*Text(std::make_shared<const std::string>("a")), "a");
    EXPECT_FALSE(Text(std::shared_ptr<const std::string>()));
}

}  // namespace
}  // namespace cubepi
