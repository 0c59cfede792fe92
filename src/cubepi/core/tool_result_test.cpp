#include <cubepi/core/tool_result.hpp>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(AgentToolResult, IsMadeOfTextBlockOrBlocks) {
    EXPECT_EQ(AgentToolResult("a").text(), "a");
    EXPECT_EQ(AgentToolResult(std::string("b")).text(), "b");
    EXPECT_EQ(AgentToolResult(Content(TextContent{"c"})).text(), "c");
    ContentList<Content> blocks;
    blocks.emplace_back(TextContent{"d"});
    blocks.emplace_back(ImageContent{"aGk=", "image/png"});
    blocks.emplace_back(TextContent{"e"});
    const AgentToolResult result(blocks);
    EXPECT_EQ(result.text(), "de");
    EXPECT_EQ(result.content, blocks);
    EXPECT_EQ(AgentToolResult().text(), "");
}

TEST(AgentToolResult, SaysWhetherItFailedOnlyWhenItKnows) {
    EXPECT_EQ(AgentToolResult("a").is_error, std::nullopt);
    const AgentToolResult failed = AgentToolResult::error("no such file");
    EXPECT_EQ(failed.is_error, true);
    EXPECT_EQ(failed.text(), "no such file");
}

TEST(AgentToolResult, AsJson) {
    AgentToolResult result("2");
    EXPECT_EQ(boost::json::serialize(to_json(result)),
              R"({"content":[{"type":"text","text":"2"}],"details":null,"is_error":null,)"
              R"("terminate":null})");
    result.details = JsonObject{{"rows", 3}};
    result.is_error = false;
    result.terminate = true;
    EXPECT_EQ(boost::json::serialize(to_json(result)),
              R"({"content":[{"type":"text","text":"2"}],"details":{"rows":3},"is_error":false,)"
              R"("terminate":true})");
}

}  // namespace
}  // namespace cubepi
