#include <cubepi/checkpoint/format/extra_text.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {
namespace {

JsonObject object(const char* text) { return boost::json::parse(text).as_object(); }

TEST(ExtraText, D19_merges_at_the_top_level_and_null_removes) {
    EXPECT_EQ(merge_extra_text("{}", object("{}")), "{}");
    EXPECT_EQ(merge_extra_text("{}", object(R"({"a": 1, "b": null})")), R"({"a": 1})");
    EXPECT_EQ(merge_extra_text(R"({"a": {"x": 1}, "b": 2})",
                               object(R"({"a": {"y": 2}, "b": null, "c": "d"})")),
              R"({"a": {"y": 2}, "c": "d"})");
}

TEST(ExtraText, D21_what_cannot_be_read_exactly_keeps_its_text) {
    const char* odd =
        R"({"nan": NaN, "big": 1180591620717411303424, "bad": "\ud83d", "in": [-Infinity], "n": null})";
    EXPECT_EQ(
        merge_extra_text(odd, object(R"({"z": 1})")),
        R"({"nan": NaN, "big": 1180591620717411303424, "bad": "\ud83d", "in": [-Infinity], "n": null, "z": 1})");
    const JsonObject loaded = object(
        R"({"nan": null, "big": 1180591620717411303424, "bad": "\ufffd", "in": [null], "n": null})");
    EXPECT_EQ(merge_extra_text(odd, loaded), odd);
}

TEST(ExtraText, D21_a_key_that_cannot_be_read_exactly_keeps_its_text) {
    EXPECT_EQ(merge_extra_text(R"({"\ud83d": 1, "\udce9": 2, "caf\u00e9": 3})",
                               object(R"({"\ufffd": 2, "café": 4, "z": 5})")),
              R"({"\ud83d": 1, "\udce9": 2, "caf\u00e9": 4, "z": 5})");
}

TEST(ExtraText, takes_any_spacing_and_nested_brackets_in_strings) {
    EXPECT_EQ(merge_extra_text(" { \"a\" :\t[ \"}\" , {\"b\":\"\\\"]\"} ]\n, \"c\" : 1 } ",
                               object(R"({"c": 2})")),
              R"({"a": [ "}" , {"b":"\"]"} ], "c": 2})");
    EXPECT_EQ(merge_extra_text(R"({"a": 1, "a": 2})", object("{}")), R"({"a": 2})");
}

TEST(ExtraText, refuses_a_value_that_is_not_an_object) {
    for (const char* text :
         {"", "[]", "{", "{\"a\"", "{\"a\": }", "{\"a\": 1", "null", "{1: 2}", "{\"a\": \"b"}) {
        EXPECT_THROW(merge_extra_text(text, JsonObject()), Error) << text;
    }
}

}  // namespace
}  // namespace cubepi::detail
