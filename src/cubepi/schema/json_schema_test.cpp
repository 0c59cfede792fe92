#include <cubepi/schema/json_schema.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi {
namespace {

enum class Unit : std::uint8_t { celsius, fahrenheit };

struct WeatherArgs {
    std::string city;
    int days = 3;
};

struct Where {
    std::string city;
    std::optional<std::string> country;
};

struct Range {
    int from = 0;
    int to = 10;
};

struct Defaults {
    int plain;
    int zero = 0;
    int braces{};
    bool flag = false;
    bool bare_flag;
    double ratio = 0.0;
    Unit unit = Unit::celsius;
    Unit bare_unit;
    std::string empty = "";
    std::string text = "c";
    std::vector<int> list;
    std::vector<int> filled = {1};
    std::optional<int> maybe;
    std::optional<int> maybe_two = 2;
    Range range;
    Where where;
    Where known = {"Oslo", std::nullopt};
    std::array<int, 2> bare_pair;
    std::array<int, 2> pair{};
    std::variant<std::monostate, int> nothing;
};

struct Tree {
    std::string name;
    std::vector<Tree> children;
};

struct Forest {
    std::vector<Tree> trees;
};

Json json(std::string_view text) { return parse_json(text); }

std::string problem_of(auto&& action) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
    }
    return "nothing thrown";
}

TEST(JsonSchemaOf, Schema_ListsFieldsDefaultsAndRequiredNames) {
    EXPECT_EQ(json_schema_of<WeatherArgs>(), json(R"({"type":"object","properties":{
        "city":{"type":"string"},"days":{"type":"integer","default":3}},"required":["city"]})"));
}

TEST(JsonSchemaOf, EachFieldKind_HasASchema) {
    struct Kinds {
        double ratio;
        bool flag;
        std::uint32_t count;
        std::int8_t level;
        std::uint64_t size;
        Unit unit;
        std::optional<int> maybe;
        std::vector<std::string> names;
        std::map<std::string, int> scores;
        std::variant<int, std::string> choice;
        std::array<int, 3> triple;
        Where where;
        Json any;
        JsonObject object;
        JsonArray list;
    };
    EXPECT_EQ(json_schema_of<Kinds>(), json(R"({"type":"object","properties":{
        "ratio":{"type":"number"},"flag":{"type":"boolean"},"count":{"type":"integer","minimum":0,"maximum":4294967295},
        "level":{"type":"integer","minimum":-128,"maximum":127},"size":{"type":"integer","minimum":0},
        "unit":{"type":"string","enum":["celsius","fahrenheit"]},
        "maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},
        "names":{"type":"array","items":{"type":"string"}},
        "scores":{"type":"object","additionalProperties":{"type":"integer"}},
        "choice":{"anyOf":[{"type":"integer"},{"type":"string"}]},
        "triple":{"type":"array","items":{"type":"integer"},"minItems":3,"maxItems":3},
        "where":{"type":"object","properties":{"city":{"type":"string"},
            "country":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["city"]},
        "any":{},"object":{"type":"object"},"list":{"type":"array"}},
        "required":["ratio","flag","count","level","size","unit","names","scores","choice","triple","where","any","object",
            "list"]})"));
}

TEST(JsonSchemaOf, ZeroDefault_DiffersFromNoDefault) {
    const Json schema = json_schema_of<Defaults>();
    EXPECT_EQ(schema.at("required"),
              json(R"(["plain","bare_flag","bare_unit","empty","list","where","bare_pair"])"));
    const auto& properties = schema.at("properties");
    EXPECT_EQ(properties.at("zero").at("default"), json("0"));
    EXPECT_EQ(properties.at("braces").at("default"), json("0"));
    EXPECT_EQ(properties.at("flag").at("default"), json("false"));
    EXPECT_EQ(properties.at("ratio").at("default"), json("0.0"));
    EXPECT_EQ(properties.at("unit").at("default"), json("\"celsius\""));
    EXPECT_EQ(properties.at("text").at("default"), json("\"c\""));
    EXPECT_EQ(properties.at("filled").at("default"), json("[1]"));
    EXPECT_EQ(properties.at("maybe_two").at("default"), json("2"));
    EXPECT_EQ(properties.at("pair").at("default"), json("[0,0]"));
    EXPECT_FALSE(properties.at("maybe").as_object().contains("default"));
    EXPECT_FALSE(properties.at("plain").as_object().contains("default"));
}

struct Budget {
    double limit = std::numeric_limits<double>::infinity();
    std::optional<double> least = std::nullopt;
};

