#include <cubepi/schema/partial_json.hpp>

#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <cubepi/schema/parse_json.hpp>

using namespace cubepi;

namespace {

struct Case {
    std::string_view text;
    std::string_view value;
    ArgumentsState state;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.text; }

std::string shown(const JsonObject& object) { return boost::json::serialize(object); }

class Table : public ::testing::TestWithParam<Case> {};

constexpr auto exact = ArgumentsState::exact;
constexpr auto repaired = ArgumentsState::repaired;
constexpr auto closed = ArgumentsState::closed;
constexpr auto invalid = ArgumentsState::invalid;

}  // namespace

TEST_P(Table, ReadsWhatArrived) {
    const auto& [text, value, state] = GetParam();
    const auto parsed = parse_arguments(text);
    EXPECT_EQ(shown(parsed.value), value);
    EXPECT_EQ(static_cast<int>(parsed.state), static_cast<int>(state));
    EXPECT_EQ(parsed.problem.empty(), parsed.runnable());
}

INSTANTIATE_TEST_SUITE_P(
    Whole, Table,
    ::testing::Values(Case{"", "{}", exact}, Case{" \n", "{}", exact}, Case{"{}", "{}", exact},
                      Case{R"({"a": 1})", R"({"a":1})", exact},
                      Case{R"({"a": 1, "a": 2})", R"({"a":2})", exact},
                      Case{"{\"a\": \"x\ny\"}", R"({"a":"x\ny"})", repaired},
                      Case{R"({"p": "C:\xyz"})", R"({"p":"C:\\xyz"})", repaired},
                      Case{R"({"p": "\u12"})", R"({"p":"\\u12"})", repaired},
                      Case{R"({"p": "a\ud83d!"})", "{\"p\":\"a\xEF\xBF\xBD!\"}", repaired},
                      Case{R"({"a": 123456789012345678901234567890})",
                           R"({"a":1.2345678901234568E29})", exact}));

INSTANTIATE_TEST_SUITE_P(
    CutOff, Table,
    ::testing::Values(
        Case{R"({"a": 1)", R"({"a":1})", closed}, Case{R"({"a": 1,)", R"({"a":1})", closed},
        Case{R"({"a)", "{}", closed}, Case{R"({"a":)", "{}", closed}, Case{R"({"a")", "{}", closed},
        Case{R"({"a": tru)", "{}", closed}, Case{R"({"a": true)", R"({"a":true})", closed},
        Case{R"({"a": 1e)", "{}", closed}, Case{R"({"a":-)", "{}", closed},
        Case{R"({"a": 1, "b": tru)", R"({"a":1})", closed},
        Case{R"({"a": 1, "b)", R"({"a":1})", closed},
        Case{R"({"a": "hel)", R"({"a":"hel"})", closed},
        Case{R"({"a": [1, {"b": "c)", R"({"a":[1,{"b":"c"}]})", closed},
        Case{R"({"a": [1, 2,)", R"({"a":[1,2]})", closed},
        Case{R"({"a": [1], "b": {)", R"({"a":[1],"b":{}})", closed}, Case{"{", "{}", closed},
        Case{" {", "{}", closed}, Case{R"({"a": "x\)", R"({"a":"x"})", closed},
        Case{R"({"a": "x\u00)", R"({"a":"x"})", closed},
        Case{R"({"a": "x\ud83d)", R"({"a":"x"})", closed},
        Case{R"({"a": "x\ud83d\u)", R"({"a":"x"})", closed},
        Case{R"({"a": "x\ud83d\ude00)", "{\"a\":\"x\xF0\x9F\x98\x80\"}", closed},
        Case{"{\"a\": \"x\xF0\x9F\x98", R"({"a":"x"})", closed},
        Case{"{\"a\": \"x\ny", R"({"a":"x\ny"})", closed},
        Case{R"({"a": "C:\q)", R"({"a":"C:\\q"})", closed},
        Case{"{\"a\": \"x\xFFy\"}", "{\"a\":\"x\xEF\xBF\xBDy\"}", closed}));

INSTANTIATE_TEST_SUITE_P(
    NoObject, Table,
    ::testing::Values(Case{"[1,2]", "{}", invalid}, Case{"42", "{}", invalid},
                      Case{"\"x\"", "{}", invalid}, Case{"null", "{}", invalid},
                      Case{R"({"a":1}{"b":2})", "{}", invalid},
                      Case{"```json\n{}\n```", "{}", invalid}, Case{"{'a': 1}", "{}", invalid},
                      Case{R"({"a": NaN})", "{}", invalid},
                      Case{R"({"a": -Infinity})", "{}", invalid},
                      Case{R"({"a": 1e999})", "{}", invalid}, Case{R"({"a": 1]})", "{}", invalid},
                      Case{R"({"a": 1x, "b": 2)", "{}", invalid}, Case{R"({"a" 1)", "{}", invalid},
                      Case{R"({,)", "{}", invalid},
                      Case{R"({"a": [1,2)"
                           "})",
                           "{}", invalid},
                      Case{"[1, 2", "{}", invalid}, Case{"}", "{}", invalid},
                      Case{R"({"a": xyz)", "{}", invalid}));

TEST(PartialJson, D4_TextThatHadToBeClosedNeverRuns) {
    const std::string whole = R"({"path": "/tmp/x", "list": [1, {"k": "v\n"}], "ok": true})";
    for (std::size_t length = 1; length < whole.size(); ++length) {
        const auto parsed = parse_arguments(std::string_view(whole).substr(0, length));
        EXPECT_FALSE(parsed.runnable()) << length;
        EXPECT_EQ(parsed.state, ArgumentsState::closed) << length;
    }
    EXPECT_TRUE(parse_arguments(whole).runnable());
}

TEST(PartialJson, EachPrefixExtendsTheOneBefore) {
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

TEST(PartialJson, TakesAnyBytes) {
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

TEST(RepairJson, RepairsStringsOnly) {
    EXPECT_EQ(repair_json(R"({"a": "b\n", 'c'})"), R"({"a": "b\n", 'c'})");
    EXPECT_EQ(repair_json("\"\b\f\n\r\t\x01\""), R"("\b\f\n\r\t\u0001")");
    EXPECT_EQ(repair_json(R"("\q\/\u00e9\ud83d\ude00\uzz")"), R"("\\q\/\u00e9\ud83d\ude00\\uzz")");
    EXPECT_EQ(repair_json("\"a\\"), "\"a\\\\");
    EXPECT_EQ(repair_json(R"("\udc00")"), R"("\ufffd")");
    EXPECT_EQ(repair_json("\n\\x"), "\n\\x");
}
