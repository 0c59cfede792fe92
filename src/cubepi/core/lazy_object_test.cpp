#include <cubepi/core/lazy_object.hpp>

#include <utility>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(LazyObject, IsAnObjectOfOneWord) {
    static_assert(sizeof(LazyObject) == sizeof(void*));
    LazyObject object;
    EXPECT_TRUE(object.empty());
    EXPECT_EQ(object.find("a"), nullptr);
    EXPECT_EQ(object.get(), JsonObject());
    object.erase("a");
    object["a"] = 1;
    object.edit()["b"] = "x";
    EXPECT_EQ(*object.find("a"), 1);
    EXPECT_EQ(object.get(), JsonObject({{"a", 1}, {"b", "x"}}));
    object.erase("a");
    object.erase("b");
    EXPECT_TRUE(object.empty());
    EXPECT_EQ(object, LazyObject());
    EXPECT_EQ(LazyObject(JsonObject()), LazyObject());
}

TEST(LazyObject, KeysKeepTheirOrder) {
    LazyObject object = JsonObject{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}};
    object.erase("b");
    EXPECT_EQ(boost::json::serialize(object.get()), R"({"a":1,"c":3,"d":4})");
}

TEST(LazyObject, D22_CopiesAreApart) {
    LazyObject one = JsonObject{{"a", 1}};
    LazyObject copy = one;
    copy["a"] = 2;
    EXPECT_EQ(*one.find("a"), 1);
    EXPECT_NE(one, copy);
    one = copy;
    EXPECT_EQ(one, copy);
    const LazyObject taken = std::move(copy);
    EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(taken, one);
    one = *&one;
    EXPECT_EQ(taken, one);
}

}  // namespace
}  // namespace cubepi
