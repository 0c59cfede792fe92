#include <cubepi/schema/constraints.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/schema/json_schema.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi {
namespace {

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

TEST(Constraints, OfAStructAreInItsSchema) {
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

TEST(Constraints, AreValidated) {
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

TEST(Constraints, ThatDoNotApplyAreRefused) {
    Json schema = json_schema_of<Limited>();
    EXPECT_THROW(constrain(schema, "code", Constraints().minimum(1)), Error);
    EXPECT_THROW(constrain(schema, "day", Constraints().max_length(1)), Error);
    EXPECT_THROW(constrain(schema, "month", Constraints().minimum(1)), Error);
    EXPECT_THROW(constrain(schema, "grade", Constraints().describe_value("middle", "")), Error);
}

TEST(Constraints, ADefaultMakesAFieldOptional) {
    Json schema = json_schema_of<Limited>();
    constrain(schema, "day", Constraints().default_value(7));
    Json value = limited(1, "AB");
    value.as_object().erase("day");
    EXPECT_TRUE(JsonSchema(schema).validate(value).empty());
    EXPECT_EQ(value.at("day"), Json(7));
}

TEST(Constraints, FormatsAreValidated) {
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
