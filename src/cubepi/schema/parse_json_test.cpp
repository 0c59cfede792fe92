#include <cubepi/schema/parse_json.hpp>

#include <charconv>
#include <cstdint>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

using namespace cubepi;

TEST(ParseJson, ReadsTheNearestDouble) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 20000; ++i) {
        const double number = static_cast<double>(random() >> 11U) * 0x1p-53;
        char buffer[40];
        const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
        const std::string text = "[" + std::string(buffer, end) + "]";
        ASSERT_EQ(parse_json(text).at(0).to_number<double>(), number) << text;
        ASSERT_EQ(parse_json(std::string(buffer, end)).to_number<double>(), number) << text;
    }
}

TEST(ParseJson, KeepsIntegersOf64BitsAndRoundsLargerOnes) {
    EXPECT_EQ(parse_json("-9223372036854775808").as_int64(), INT64_MIN);
    EXPECT_EQ(parse_json("18446744073709551615").as_uint64(), UINT64_MAX);
    EXPECT_EQ(parse_json("18446744073709551616").as_double(), 18446744073709551616.0);
}

TEST(ParseJson, LastOfDuplicateKeysWins) {
    EXPECT_EQ(parse_json(R"({"a":1,"b":2,"a":3})").at("a").as_int64(), 3);
}

TEST(ParseJson, RefusesWhatIsNotJson) {
    for (const auto* text :
         {"", " ", "{", "[1,]", "{a:1}", "NaN", "1e999", "-", "01", "\"\\ud800\"", "1 2",
          "\"\xff\"", "\"\n\"", "[1]x", "tru", "+1", ".5", "1."}) {
        JsonTextError error;
        EXPECT_TRUE(parse_json(text, error).is_null()) << text;
        EXPECT_TRUE(error) << text;
        EXPECT_THROW(parse_json(text), Error) << text;
    }
}

TEST(ParseJson, LimitsNesting) {
    const auto nested = [](std::size_t depth) {
        return std::string(depth, '[') + std::string(depth, ']');
    };
    JsonTextError error;
    parse_json(nested(max_json_depth), error);
    EXPECT_FALSE(error);
    parse_json(nested(max_json_depth + 1), error);
    EXPECT_TRUE(error);
}

TEST(ParseJson, NamesThePlace) {
    try {
        parse_json("[1, x]");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::parse);
        EXPECT_NE(std::string(error.what()).find("at byte 4 of 6"), std::string::npos)
            << error.what();
    }
}
