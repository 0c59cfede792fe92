#include <cubepi/provider/tool_schema.hpp>

#include <gtest/gtest.h>

namespace cubepi {
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

TEST(ToolSchema, D27_GoesOutAsGiven) {
    EXPECT_EQ(lower_tool_schema(parsed(plan), SchemaDialect::as_given), parsed(plan));
}

TEST(ToolSchema, D27_AnEmptySchemaBecomesAnEmptyObject) {
    const Json none = parsed(R"({"type": "object", "properties": {}})");
    EXPECT_EQ(lower_tool_schema(Json(), SchemaDialect::as_given), none);
    EXPECT_EQ(lower_tool_schema(JsonObject(), SchemaDialect::as_given), none);
}

TEST(ToolSchema, D27_ReferencesAreReplacedWhereTheDialectHasNone) {
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

TEST(ToolSchema, D27_ARecursiveDefinitionStaysAReference) {
    const Json lowered = lower_tool_schema(parsed(R"({
      "type": "object", "properties": {"root": {"$ref": "#/$defs/Node", "description": "the root"}},
      "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}
    })"),
                                           SchemaDialect::inline_refs);
    EXPECT_EQ(lowered.at_pointer("/properties/root/description"), Json("the root"));
    EXPECT_EQ(lowered.at_pointer("/properties/root/properties/next/$ref"), Json("#/$defs/Node"));
    EXPECT_TRUE(lowered.get_object().contains("$defs"));
}

TEST(ToolSchema, UnknownReferencesStay) {
    const Json schema =
        parsed(R"({"type": "object", "properties": {"a": {"$ref": "https://elsewhere/x"}}})");
    EXPECT_EQ(lower_tool_schema(schema, SchemaDialect::inline_refs), schema);
}

}  // namespace
}  // namespace cubepi
