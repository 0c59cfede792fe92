#include <cubepi/schema/python_json.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>

using namespace cubepi;

TEST(PythonJson, WritesAsJsonDumpsDoes) {
    EXPECT_EQ(to_python_json(parse_json(R"({"a":1,"b":[true,null,"x"],"c":{},"d":[],"e":-5})")),
              R"({"a": 1, "b": [true, null, "x"], "c": {}, "d": [], "e": -5})");
    EXPECT_EQ(to_python_json(Json(std::numeric_limits<std::uint64_t>::max())),
              "18446744073709551615");
}

TEST(PythonJson, EscapesAllButPrintableAscii) {
    EXPECT_EQ(to_python_json(Json("\"\\/\b\f\n\r\t\x01\x7f")), R"("\"\\/\b\f\n\r\t\u0001\u007f")");
    EXPECT_EQ(to_python_json(Json("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80")),
              R"("h\u00e9 \u20ac \ud83d\ude00")");
    EXPECT_EQ(to_python_json(Json("a\xFF\xC3")), R"("a\ufffd\ufffd")");
    EXPECT_EQ(to_python_json(Json(boost::json::string_view("a\0b", 3))), R"("a\u0000b")");
    EXPECT_EQ(to_python_json(JsonObject({{"k\xC3\xA9", 1}})), R"({"k\u00e9": 1})");
}

TEST(PythonJson, WritesNumbersAsReprDoes) {
    const std::pair<double, const char*> cases[] = {
        {1.0, "1.0"},
        {-0.0, "-0.0"},
        {0.0, "0.0"},
        {0.1, "0.1"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1.5e-7, "1.5e-07"},
        {1e100, "1e+100"},
        {5e-324, "5e-324"},
        {1e22, "1e+22"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {1731234567.123456, "1731234567.123456"},
        {9007199254740993.0, "9007199254740992.0"},
        {0.30000000000000004, "0.30000000000000004"},
        {std::numeric_limits<double>::infinity(), "Infinity"},
        {-std::numeric_limits<double>::infinity(), "-Infinity"},
        {std::numeric_limits<double>::quiet_NaN(), "NaN"}};
    for (const auto& [number, text] : cases) {
        EXPECT_EQ(to_python_json(Json(number)), text);
    }
}

TEST(PythonJson, RoundTrips) {
    const std::string text =
        R"({"content": [{"type": "text", "text": "caf\u00e9 \ud83d\ude00"}], "t": 1731234567.25, "n": 3, "e": 1e-05})";
    EXPECT_EQ(to_python_json(parse_lenient(text)), text);
}

TEST(ParseLenient, TakesWhatPythonTakes) {
    EXPECT_EQ(to_python_json(parse_lenient("[NaN, Infinity, -Infinity, 1, -1.5, 1e999, -1e999]")),
              "[null, null, null, 1, -1.5, null, null]");
    EXPECT_EQ(parse_lenient("[1180591620717411303424, NaN]").at(0).as_double(),
              1180591620717411303424.0);
    EXPECT_EQ(parse_lenient("1180591620717411303424").as_double(), 1180591620717411303424.0);
    EXPECT_EQ(parse_lenient(R"({"a": "caf\udce9.txt", "NaN": "NaN Infinity \" NaN"})"),
              parse_json("{\"a\": \"caf\xEF\xBF\xBD.txt\", \"NaN\": \"NaN Infinity \\\" NaN\"}"));
    EXPECT_EQ(parse_lenient(R"("\ud83d\ud83d\ude00\\ud83d")"),
              parse_json(R"("\ufffd\ud83d\ude00\\ud83d")"));
    EXPECT_EQ(parse_lenient("\"a\xFFz\""), parse_json(R"("a\ufffdz")"));
    std::string deep(400, '[');
    deep += std::string(400, ']');
    EXPECT_TRUE(parse_lenient(deep).is_array());
}

TEST(ParseLenient, StillRefusesTextThatIsNotJson) {
    for (const auto* text :
         {"", "{", "[1,]", "nan", "{'a':1}", "[NaN", "\"\\", "\"\\u", "Infinityx", "-"}) {
        EXPECT_THROW(parse_lenient(text), Error) << text;
    }
}