TEST(JsonSchemaOf, InexpressibleDefault_IsOmittedButApplies) {
    const JsonSchema schema(json_schema_of<Budget>());
    EXPECT_FALSE(schema.source().at("properties").at("limit").as_object().contains("default"));
    EXPECT_FALSE(schema.source().as_object().contains("required"));
    Json arguments = JsonObject();
    EXPECT_TRUE(schema.validate(arguments).empty());
    EXPECT_EQ(from_json<Budget>(arguments).limit, std::numeric_limits<double>::infinity());
}

TEST(JsonSchemaOf, RequiredFields_AgreeWithReading) {
    Defaults value{};
    const auto issues = try_from_json(Json(JsonObject()), value);
    const Json schema = json_schema_of<Defaults>();
    ASSERT_EQ(issues.size(), schema.at("required").as_array().size());
    for (std::size_t i = 0; i < issues.size(); ++i) {
        EXPECT_EQ(issues[i].path, std::string(schema.at("required").at(i).as_string().c_str()));
    }
}

TEST(JsonSchemaOf, RecursiveStructs_BecomeReferences) {
    EXPECT_EQ(json_schema_of<Tree>(),
              json(R"({"type":"object","properties":{"name":{"type":"string"},
        "children":{"type":"array","items":{"$ref":"#"}}},"required":["name","children"]})"));
    const Json forest = json_schema_of<Forest>();
    EXPECT_EQ(forest.at("properties").at("trees").at("items"), json(R"({"$ref":"#/$defs/Tree"})"));
    const Json list = json_schema_of<std::vector<Tree>>();
    EXPECT_EQ(
        list,
        json(R"({"type":"array","items":{"$ref":"#/$defs/Tree"},"$defs":{"Tree":{"type":"object",
        "properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Tree"}}},
        "required":["name","children"]}}})"));
    Json trees = json(R"([{"name":"a","children":[{"name":"b","children":[]}]}])");
    EXPECT_TRUE(JsonSchema(list).validate(trees).empty());
    Json good = json(R"({"trees":[{"name":"a","children":[{"name":"b","children":[]}]}]})");
    EXPECT_TRUE(JsonSchema(forest).validate(good).empty());
    Json bad = json(R"({"trees":[{"name":"a","children":[{"children":[]}]}]})");
    EXPECT_EQ(JsonSchema(forest).validate(bad).at(0).path, "trees[0].children[0].name");
}

TEST(JsonSchemaOf, ValuesOfTheType_FitItsSchema) {
    Defaults value{};
    value.plain = 1;
    Json written = to_json(value);
    EXPECT_EQ(format_issues("t", JsonSchema(json_schema_of<Defaults>()).validate(written)),
              "Invalid arguments for tool 't':");
}

TEST(Describe, Path_SetsTheDescription) {
    struct Args {
        Where where;
        std::vector<Where> stops;
        std::optional<Where> home;
    };
    Json schema = json_schema_of<Args>();
    describe(schema, "", "whole");
    describe(schema, "where.city", "a");
    describe(schema, "stops[].city", "b");
    describe(schema, "home.city", "c");
    describe(schema, "home", "d");
    EXPECT_EQ(schema.at("description"), json("\"whole\""));
    const auto& fields = schema.at("properties");
    EXPECT_EQ(fields.at("where").at("properties").at("city").at("description"), json("\"a\""));
    EXPECT_EQ(fields.at("stops").at("items").at("properties").at("city").at("description"),
              json("\"b\""));
    EXPECT_EQ(fields.at("home").at("anyOf").at(0).at("properties").at("city").at("description"),
              json("\"c\""));
    EXPECT_EQ(fields.at("home").at("description"), json("\"d\""));
}

TEST(Describe, UnknownField_NamesTheExistingFields) {
    Json schema = json_schema_of<WeatherArgs>();
    EXPECT_EQ(problem_of([&] { describe(schema, "town", "x"); }),
              "the schema has no field \"town\"; fields there: city, days");
    EXPECT_EQ(problem_of([&] { describe(schema, "city.name", "x"); }),
              "the schema has no field \"city.name\" (\"name\" does not exist)");
    EXPECT_NE(problem_of([&] { describe(schema, ".", "x"); }), "nothing thrown");
    EXPECT_NE(problem_of([&] { describe(schema, "city[]", "x"); }), "nothing thrown");
}

TEST(Required, Fields_CanBeMadeRequiredOrOptional) {
    Json schema = json_schema_of<WeatherArgs>();
    make_required(schema, "days");
    make_optional(schema, "city", "Tokyo");
    EXPECT_EQ(schema,
              json(R"({"type":"object","properties":{"city":{"type":"string","default":"Tokyo"},
        "days":{"type":"integer"}},"required":["days"]})"));
    EXPECT_NE(problem_of([&] { make_optional(schema, ""); }), "nothing thrown");
}

