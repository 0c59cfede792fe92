#include <cubepi/schema/json_schema.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

using namespace cubepi;

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

}  // namespace

TEST(JsonSchemaOf, ListsFieldsDefaultsAndWhatIsRequired) {
    EXPECT_EQ(json_schema_of<WeatherArgs>(), json(R"({"type":"object","properties":{
        "city":{"type":"string"},"days":{"type":"integer","default":3}},"required":["city"]})"));
}

TEST(JsonSchemaOf, WritesEachKindOfField) {
    struct Kinds {
        double ratio;
        bool flag;
        std::uint32_t count;
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
        "ratio":{"type":"number"},"flag":{"type":"boolean"},"count":{"type":"integer","minimum":0},
        "unit":{"type":"string","enum":["celsius","fahrenheit"]},
        "maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},
        "names":{"type":"array","items":{"type":"string"}},
        "scores":{"type":"object","additionalProperties":{"type":"integer"}},
        "choice":{"anyOf":[{"type":"integer"},{"type":"string"}]},
        "triple":{"type":"array","items":{"type":"integer"},"minItems":3,"maxItems":3},
        "where":{"type":"object","properties":{"city":{"type":"string"},
            "country":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["city"]},
        "any":{},"object":{"type":"object"},"list":{"type":"array"}},
        "required":["ratio","flag","count","unit","names","scores","choice","triple","where","any","object",
            "list"]})"));
}

TEST(JsonSchemaOf, TellsAZeroDefaultFromNone) {
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

TEST(JsonSchemaOf, ADefaultThatJsonCannotSayIsTheStructsOwn) {
    const JsonSchema schema(json_schema_of<Budget>());
    EXPECT_FALSE(schema.source().at("properties").at("limit").as_object().contains("default"));
    EXPECT_FALSE(schema.source().as_object().contains("required"));
    Json arguments = JsonObject();
    EXPECT_TRUE(schema.validate(arguments).empty());
    EXPECT_EQ(from_json<Budget>(arguments).limit, std::numeric_limits<double>::infinity());
}

TEST(JsonSchemaOf, ReadingAgreesWithTheSchemaOnWhatIsRequired) {
    Defaults value{};
    const auto issues = try_from_json(Json(JsonObject()), value);
    const Json schema = json_schema_of<Defaults>();
    ASSERT_EQ(issues.size(), schema.at("required").as_array().size());
    for (std::size_t i = 0; i < issues.size(); ++i) {
        EXPECT_EQ(issues[i].path, std::string(schema.at("required").at(i).as_string().c_str()));
    }
}

TEST(JsonSchemaOf, StructsThatContainThemselvesAreReferences) {
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

TEST(JsonSchemaOf, ValuesOfTheTypeFitItsSchema) {
    Defaults value{};
    value.plain = 1;
    Json written = to_json(value);
    EXPECT_EQ(format_issues("t", JsonSchema(json_schema_of<Defaults>()).validate(written)),
              "Invalid arguments for tool 't':");
}

TEST(Describe, SetsDescriptionsByPath) {
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

TEST(Describe, NamesTheFieldsThatExist) {
    Json schema = json_schema_of<WeatherArgs>();
    EXPECT_EQ(problem_of([&] { describe(schema, "town", "x"); }),
              "the schema has no field \"town\"; fields there: city, days");
    EXPECT_EQ(problem_of([&] { describe(schema, "city.name", "x"); }),
              "the schema has no field \"city.name\" (\"name\" does not exist)");
    EXPECT_NE(problem_of([&] { describe(schema, ".", "x"); }), "nothing thrown");
    EXPECT_NE(problem_of([&] { describe(schema, "city[]", "x"); }), "nothing thrown");
}

TEST(Required, CanBeOverridden) {
    Json schema = json_schema_of<WeatherArgs>();
    make_required(schema, "days");
    make_optional(schema, "city", "Tokyo");
    EXPECT_EQ(schema,
              json(R"({"type":"object","properties":{"city":{"type":"string","default":"Tokyo"},
        "days":{"type":"integer"}},"required":["days"]})"));
    EXPECT_NE(problem_of([&] { make_optional(schema, ""); }), "nothing thrown");
}
