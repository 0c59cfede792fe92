#include <cubepi/provider/tool_schema.hpp>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/support/json_memory.hpp>
#include <cubepi/schema/json_schema.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "source_tree.hpp"

namespace cubepi::detail {
namespace {

Json parsed(const char* text) { return boost::json::parse(text); }

constexpr const char* plan = R"({
  "title": "PlanArgs", "type": "object",
  "properties": {
    "steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}},
    "mode": {"anyOf": [{"$ref": "#/$defs/Mode"}, {"type": "null"}], "default": {"title": "kept", "$ref": "#/$defs/Mode"}}
  },
  "required": ["steps"],
  "$defs": {
    "Step": {"title": "Step", "type": "object", "properties": {"name": {"type": "string"}}},
    "Mode": {"type": "string", "enum": ["fast", "careful"]}
  }
})";

TEST(ToolSchema, D27_Schema_IsSentAsGiven) {
    EXPECT_EQ(lower_tool_schema(parsed(plan), SchemaDialect::as_given), parsed(plan));
}

TEST(ToolSchema, D27_EmptySchema_BecomesAnEmptyObject) {
    const Json none = parsed(R"({"type": "object", "properties": {}})");
    EXPECT_EQ(lower_tool_schema(Json(), SchemaDialect::as_given), none);
    EXPECT_EQ(lower_tool_schema(JsonObject(), SchemaDialect::as_given), none);
}

TEST(ToolSchema, D27_UnsupportedReferences_AreReplaced) {
    EXPECT_EQ(lower_tool_schema(parsed(plan), SchemaDialect::inline_refs), parsed(R"({
      "title": "PlanArgs", "type": "object",
      "properties": {
        "steps": {"type": "array", "items": {"title": "Step", "type": "object", "properties": {"name": {"type": "string"}}}},
        "mode": {"anyOf": [{"type": "string", "enum": ["fast", "careful"]}, {"type": "null"}],
                 "default": {"title": "kept", "$ref": "#/$defs/Mode"}}
      },
      "required": ["steps"]
    })"));
}

TEST(ToolSchema, D27_RecursiveDefinition_RemainsAReference) {
    const Json lowered = lower_tool_schema(parsed(R"({
      "type": "object", "properties": {"root": {"$ref": "#/$defs/Node", "description": "the root"}},
      "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}
    })"),
                                           SchemaDialect::inline_refs);
    EXPECT_EQ(lowered.at_pointer("/properties/root/description"), Json("the root"));
    EXPECT_EQ(lowered.at_pointer("/properties/root/properties/next/$ref"), Json("#/$defs/Node"));
    EXPECT_TRUE(lowered.get_object().contains("$defs"));
}

