#include <cubepi/schema/json_text.hpp>

#include <limits>

#include <gtest/gtest.h>

#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

TEST(JsonText, WritesNumbersInDecimalNotation) {
    EXPECT_EQ(json_text(Json(1.5)), "1.5");
    EXPECT_EQ(json_text(Json(3.0)), "3.0");
    EXPECT_EQ(json_text(Json(-7)), "-7");
    EXPECT_EQ(json_text(Json(std::numeric_limits<double>::infinity())), "null");
    EXPECT_EQ(json_text(JsonObject{{"a", JsonArray{1, 0.25, nullptr, true}},
                                   {"b \"c\"", JsonObject{{"d", "\u00e9\n"}}},
                                   {"e", JsonArray()}}),
              "{\"a\":[1,0.25,null,true],\"b \\\"c\\\"\":{\"d\":\"\u00e9\\n\"},\"e\":[]}");
}

TEST(JsonText, IsReadBackAsTheSameValue) {
    const Json value(JsonObject{{"a", 0.1}, {"b", 1e300}, {"c", JsonArray{1, "x"}}});
    EXPECT_EQ(parse_json(json_text(value)), value);
}

}  // namespace
}  // namespace cubepi
