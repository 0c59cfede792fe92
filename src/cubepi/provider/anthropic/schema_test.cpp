#include <cubepi/provider/anthropic/schema.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

Json read_golden(const std::string& name) {
    const auto path = std::filesystem::path(__FILE__).parent_path() / name;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return boost::json::parse(text.str());
}

/// {"about", "schema", "lowered"[, "changes"]} each.
TEST(AnthropicSchema, D27_ToolsAgainstTheGoldenFile) {
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

TEST(AnthropicSchema, D27_FormatsAgainstTheGoldenFile) {
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
