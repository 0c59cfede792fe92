#include <cubepi/schema/json_convert.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/schema/json_schema.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

using namespace cubepi;

namespace {

enum class Status { ok = 200, not_found = 404 };
enum class Bits : std::uint64_t { low = 1, high = 1ULL << 40 };

}  // namespace

template <>
inline constexpr EnumRange cubepi::enum_range<Status> = {200, 404};

namespace {

enum class Unit : std::uint8_t { celsius, fahrenheit };
enum Level : int { low = -2, high = 200 };

struct Place {
    std::string city;
    std::optional<std::string> country;
};

struct Item {
    std::string name;
    int count = 1;
};

struct Everything {
    std::string text;
    int number = 3;
    std::uint64_t big = 0;
    double ratio = 0.5;
    bool flag = false;
    Unit unit = Unit::celsius;
    Level level = low;
    std::optional<int> maybe;
    std::vector<Item> items;
    std::vector<bool> bits;
    std::map<std::string, double> scores;
    std::unordered_map<std::string, std::vector<int>> table;
    std::array<int, 2> pair{};
    std::variant<std::monostate, int, std::string, Place> choice;
    Place where;
    Json any;
    JsonObject object;
    JsonArray list;
};

struct Many {
    int a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, c2,
        c3, c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, e0, e1, e2, e3, e4, e5,
        e6, e7;
};

struct Empty {};

struct Tree {
    std::string name;
    std::vector<Tree> children;
};

struct Cat {
    int lives;
};
struct Dog {
    int lives;
    std::string tricks;
};
struct Pets {
    std::variant<Cat, Dog> pet;
};

Json json(std::string_view text) { return parse_json(text); }

template <class T>
std::vector<SchemaIssue> issues_of(std::string_view text) {
    T value{};
    return try_from_json(json(text), value);
}

std::string lines(const std::vector<SchemaIssue>& issues) {
    std::string text;
    for (const auto& issue : issues) text += issue.path + ": " + issue.message + "\n";
    return text;
}

}  // namespace

TEST(Reflection, FieldNames_AreInOrder) {
    EXPECT_EQ(detail::field_count<Everything>, 18U);
    EXPECT_EQ(detail::field_names<Item>[0], "name");
    EXPECT_EQ(detail::field_names<Item>[1], "count");
    EXPECT_EQ(detail::field_count<Empty>, 0U);
    EXPECT_EQ(detail::field_count<Many>, 48U);
    EXPECT_EQ(detail::field_names<Many>[47], "e7");
    struct Local {
        int inside_function;
    };
    EXPECT_EQ(detail::field_names<Local>[0], "inside_function");
}

TEST(Reflection, Enumerators_AreNamed) {
    EXPECT_EQ(enum_name(Unit::fahrenheit), "fahrenheit");
    EXPECT_EQ(enum_name(low), "low");
    EXPECT_EQ(enum_name(high), "high");
    EXPECT_EQ(detail::enum_entries<Unit>().size(), 2U);
    EXPECT_EQ(detail::enum_entries<Level>().size(), 2U);
    EXPECT_THROW(enum_name(static_cast<Unit>(9)), Error);
}

TEST(Reflection, EnumRanges_AreCheckedAndCanBeWidened) {
    EXPECT_EQ(enum_name(Status::not_found), "not_found");
    EXPECT_EQ(detail::enum_entries<Status>().size(), 2U);
    EXPECT_EQ(from_json<Status>(json("\"ok\"")), Status::ok);
    static_assert(detail::names_any_in<Status, 256, 1279>());
    static_assert(!detail::names_any_in<Status, 405, 1279>());
    static_assert(detail::names_any_in<Bits, 1LL << 40, 1LL << 40>());
    static_assert(detail::names_a_flag_above<Bits, 255>());
    static_assert(!detail::names_a_flag_above<Status, 599>());
    static_assert(!detail::names_any_in<Unit, 2, 1279>(), "values that the type cannot hold");
}

TEST(Reflection, ListWithoutNames_IsDetected) {
    const auto is = [](std::string_view list, long long first, std::size_t count) {
        return detail::is_list_without_names(list, first, count);
    };
    EXPECT_TRUE(is("(a::E)7", 7, 1));
    EXPECT_TRUE(is("(a::E)-1, (a::E)0, (a::E)1", -1, 3));
    EXPECT_TRUE(is("((anonymous namespace)::E)99, ((anonymous namespace)::E)100", 99, 2));
    EXPECT_FALSE(is("", 7, 1));
    EXPECT_FALSE(is("a::E::x", 7, 1));
    EXPECT_FALSE(is("(a::E)-1, a::E::zero, (a::E)1", -1, 3));
    EXPECT_FALSE(is("(a::E)-1, a::E:x, (a::E)1", -1, 3)) << "as long as a list without names";
    EXPECT_FALSE(is("(anonymous namespace)::E::x", 7, 1));
    EXPECT_FALSE(is("a::E::x, (a::E)8", 7, 2));
}

