#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {

namespace {

using detail::exact_json;
using detail::is_server_json_of;
using detail::server_json_text;
using detail::survives_server_json;

Json parsed(const char* text) { return parse_lenient(text); }

TEST(ServerJson, D71_Column_GetsTheNearestStorableValue) {
    JsonObject object;
    object["nul"] = std::string("a\0b", 3);
    object["nan"] = std::numeric_limits<double>::quiet_NaN();
    object["big"] = std::numeric_limits<std::uint64_t>::max();
    object["list"] = JsonArray{1, 1.0, "Zo\xc3\xab"};
    EXPECT_EQ(server_json_text(object),
              R"({"nul": "a\ufffdb", "nan": null, "big": 18446744073709551615, )"
              R"("list": [1, 1.0, "Zo\u00eb"]})");
}

TEST(ServerJson, SurvivesServerJson_DetectsUnchangedValues) {
    for (const char* text : {"null", "1", "1.5", "9007199254740993", "\"x\"", "{}",
                             R"({"a": 1, "b": 2, "aa": {"x": [1, 2]}})"})
        EXPECT_TRUE(survives_server_json(parsed(text))) << text;
    for (const char* text : {"1e16", "-0.0", "\"\\u0000\"", R"({"b": 1, "a": 2})",
                             R"({"aa": 1, "b": 2})", R"([{"b": 1, "a": 2}])", R"({"\u0000": 1})"})
        EXPECT_FALSE(survives_server_json(parsed(text))) << text;
}

TEST(ServerJson, Comparison_UsesTheExactValue) {
    EXPECT_TRUE(is_server_json_of(parsed(R"({"a": 2, "b": 1})"), parsed(R"({"b": 1, "a": 2})")));
    EXPECT_TRUE(is_server_json_of(parsed("10000000000000000"), parsed("1e16")));
    EXPECT_TRUE(is_server_json_of(parsed("\"a\\ufffd\""), parsed("\"a\\u0000\"")));
    EXPECT_TRUE(is_server_json_of(Json(nullptr), Json(std::numeric_limits<double>::infinity())));
    EXPECT_FALSE(is_server_json_of(parsed("9007199254740993"), parsed("9007199254740992")));
    EXPECT_FALSE(is_server_json_of(parsed("true"), parsed("1")));
    EXPECT_FALSE(is_server_json_of(parsed("[1]"), parsed("[1, 2]")));
    EXPECT_FALSE(is_server_json_of(parsed(R"({"a": 1})"), parsed(R"({"a": 1, "b": 1})")));
}

TEST(ServerJson, D41_ExactText_CountsWhileTheColumnMatches) {
    const auto text = [](const Json& json) { return to_python_json(json); };
    const std::string exact = R"({"b": {"y": 1, "x": 2}, "a": "\u0000"})";
    EXPECT_EQ(text(exact_json(parsed(R"({"a": "\ufffd", "b": {"x": 2, "y": 1}})"), exact)), exact);
    // CubePi has changed a, removed nothing, and added c.
    EXPECT_EQ(text(exact_json(parsed(R"({"a": 7, "b": {"x": 2, "y": 1}, "c": 8})"), exact)),
              R"({"b": {"y": 1, "x": 2}, "a": 7, "c": 8})");
    EXPECT_EQ(text(exact_json(parsed(R"({"c": 8})"), exact)), R"({"c": 8})");
    EXPECT_EQ(text(exact_json(parsed("[1]"), exact)), "[1]");
    EXPECT_EQ(text(exact_json(parsed(R"({"a": 1})"), std::nullopt)), R"({"a": 1})");
}

}  // namespace

}  // namespace cubepi

namespace cubepi::detail {

namespace {

JsonObject object(const char* text) { return boost::json::parse(text).as_object(); }

TEST(ExtraText, D19_Merge_IsShallowAndNullRemoves) {
    EXPECT_EQ(merge_extra_text("{}", object("{}")), "{}");
    EXPECT_EQ(merge_extra_text("{}", object(R"({"a": 1, "b": null})")), R"({"a": 1})");
    EXPECT_EQ(merge_extra_text(R"({"a": {"x": 1}, "b": 2})",
                               object(R"({"a": {"y": 2}, "b": null, "c": "d"})")),
              R"({"a": {"y": 2}, "c": "d"})");
}

TEST(ExtraText, D21_InexactValue_KeepsItsText) {
    const char* odd =
        R"({"nan": NaN, "big": 1180591620717411303424, "bad": "\ud83d", "in": [-Infinity], "n": null})";
    EXPECT_EQ(
        merge_extra_text(odd, object(R"({"z": 1})")),
        R"({"nan": NaN, "big": 1180591620717411303424, "bad": "\ud83d", "in": [-Infinity], "n": null, "z": 1})");
    const JsonObject loaded = object(
        R"({"nan": null, "big": 1180591620717411303424, "bad": "\ufffd", "in": [null], "n": null})");
    EXPECT_EQ(merge_extra_text(odd, loaded), odd);
}

TEST(ExtraText, D21_InexactKey_KeepsItsText) {
    EXPECT_EQ(merge_extra_text(R"({"\ud83d": 1, "\udce9": 2, "caf\u00e9": 3})",
                               object(R"({"\ufffd": 2, "café": 4, "z": 5})")),
              R"({"\ud83d": 1, "\udce9": 2, "caf\u00e9": 4, "z": 5})");
}

TEST(ExtraText, SpacingAndBracketsInStrings_AreAccepted) {
    EXPECT_EQ(merge_extra_text(" { \"a\" :\t[ \"}\" , {\"b\":\"\\\"]\"} ]\n, \"c\" : 1 } ",
                               object(R"({"c": 2})")),
              R"({"a": [ "}" , {"b":"\"]"} ], "c": 2})");
    EXPECT_EQ(merge_extra_text(R"({"a": 1, "a": 2})", object("{}")), R"({"a": 2})");
}

TEST(ExtraText, NonObjectValue_IsRefused) {
    for (const char* text :
         {"", "[]", "{", "{\"a\"", "{\"a\": }", "{\"a\": 1", "null", "{1: 2}", "{\"a\": \"b"}) {
        EXPECT_THROW(merge_extra_text(text, JsonObject()), Error) << text;
    }
}

}  // namespace

}  // namespace cubepi::detail
