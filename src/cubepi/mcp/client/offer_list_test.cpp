#include <cubepi/mcp/client/offer_list.hpp>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

JsonObject object(const std::string& text) { return parse_json(text).as_object(); }

TEST(McpOfferReader, InvalidEntries_AreLeftOut) {
    McpOfferReader reader{McpLimits()};
    EXPECT_EQ(reader.add_prompts(object(R"({"prompts":[
        {"name":"good","description":"a\u001bb","arguments":[{"name":"x"}]}, 7, {},
        {"name":"two\nlines"}, {"name":"args","arguments":[{"name":""}]}], "nextCursor":"a"})")),
              "a");
    ASSERT_EQ(reader.prompts.prompts.size(), 1U);
    EXPECT_EQ(reader.prompts.prompts[0].description, "a b");
    EXPECT_EQ(reader.prompts.problems.size(), 4U);
    EXPECT_EQ(reader.add_resources(
                  object(R"({"resources":[{"uri":"a://b"},{"uri":"a\u0007"},{"name":"x"}]})")),
              "");
    EXPECT_EQ(reader.resources.resources.size(), 1U);
    EXPECT_THROW(reader.add_templates(object("{}")), Error);
}

TEST(McpOfferReader, EndlessPages_End) {
    McpLimits limits;
    limits.max_offers = 3;
    McpOfferReader reader(limits);
    EXPECT_EQ(reader.add_prompts(object(R"({"prompts":[],"nextCursor":"a"})")), "a");
    EXPECT_EQ(reader.add_prompts(object(R"({"prompts":[],"nextCursor":"a"})")), "");
    EXPECT_THAT(reader.prompts.problems, ElementsAre(HasSubstr("repeats pages")));
    EXPECT_EQ(
        reader.add_prompts(object(
            R"({"prompts":[{"name":"1"},{"name":"2"},{"name":"3"},{"name":"4"}],"nextCursor":"b"})")),
        "");
    EXPECT_EQ(reader.prompts.prompts.size(), 3U);
}

TEST(McpPromptText, InvalidMessages_AreErrors) {
    EXPECT_EQ(mcp_prompt_text_from_json(
                  object(R"({"messages":[{"role":"system","content":{"type":"text"}}]})"))
                  .messages.at(0)
                  .role,
              "user");
    EXPECT_THROW(mcp_prompt_text_from_json(object("{}")), Error);
    EXPECT_THROW(mcp_prompt_text_from_json(object(R"({"messages":[{"content":"text"}]})")), Error);
    EXPECT_THROW(mcp_contents_from_json(object(R"({"contents":[1]})")), Error);
}

}  // namespace
}  // namespace cubepi::detail
