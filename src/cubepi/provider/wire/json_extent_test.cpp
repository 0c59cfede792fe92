#include <cubepi/provider/wire/json_extent.hpp>

#include <gtest/gtest.h>

#include <string_view>

namespace cubepi::detail {
namespace {

bool closed_in_one(std::string_view text) {
    JsonExtent extent;
    extent.add(text);
    return extent.is_closed();
}

bool closed_byte_by_byte(std::string_view text) {
    JsonExtent extent;
    for (std::size_t i = 0; i < text.size(); ++i) extent.add(text.substr(i, 1));
    return extent.is_closed();
}

TEST(JsonExtent, EndsWhereTheFirstValueEnds) {
    for (const std::string_view text :
         {R"({})", R"( {"a": [1, {"b": "}"}]} )", R"([])", R"({"a": "\"}"})", R"({"a": "\\"})"}) {
        EXPECT_TRUE(closed_in_one(text)) << text;
        EXPECT_TRUE(closed_byte_by_byte(text)) << text;
    }
}

TEST(JsonExtent, IsOpenBeforeThatAndInvalidAfterIt) {
    for (const std::string_view text :
         {"", "  ", "{", R"({"a": "}")", R"({"a": "\"})", "{}{}", "{} x", "1", "x{}"}) {
        EXPECT_FALSE(closed_in_one(text)) << text;
        EXPECT_FALSE(closed_byte_by_byte(text)) << text;
    }
}

}  // namespace
}  // namespace cubepi::detail