// A program built with one compiler may use a library built with the other.
TEST(Reflection, SpellingsOfBothCompilers_AreParsed) {
    const std::string_view spellings[] = {
        "constexpr std::string_view f() [with E = a::B; E ...Values = {(a::B)-1, a::B::x, "
        "(<unnamed>::B)1, "
        "f()::B::y}; std::string_view = std::basic_string_view<char>]",
        "std::string_view f() [E = a::B, Values = <(a::B)-1, a::B::x, ((anonymous namespace)::B)1, "
        "(anonymous namespace)::B::y>]"};
    for (const auto spelling : spellings) {
        const auto entries = detail::parse_enum_spelling(spelling, -1);
        ASSERT_EQ(entries.size(), 2U) << spelling;
        EXPECT_EQ(entries[0].name, "x");
        EXPECT_EQ(entries[0].value, 0);
        EXPECT_EQ(entries[1].name, "y");
        EXPECT_EQ(entries[1].value, 2);
    }
}

TEST(JsonConvert, EveryFieldKind_RoundTrips) {
    Everything value;
    value.text = "h\xC3\xA9";
    value.number = -7;
    value.big = std::numeric_limits<std::uint64_t>::max();
    value.unit = Unit::fahrenheit;
    value.level = high;
    value.maybe = 4;
    value.items = {Item{"x", 2}, Item{"y", 1}};
    value.bits = {true, false};
    value.scores = {{"a", 1.5}};
    value.table = {{"k", {1, 2}}};
    value.pair = {8, 9};
    value.choice = Place{"Bonn", std::nullopt};
    value.where = {"Oslo", "NO"};
    value.any = json(R"([1,{"x":null}])");
    value.object = json(R"({"o":1})").as_object();
    value.list = json("[true]").as_array();

    const JsonObject written = to_json(value);
    EXPECT_EQ(Json(written),
              json(R"({"text":"hé","number":-7,"big":18446744073709551615,"ratio":0.5,
        "flag":false,"unit":"fahrenheit","level":"high","maybe":4,
        "items":[{"name":"x","count":2},{"name":"y","count":1}],"bits":[true,false],"scores":{"a":1.5},
        "table":{"k":[1,2]},"pair":[8,9],"choice":{"city":"Bonn"},"where":{"city":"Oslo","country":"NO"},
        "any":[1,{"x":null}],"object":{"o":1},"list":[true]})"));
    const auto read = from_json<Everything>(Json(written));
    EXPECT_EQ(to_json(read), written);
    EXPECT_EQ(written.begin()->key(), "text");
}

TEST(JsonConvert, MissingOptionals_AreEmptyAndDefaultsRemain) {
    const auto item = from_json<Item>(json(R"({"name":"n","unknown":[1]})"));
    EXPECT_EQ(item.count, 1);
    const auto place = from_json<Place>(json(R"({"city":"c","country":null})"));
    EXPECT_FALSE(place.country);
    EXPECT_EQ(to_json(place), json(R"({"city":"c"})"));
}

TEST(JsonConvert, AllIssues_AreCollectedWithPaths) {
    struct Args {
        Place where;
        std::vector<Item> items;
        Unit unit;
        int days;
    };
    const auto issues = issues_of<Args>(
        R"({"where":{"city":5},"items":[{"name":"a"},{"name":"b"},{"count":"x"}],"unit":"kelvin"})");
    EXPECT_EQ(lines(issues),
              "where.city: expected string, found integer 5\n"
              "items[2].name: field required\n"
              "items[2].count: expected integer, found string \"x\"\n"
              "unit: must be one of \"celsius\", \"fahrenheit\"; found string \"kelvin\"\n"
              "days: field required\n");
    EXPECT_EQ(issues[4].expected, "integer");
    EXPECT_EQ(issues[4].found, "nothing");
    EXPECT_EQ(lines(issues_of<Args>("[1,2]")), "<root>: expected object, found array of 2 items\n");
}

TEST(JsonConvert, AllIssues_AreThrownAtOnce) {
    try {
        from_json<Place>(json("{}"));
        FAIL();
    } catch (const ValidationError& error) {
        EXPECT_EQ(error.code(), ErrorCode::validation);
        EXPECT_EQ(error.issues().size(), 1U);
        EXPECT_STREQ(error.what(), "JSON value does not fit:\n- city: field required");
    }
}

TEST(JsonConvert, MissingFields_CanKeepTheirDefaults) {
    const auto place = from_json<Place>(json("{}"), {.require_fields = false});
    EXPECT_EQ(place.city, "");
}