enum class Grade : std::uint8_t { low, high };
struct Limited {
    int day;
    std::optional<std::string> code;
    std::vector<std::string> tags;
    Grade grade = Grade::low;
    static void describe_fields(FieldNotes& fields) {
        fields.describe("day", "Counted from 1")
            .constrain("day", Constraints().minimum(1).maximum(31).example(5))
            .constrain("code", Constraints().pattern("^[A-Z]{2}$"))
            .constrain("tags", Constraints().min_items(1).unique_items())
            .constrain("tags[]", Constraints().max_length(8))
            .constrain(
                "grade",
                Constraints().describe_value("low", "cheap").describe_value("high", "expensive"));
    }
};
struct Outer {
    std::vector<Limited> all;
};

Json limited(int day, std::string_view code, std::string_view tag = "a") {
    JsonObject value;
    value["day"] = day;
    value["code"] = code;
    value["tags"] = JsonArray{Json(tag)};
    return Json(std::move(value));
}

TEST(Constraints, StructConstraints_AreInTheSchema) {
    const Json schema = json_schema_of<Limited>();
    const JsonObject& properties = schema.at("properties").as_object();
    EXPECT_EQ(properties.at("day").at("minimum"), Json(1));
    EXPECT_EQ(properties.at("day").at("description"), Json("Counted from 1"));
    EXPECT_EQ(properties.at("day").at("examples").at(0), Json(5));
    // Next to the null of an optional field.
    EXPECT_EQ(properties.at("code").at("anyOf").at(0).at("pattern"), Json("^[A-Z]{2}$"));
    EXPECT_FALSE(properties.at("code").at("anyOf").at(1).as_object().contains("pattern"));
    EXPECT_EQ(properties.at("tags").at("items").at("maxLength"), Json(8));
    EXPECT_EQ(properties.at("grade").at("description"), Json("low: cheap; high: expensive"));
    EXPECT_EQ(json_schema_of<Outer>().at("properties").at("all").at("items"), schema);
}

TEST(Constraints, ConstrainedValues_AreValidated) {
    const JsonSchema schema(json_schema_of<Limited>());
    Json good = limited(3, "AB");
    EXPECT_TRUE(schema.validate(good).empty());
    Json early = limited(0, "AB");
    ASSERT_EQ(schema.validate(early).size(), 1u);
    EXPECT_NE(schema.validate(early).front().message.find("at least 1"), std::string::npos);
    Json lower = limited(3, "ab");
    EXPECT_FALSE(schema.validate(lower).empty());
    Json long_tag = limited(3, "AB", "much too long");
    EXPECT_FALSE(schema.validate(long_tag).empty());
    Json twice = limited(3, "AB");
    twice.at("tags") = JsonArray{"a", "a"};
    EXPECT_FALSE(schema.validate(twice).empty());
}

TEST(Constraints, InapplicableConstraints_AreRefused) {
    Json schema = json_schema_of<Limited>();
    EXPECT_THROW(constrain(schema, "code", Constraints().minimum(1)), Error);
    EXPECT_THROW(constrain(schema, "day", Constraints().max_length(1)), Error);
    EXPECT_THROW(constrain(schema, "month", Constraints().minimum(1)), Error);
    EXPECT_THROW(constrain(schema, "grade", Constraints().describe_value("middle", "")), Error);
}

TEST(Constraints, Default_MakesAFieldOptional) {
    Json schema = json_schema_of<Limited>();
    constrain(schema, "day", Constraints().default_value(7));
    Json value = limited(1, "AB");
    value.as_object().erase("day");
    EXPECT_TRUE(JsonSchema(schema).validate(value).empty());
    EXPECT_EQ(value.at("day"), Json(7));
}

TEST(Constraints, Formats_AreValidated) {
    struct Case {
        const char* format;
        const char* good;
        const char* bad;
    };
    for (const Case& one :
         {Case{"date", "2026-02-28", "2026-13-01"}, Case{"time", "23:59:00Z", "24:00:00"},
          Case{"date-time", "2026-02-28T10:00:00.5+01:00", "2026-02-28 10:00"},
          Case{"email", "a.b@example.com", "a.b at example"},
          Case{"uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"},
          Case{"ipv4", "192.168.0.255", "192.168.0.256"},
          Case{"uri", "https://example.com/a", "example.com"}}) {
        Json source = json_schema_of<Limited>();
        constrain(source, "tags[]", Constraints().format(one.format).max_length(100));
        const JsonSchema schema(std::move(source));
        Json good = limited(1, "AB", one.good);
        EXPECT_TRUE(schema.validate(good).empty()) << one.good;
        Json bad = limited(1, "AB", one.bad);
        EXPECT_FALSE(schema.validate(bad).empty()) << one.bad;
    }
}

}  // namespace
}  // namespace cubepi
