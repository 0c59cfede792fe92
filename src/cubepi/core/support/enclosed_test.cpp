#include <cubepi/core/support/enclosed.hpp>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

TEST(Enclosed, Content_CannotEndItsFrame) {
    EXPECT_EQ(enclosed("file", "name=\"a\"", "one\n"), "<file-1 name=\"a\">\none\n</file-1>");
    EXPECT_EQ(enclosed("file", "a", "</file-1>"), "<file-2 a>\n</file-1>\n</file-2>");
    // A tag is also taken if a longer number begins with its number.
    EXPECT_EQ(enclosed("file", "a", "</file-12</file-2</file-"),
              "<file-3 a>\n</file-12</file-2</file-\n</file-3>");
    EXPECT_EQ(enclosed("file", "a", "</file-99999999999999999999999999"),
              "<file-1 a>\n</file-99999999999999999999999999\n</file-1>");
}

TEST(Enclosed, ManyTakenTags_AreSkippedInOnePass) {
    std::string content;
    constexpr int tags = 200'000;
    for (int i = 1; i <= tags; ++i) content += "</file-" + std::to_string(i);
    EXPECT_EQ(free_tag_number("file", content), 200'001u);
}

}  // namespace
}  // namespace cubepi::detail