TEST(ToolSchema, UnknownReferences_AreRetained) {
    const Json schema =
        parsed(R"({"type": "object", "properties": {"a": {"$ref": "https://elsewhere/x"}}})");
    EXPECT_EQ(lower_tool_schema(schema, SchemaDialect::inline_refs), schema);
}

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

TEST(StrictSchema, Objects_AreClosedWithAllFieldsRequired) {
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

TEST(StrictSchema, OptionalFieldWithoutDefault_MayBeNull) {
    const Json schema =
        parse_json(R"({"type":"object","properties":{"a":{"type":"string","minLength":2}}})");
    EXPECT_EQ(*strict_schema(schema), parse_json(R"({"type":"object","properties":{
        "a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],"additionalProperties":false})"));
    Json value = parse_json(R"({"a":null})");
    drop_added_nulls(value, schema);
    EXPECT_EQ(value, parse_json("{}"));
}

TEST(StrictSchema, NullsAllowedBySchema_AreRetained) {
    const Json schema = json_schema_of<Trip>();
    const Json whole = parse_json(
        R"({"places":[{"city":"Oslo","country":null,"days":1}],"start":{"city":"Rome","country":null,"days":2}})");
    Json value = whole;
    drop_added_nulls(value, schema);
    EXPECT_EQ(value, whole);
}

TEST(StrictSchema, InexpressibleSchema_IsReported) {
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

TEST(ToolSchema, D136_NestedReferences_StayBeyondALimit) {
    // Each definition has the next one twice, as 2^30 copies.
    JsonObject definitions;
    for (int i = 0; i < 30; ++i) {
        const Json next(JsonObject{{"$ref", "#/$defs/" + std::to_string(i + 1)}});
        definitions[std::to_string(i)] =
            JsonObject{{"type", "object"}, {"properties", JsonObject{{"x", next}, {"y", next}}}};
    }
    definitions["30"] = JsonObject{{"type", "string"}};
    JsonObject schema{{"type", "object"},
                      {"properties", JsonObject{{"a", JsonObject{{"$ref", "#/$defs/0"}}}}},
                      {"$defs", definitions}};
    const Json lowered = lower_tool_schema(schema, SchemaDialect::inline_refs);
    EXPECT_EQ(lowered.at("$defs"), Json(definitions));
    EXPECT_FALSE(lowered.at_pointer("/properties/a").as_object().contains("$ref"));
    EXPECT_LT(json_memory(lowered), std::size_t{4} << 20U);
    EXPECT_FALSE(strict_schema(schema));
}

TEST(ToolSchema, D136_DeepReferences_StayBeyondALimit) {
    JsonObject definitions;
    for (int i = 0; i < 5'000; ++i)
        definitions[std::to_string(i)] =
            JsonObject{{"items", JsonObject{{"$ref", "#/$defs/" + std::to_string(i + 1)}}}};
    const JsonObject schema{{"$ref", "#/$defs/0"}, {"$defs", std::move(definitions)}};
    const Json lowered = lower_tool_schema(schema, SchemaDialect::inline_refs);
    EXPECT_FALSE(is_nested_deeper(lowered.at("items"), 100));
}

TEST(ToolSchema, D136_RequiredNamesOfParts_AreLimited) {
    JsonArray parts;
    for (int part = 0; part < 3; ++part) {
        JsonArray names;
        for (int i = 0; i < 900; ++i)
            names.emplace_back(std::to_string(part) + "." + std::to_string(i));
        parts.emplace_back(JsonObject{{"required", std::move(names)}});
    }
    const AnthropicSchema made =
        lower_anthropic_tool(JsonObject{{"allOf", std::move(parts)}}, SchemaDialect::as_given);
    EXPECT_EQ(made.schema.at("required").as_array().size(), 1800U);
}

TEST(StrictSchema, UnsupportedFormats_BecomeDescriptions) {
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

TEST(StrictSchema, References_AreInlined) {
    const Json schema = parse_json(
        R"({"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"],
            "$defs":{"A":{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}}})");
    EXPECT_EQ(*strict_schema(schema), parse_json(R"({"type":"object","properties":{
        "a":{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"],"additionalProperties":false}},
        "required":["a"],"additionalProperties":false})"));
}

Json read_golden(const std::string& name) {
    std::ifstream file(cubepi::testing::source_path("src/cubepi/provider/anthropic/") + name);
    std::stringstream text;
    text << file.rdbuf();
    return boost::json::parse(text.str());
}

/// {"about", "schema", "lowered"[, "changes"]} each.
TEST(AnthropicSchema, D27_Tools_EqualTheGoldenFile) {
    const Json golden = read_golden("tools.golden.json");
    ASSERT_FALSE(golden.as_array().empty());
    for (const Json& one : golden.as_array()) {
        const AnthropicSchema lowered =
            lower_anthropic_tool(one.at("schema"), SchemaDialect::as_given);
        EXPECT_EQ(lowered.schema, one.at("lowered")) << one.at("about") << "\n"
                                                     << boost::json::serialize(lowered.schema);
        const Json* changes = one.as_object().if_contains("changes");
        EXPECT_EQ(lowered.changes.size(), changes ? changes->to_number<std::size_t>() : 0u)
            << one.at("about");
    }
}

TEST(AnthropicSchema, D27_Formats_EqualTheGoldenFile) {
    const Json golden = read_golden("formats.golden.json");
    ASSERT_FALSE(golden.as_array().empty());
    for (const Json& one : golden.as_array()) {
        const AnthropicSchema lowered = lower_anthropic_format(one.at("schema"));
        EXPECT_EQ(lowered.schema, one.at("lowered")) << one.at("about") << "\n"
                                                     << boost::json::serialize(lowered.schema);
        JsonArray changes;
        for (const std::string& change : lowered.changes) changes.push_back(Json(change));
        EXPECT_EQ(Json(changes), one.at("changes")) << one.at("about");
    }
}

}  // namespace
}  // namespace cubepi::detail
