#include <cubepi/provider/openai/strict_schema.hpp>

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/provider/openai/responses_request.hpp>
#include <cubepi/schema/json_schema.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {
namespace {

struct Place {
    std::string city;
    std::optional<std::string> country;
    int days = 3;
};
struct Trip {
    std::vector<Place> places;
    Place start;
};
struct Tree {
    std::string name;
    std::vector<Tree> children;
};

TEST(StrictSchema, ClosesObjectsAndRequiresAll) {
    const std::optional<Json> strict = strict_schema(json_schema_of<Place>());
    ASSERT_TRUE(strict);
    EXPECT_EQ(*strict, parse_json(R"({"type":"object","properties":{
        "city":{"type":"string"},
        "country":{"anyOf":[{"type":"string"},{"type":"null"}]},
        "days":{"type":"integer","description":"Default: 3."}},
        "required":["city","country","days"],"additionalProperties":false})"));
    EXPECT_TRUE(is_strict_schema(*strict));
    EXPECT_TRUE(is_strict_schema(*strict_schema(json_schema_of<Trip>())));
}

TEST(StrictSchema, WhatIsOptionalWithoutADefaultMayBeNull) {
    const Json schema =
        parse_json(R"({"type":"object","properties":{"a":{"type":"string","minLength":2}}})");
    EXPECT_EQ(*strict_schema(schema), parse_json(R"({"type":"object","properties":{
        "a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],"additionalProperties":false})"));
    Json value = parse_json(R"({"a":null})");
    drop_added_nulls(value, schema);
    EXPECT_EQ(value, parse_json("{}"));
}

TEST(StrictSchema, KeepsNullsThatTheSchemaAllows) {
    const Json schema = json_schema_of<Trip>();
    const Json whole = parse_json(
        R"({"places":[{"city":"Oslo","country":null,"days":1}],"start":{"city":"Rome","country":null,"days":2}})");
    Json value = whole;
    drop_added_nulls(value, schema);
    EXPECT_EQ(value, whole);
}

TEST(StrictSchema, ReportsWhatCannotBeExpressed) {
    for (const char* schema :
         {R"({"type":"object"})", R"({"type":"array"})",
          R"({"type":"object","properties":{"a":{}}})",
          R"({"type":"object","properties":{},"additionalProperties":{"type":"string"}})",
          R"({"type":"object","properties":{"a":{"type":"string"}},"oneOf":[]})",
          R"({"type":"object","properties":{"a":{"$ref":"#"}}})"}) {
        EXPECT_FALSE(strict_schema(parse_json(schema))) << schema;
    }
    EXPECT_FALSE(strict_schema(json_schema_of<Tree>()));
    EXPECT_FALSE(strict_schema(json_schema_of<std::map<std::string, int>>()));
}

TEST(StrictSchema, FormatsThatTheEndpointRefusesAreDescribed) {
    const Json schema = parse_json(R"({"type":"object","properties":{
        "day":{"type":"string","format":"date"},"page":{"type":"string","format":"uri"}},
        "required":["day","page"]})");
    const std::optional<Json> strict = strict_schema(schema);
    ASSERT_TRUE(strict);
    EXPECT_EQ(strict->at("properties"), parse_json(R"({"day":{"type":"string","format":"date"},
        "page":{"type":"string","description":"Format: uri."}})"));
    EXPECT_TRUE(is_strict_schema(*strict));
    EXPECT_FALSE(is_strict_schema(schema));
}

TEST(StrictSchema, ReferencesAreWrittenInPlace) {
    const Json schema = parse_json(
        R"({"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"],
            "$defs":{"A":{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}}})");
    EXPECT_EQ(*strict_schema(schema), parse_json(R"({"type":"object","properties":{
        "a":{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"],"additionalProperties":false}},
        "required":["a"],"additionalProperties":false})"));
}

}  // namespace
}  // namespace cubepi::detail
