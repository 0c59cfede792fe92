#include <cubepi/schema/json_text.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/partial_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {
namespace {

TEST(ParseJson, DecimalNumber_BecomesTheNearestDouble) {
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

TEST(ParseJson, LargeIntegers_AreRetainedOrRounded) {
    EXPECT_EQ(parse_json("-9223372036854775808").as_int64(), INT64_MIN);
    EXPECT_EQ(parse_json("18446744073709551615").as_uint64(), UINT64_MAX);
    EXPECT_EQ(parse_json("18446744073709551616").as_double(), 18446744073709551616.0);
}

TEST(ParseJson, DuplicateKeys_KeepTheLastValue) {
    EXPECT_EQ(parse_json(R"({"a":1,"b":2,"a":3})").at("a").as_int64(), 3);
}

TEST(ParseJson, InvalidJson_IsRefused) {
    for (const auto* text :
         {"", " ", "{", "[1,]", "{a:1}", "NaN", "1e999", "-", "01", "\"\\ud800\"", "1 2",
          "\"\xff\"", "\"\n\"", "[1]x", "tru", "+1", ".5", "1."}) {
        JsonTextError error;
        EXPECT_TRUE(parse_json(text, error).is_null()) << text;
        EXPECT_TRUE(error) << text;
        EXPECT_THROW(parse_json(text), Error) << text;
    }
}

TEST(ParseJson, DeepNesting_IsRefused) {
    const auto nested = [](std::size_t depth) {
        return std::string(depth, '[') + std::string(depth, ']');
    };
    JsonTextError error;
    parse_json(nested(max_json_depth), error);
    EXPECT_FALSE(error);
    parse_json(nested(max_json_depth + 1), error);
    EXPECT_TRUE(error);
}

TEST(ParseJson, ParseError_NamesItsPosition) {
    try {
        parse_json("[1, x]");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::parse);
        EXPECT_NE(std::string(error.what()).find("at byte 4 of 6"), std::string::npos)
            << error.what();
    }
}

struct PartialCase {
    std::string_view text;
    std::string_view value;
    ArgumentsState state;
};

void PrintTo(const PartialCase& c, std::ostream* out) { *out << c.text; }

std::string shown(const JsonObject& object) { return boost::json::serialize(object); }

class PartialJson : public ::testing::TestWithParam<PartialCase> {};

constexpr auto exact = ArgumentsState::exact;
constexpr auto repaired = ArgumentsState::repaired;
constexpr auto closed = ArgumentsState::closed;
constexpr auto invalid = ArgumentsState::invalid;

TEST_P(PartialJson, PartialText_YieldsTheReceivedValues) {
    const auto& [text, value, state] = GetParam();
    const auto parsed = parse_arguments(text);
    EXPECT_EQ(shown(parsed.value), value);
    EXPECT_EQ(static_cast<int>(parsed.state), static_cast<int>(state));
    EXPECT_EQ(parsed.problem.empty(), parsed.runnable());
}

INSTANTIATE_TEST_SUITE_P(
    Whole, PartialJson,
    ::testing::Values(PartialCase{"", "{}", exact}, PartialCase{" \n", "{}", invalid},
                      PartialCase{"{}", "{}", exact},
                      PartialCase{R"({"a": 1})", R"({"a":1})", exact},
                      PartialCase{R"({"a": 1, "a": 2})", R"({"a":2})", exact},
                      PartialCase{"{\"a\": \"x\ny\"}", R"({"a":"x\ny"})", repaired},
                      PartialCase{R"({"p": "C:\xyz"})", R"({"p":"C:\\xyz"})", repaired},
                      PartialCase{R"({"p": "\u12"})", R"({"p":"\\u12"})", repaired},
                      PartialCase{R"({"p": "a\ud83d!"})", "{\"p\":\"a\xEF\xBF\xBD!\"}", repaired},
                      PartialCase{R"({"a": 123456789012345678901234567890})",
                                  R"({"a":1.2345678901234568E29})", exact}));

INSTANTIATE_TEST_SUITE_P(
    CutOff, PartialJson,
    ::testing::Values(
        PartialCase{R"({"a": 1)", R"({"a":1})", closed},
        PartialCase{R"({"a": 1,)", R"({"a":1})", closed}, PartialCase{R"({"a)", "{}", closed},
        PartialCase{R"({"a":)", "{}", closed}, PartialCase{R"({"a")", "{}", closed},
        PartialCase{R"({"a": tru)", "{}", closed},
        PartialCase{R"({"a": true)", R"({"a":true})", closed},
        PartialCase{R"({"a": 1e)", "{}", closed}, PartialCase{R"({"a":-)", "{}", closed},
        PartialCase{R"({"a": 1, "b": tru)", R"({"a":1})", closed},
        PartialCase{R"({"a": 1, "b)", R"({"a":1})", closed},
        PartialCase{R"({"a": "hel)", R"({"a":"hel"})", closed},
        PartialCase{R"({"a": [1, {"b": "c)", R"({"a":[1,{"b":"c"}]})", closed},
        PartialCase{R"({"a": [1, 2,)", R"({"a":[1,2]})", closed},
        PartialCase{R"({"a": [1], "b": {)", R"({"a":[1],"b":{}})", closed},
        PartialCase{"{", "{}", closed}, PartialCase{" {", "{}", closed},
        PartialCase{R"({"a": "x\)", R"({"a":"x"})", closed},
        PartialCase{R"({"a": "x\u00)", R"({"a":"x"})", closed},
        PartialCase{R"({"a": "x\ud83d)", R"({"a":"x"})", closed},
        PartialCase{R"({"a": "x\ud83d\u)", R"({"a":"x"})", closed},
        PartialCase{R"({"a": "x\ud83d\ude00)", "{\"a\":\"x\xF0\x9F\x98\x80\"}", closed},
        PartialCase{"{\"a\": \"x\xF0\x9F\x98", R"({"a":"x"})", closed},
        PartialCase{"{\"a\": \"x\ny", R"({"a":"x\ny"})", closed},
        PartialCase{R"({"a": "C:\q)", R"({"a":"C:\\q"})", closed},
        PartialCase{"{\"a\": \"x\xFFy\"}", "{\"a\":\"x\xEF\xBF\xBDy\"}", closed}));

INSTANTIATE_TEST_SUITE_P(
    NoObject, PartialJson,
    ::testing::Values(PartialCase{"[1,2]", "{}", invalid}, PartialCase{"42", "{}", invalid},
                      PartialCase{"\"x\"", "{}", invalid}, PartialCase{"null", "{}", invalid},
                      PartialCase{R"({"a":1}{"b":2})", "{}", invalid},
                      PartialCase{"```json\n{}\n```", "{}", invalid},
                      PartialCase{"{'a': 1}", "{}", invalid},
                      PartialCase{R"({"a": NaN})", "{}", invalid},
                      PartialCase{R"({"a": -Infinity})", "{}", invalid},
                      PartialCase{R"({"a": 1e999})", "{}", invalid},
                      PartialCase{R"({"a": 1]})", "{}", invalid},
                      PartialCase{R"({"a": 1x, "b": 2)", "{}", invalid},
                      PartialCase{R"({"a" 1)", "{}", invalid}, PartialCase{R"({,)", "{}", invalid},
                      PartialCase{R"({"a": [1,2)"
                                  "})",
                                  "{}", invalid},
                      PartialCase{"[1, 2", "{}", invalid}, PartialCase{"}", "{}", invalid},
                      PartialCase{R"({"a": xyz)", "{}", invalid}));

TEST(PartialJson, D4_IncompleteText_NeverRuns) {
    const std::string whole = R"({"path": "/tmp/x", "list": [1, {"k": "v\n"}], "ok": true})";
    for (std::size_t length = 1; length < whole.size(); ++length) {
        const auto parsed = parse_arguments(std::string_view(whole).substr(0, length));
        EXPECT_FALSE(parsed.runnable()) << length;
        EXPECT_EQ(parsed.state, ArgumentsState::closed) << length;
    }
    EXPECT_TRUE(parse_arguments(whole).runnable());
}

TEST(PartialJson, LongerPrefix_ExtendsTheValue) {
    const std::string whole =
        R"({"a": "one two", "b": [true, null, "x"], "c": {"d": 1.5, "e": -2}})";
    std::size_t longest = 0;
    for (std::size_t length = 1; length <= whole.size(); ++length) {
        const auto parsed = parse_arguments(std::string_view(whole).substr(0, length));
        EXPECT_GE(parsed.value.size(), longest) << length;
        longest = parsed.value.size();
    }
    EXPECT_EQ(longest, 3U);
}

TEST(PartialJson, AnyBytes_AreAccepted) {
    std::mt19937 random(11);
    const std::string_view pieces[] = {"{",  "}",  "[",        "]",        "\"",   "\\", ",", ":",
                                       "1",  "-",  "e",        "tru",      "\\u",  "d8", "x", " ",
                                       "\n", "\0", "\xF0\x9F", "\xC3\xA9", "null", "a"};
    for (int round = 0; round < 20000; ++round) {
        std::string text = round % 2 == 0 ? "{\"" : "";
        const auto count = random() % 12;
        for (unsigned i = 0; i < count; ++i) text += pieces[random() % std::size(pieces)];
        const auto parsed = parse_arguments(text);
        if (parsed.state == ArgumentsState::exact && !text.empty()) {
            JsonTextError error;
            parse_json(text, error);
            EXPECT_TRUE(!error || text.find_first_not_of(" \n") == std::string::npos) << text;
        }
    }
    EXPECT_EQ(parse_arguments(std::string(100000, '{')).state, ArgumentsState::invalid);
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += "{\"a\":[";
    EXPECT_EQ(parse_arguments(deep).state, ArgumentsState::invalid);
}

TEST(RepairJson, Repair_ChangesOnlyStrings) {
    EXPECT_EQ(repair_json(R"({"a": "b\n", 'c'})"), R"({"a": "b\n", 'c'})");
    EXPECT_EQ(repair_json("\"\b\f\n\r\t\x01\""), R"("\b\f\n\r\t\u0001")");
    EXPECT_EQ(repair_json(R"("\q\/\u00e9\ud83d\ude00\uzz")"), R"("\\q\/\u00e9\ud83d\ude00\\uzz")");
    EXPECT_EQ(repair_json("\"a\\"), "\"a\\\\");
    EXPECT_EQ(repair_json(R"("\udc00")"), R"("\ufffd")");
    EXPECT_EQ(repair_json("\n\\x"), "\n\\x");
}

TEST(PythonJson, Output_EqualsJsonDumps) {
    EXPECT_EQ(to_python_json(parse_json(R"({"a":1,"b":[true,null,"x"],"c":{},"d":[],"e":-5})")),
              R"({"a": 1, "b": [true, null, "x"], "c": {}, "d": [], "e": -5})");
    EXPECT_EQ(to_python_json(Json(std::numeric_limits<std::uint64_t>::max())),
              "18446744073709551615");
}

TEST(PythonJson, AllButPrintableAscii_IsEscaped) {
    EXPECT_EQ(to_python_json(Json("\"\\/\b\f\n\r\t\x01\x7f")), R"("\"\\/\b\f\n\r\t\u0001\u007f")");
    EXPECT_EQ(to_python_json(Json("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80")),
              R"("h\u00e9 \u20ac \ud83d\ude00")");
    EXPECT_EQ(to_python_json(Json("a\xFF\xC3")), R"("a\ufffd\ufffd")");
    EXPECT_EQ(to_python_json(Json(boost::json::string_view("a\0b", 3))), R"("a\u0000b")");
    EXPECT_EQ(to_python_json(JsonObject({{"k\xC3\xA9", 1}})), R"({"k\u00e9": 1})");
}

TEST(PythonJson, Numbers_AreWrittenLikeRepr) {
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

TEST(PythonJson, Output_RoundTrips) {
    const std::string text =
        R"({"content": [{"type": "text", "text": "caf\u00e9 \ud83d\ude00"}], "t": 1731234567.25, "n": 3, "e": 1e-05})";
    EXPECT_EQ(to_python_json(parse_lenient(text)), text);
}

TEST(ParseLenient, PythonExtensions_AreAccepted) {
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

TEST(ParseLenient, InvalidJson_IsRefused) {
    for (const auto* text :
         {"", "{", "[1,]", "nan", "{'a':1}", "[NaN", "\"\\", "\"\\u", "Infinityx", "-"}) {
        EXPECT_THROW(parse_lenient(text), Error) << text;
    }
}

TEST(JsonText, Numbers_UseDecimalNotation) {
    EXPECT_EQ(json_text(Json(1.5)), "1.5");
    EXPECT_EQ(json_text(JsonObject{{"degrees", 21.5}, {"n", 1}}), R"({"degrees":21.5,"n":1})");
    EXPECT_EQ(json_text(Json(3.0)), "3.0");
    EXPECT_EQ(json_text(Json(-7)), "-7");
    EXPECT_EQ(json_text(Json(std::numeric_limits<double>::infinity())), "null");
    EXPECT_EQ(json_text(JsonObject{{"a", JsonArray{1, 0.25, nullptr, true}},
                                   {"b \"c\"", JsonObject{{"d", "\u00e9\n"}}},
                                   {"e", JsonArray()}}),
              "{\"a\":[1,0.25,null,true],\"b \\\"c\\\"\":{\"d\":\"\u00e9\\n\"},\"e\":[]}");
}

TEST(JsonText, WrittenText_ReadsBackAsTheSameValue) {
    const Json value(JsonObject{{"a", 0.1}, {"b", 1e300}, {"c", JsonArray{1, "x"}}});
    EXPECT_EQ(parse_json(json_text(value)), value);
}

TEST(JsonText, DeeplyNestedValue_IsWritten) {
    // Values of this resource are not destroyed one by one, which would be recursive.
    boost::json::monotonic_resource memory;
    constexpr std::size_t levels = 500'000;
    Json value(boost::json::array_kind, &memory);
    for (std::size_t i = 1; i < levels; ++i) {
        Json outer(boost::json::array_kind, &memory);
        outer.get_array().push_back(std::move(value));
        value = std::move(outer);
    }
    const std::string text = json_text(value);
    ASSERT_EQ(text.size(), 2 * levels);
    EXPECT_TRUE(text.starts_with("[[[") && text.ends_with("]]]"));
}

}  // namespace
}  // namespace cubepi