TEST(JsonConvert, D4_Conversion_AcceptsOnlyIntegralNumbersAndExactTexts) {
    EXPECT_EQ(from_json<int>(json("3.0")), 3);
    EXPECT_EQ(from_json<int>(json("\"3\"")), 3);
    EXPECT_EQ(from_json<int>(json("\"-3.0\"")), -3);
    EXPECT_EQ(from_json<double>(json("\"1e3\"")), 1000.0);
    EXPECT_EQ(from_json<double>(json("7")), 7.0);
    EXPECT_TRUE(from_json<bool>(json("\"true\"")));
    for (const auto* text : {"3.5", "\" 3\"", "\"3 \"", "\"+3\"", "\"0x3\"", "\"\"", "true", "null",
                             "[3]", "\"NaN\"", "\"1_000\"", "\"3.5\"", "1e30"}) {
        EXPECT_EQ(issues_of<int>(text).size(), 1U) << text;
    }
    for (const auto* text : {"1", "0", "\"True\"", "\"yes\"", "\"1\"", "null"}) {
        EXPECT_EQ(issues_of<bool>(text).size(), 1U) << text;
    }
    for (const auto* text : {"1", "true", "null"}) {
        EXPECT_EQ(issues_of<std::string>(text).size(), 1U) << text;
    }
    EXPECT_EQ(issues_of<std::vector<int>>("3").size(), 1U);
}

TEST(JsonConvert, Integers_AreCheckedForRange) {
    EXPECT_EQ(from_json<signed char>(json("-128")), -128);
    EXPECT_EQ(lines(issues_of<signed char>("128")),
              "<root>: expected integer from -128 to 127, found integer 128\n");
    EXPECT_EQ(lines(issues_of<unsigned>("-1")),
              "<root>: expected integer from 0 to 4294967295, found integer -1\n");
    EXPECT_EQ(from_json<std::uint64_t>(json("18446744073709551615")),
              std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(issues_of<std::int64_t>("9223372036854775808").size(), 1U);
    EXPECT_EQ(issues_of<float>("1e300").size(), 1U);
}

TEST(JsonConvert, Variant_UsesTheBestFittingAlternative) {
    using Number = std::variant<int, double, std::string>;
    EXPECT_EQ(std::get<int>(from_json<Number>(json("3"))), 3);
    EXPECT_EQ(std::get<double>(from_json<Number>(json("3.5"))), 3.5);
    EXPECT_EQ(std::get<std::string>(from_json<Number>(json("\"3\""))), "3");
    const auto pets = from_json<Pets>(json(R"({"pet":{"lives":1,"tricks":"sit"}})"));
    EXPECT_EQ(std::get<Dog>(pets.pet).tricks, "sit");
    EXPECT_TRUE(std::holds_alternative<Cat>(from_json<Pets>(json(R"({"pet":{"lives":"9"}})")).pet));
    EXPECT_EQ(lines(issues_of<Number>("null")),
              "<root>: expected integer or number or string, found null\n");
    using OneStruct = std::variant<std::string, Place>;
    EXPECT_EQ(lines(issues_of<OneStruct>(R"({"city":1})")),
              "city: expected string, found integer 1\n");
}

TEST(JsonConvert, UnmatchedVariant_NamesTheFieldsOfEachAlternative) {
    EXPECT_EQ(lines(issues_of<Pets>(R"({"pet":{"lives":"x"}})")),
              "pet: fits none of the 2 allowed forms: form 1: pet.lives (expected integer, found "
              "string \"x\"); form 2: pet.lives (expected integer, found string \"x\"), pet.tricks "
              "(field required)\n");
    Json value = json(R"({"pet":{"lives":"x"}})");
    EXPECT_EQ(lines(JsonSchema(json_schema_of<Pets>()).validate(value)),
              "pet: fits none of the 2 allowed forms: form 1: pet.lives (expected integer, found "
              "string \"x\"); form 2: pet.tricks (field required), pet.lives (expected integer, "
              "found string \"x\")\n");
}

TEST(JsonConvert, RecursiveStruct_IsConverted) {
    const auto tree =
        from_json<Tree>(json(R"({"name":"a","children":[{"name":"b","children":[]}]})"));
    EXPECT_EQ(tree.children.at(0).name, "b");
    EXPECT_EQ(issues_of<Tree>(R"({"name":"a","children":[{"children":[]}]})").at(0).path,
              "children[0].name");
}

TEST(JsonConvert, NonFiniteNumbers_BecomeNull) {
    EXPECT_TRUE(to_json(std::numeric_limits<double>::quiet_NaN()).is_null());
    EXPECT_TRUE(to_json(std::numeric_limits<float>::infinity()).is_null());
}

TEST(JsonConvert, LongValues_AreTruncatedAtACharacter) {
    const std::string text(79, 'a');
    const auto issue = issues_of<int>("\"" + text + "\xC3\xA9\xC3\xA9\"").at(0);
    EXPECT_EQ(issue.found, "string \"" + text + "...\"");
}

TEST(Issues, D4_ManyIssues_AreBounded) {
    std::vector<SchemaIssue> issues(30, SchemaIssue{"a", "", "", std::string(5000, 'x')});
    const std::string text = format_issues("f", issues);
    EXPECT_LT(text.size(), 20 * 650u);
    EXPECT_NE(text.find("\n- and 10 more problems"), std::string::npos);
}

TEST(Issues, ModelText_HasOneIssuePerLine) {
    EXPECT_EQ(format_issues("f", issues_of<Place>("[]")),
              "Invalid arguments for tool 'f':\n- expected object, found array of 0 items");
    EXPECT_EQ(format_issues("f", issues_of<Place>("{}")),
              "Invalid arguments for tool 'f':\n- city: field required");
}
