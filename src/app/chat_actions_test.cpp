// The parts of a request.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include <cubepi/middleware/compaction.hpp>

#include "chat_actions.hpp"

namespace cubepi::app {
namespace {

ModelRequest request() {
    ModelRequest made;
    made.system_prompt = std::string(400, 's') + std::string(80, 'i');
    ToolDefinitions tools;
    ToolDefinition tool;
    tool.name = "read";
    tool.description = std::string(94, 'd');
    tool.parameters = std::make_shared<const Json>(JsonObject());
    tools.push_back(std::move(tool));
    made.tools = std::make_shared<const ToolDefinitions>(std::move(tools));
    made.messages.push_back(user_message(std::string(summary_prefix) + "what was", "m1"));
    made.messages.push_back(user_message(std::string(40, 'p'), "m2"));
    AssistantMessage answer;
    answer.content.emplace_back(TextContent{std::string(20, 'a'), {}});
    made.messages.push_back(Message(std::move(answer)));
    made.messages.push_back(user_message("next", "m3"));
    return made;
}

TEST(ContextReport, Parts_AreMeasured) {
    PromptFiles files;
    files.instructions = std::string(80, 'i');
    files.skills = "not in it";
    const RequestParts parts = parts_of(request(), 1, files, 0);
    EXPECT_EQ(parts.system_prompt, 100);
    EXPECT_EQ(parts.instructions, 20);
    EXPECT_EQ(parts.skills, 0);
    EXPECT_EQ(parts.tools, 25);
    EXPECT_GT(parts.summary, 20);
    EXPECT_EQ(parts.prompts, 10) << "without the message that is not written yet";
    EXPECT_EQ(parts.answers, 5);
    EXPECT_EQ(parts.total, 160 + parts.summary);
}

TEST(ContextReport, CountOfServer_ScalesTheParts) {
    const RequestParts parts = parts_of(request(), 1, PromptFiles(), 10'000);
    EXPECT_EQ(parts.total, 10'000);
    const std::int64_t sum = parts.system_prompt + parts.tools + parts.summary + parts.prompts +
                             parts.answers + parts.results;
    EXPECT_NEAR(static_cast<double>(sum), 10'000, 10);
    const std::string text = context_text(parts, 20'000, true);
    EXPECT_TRUE(
        text.starts_with("The next request has about 10,000 tokens, 50.0% of the window of "
                         "20,000 (as the server counted"))
        << text;
    EXPECT_NE(text.find("  tools"), std::string::npos) << text;
    EXPECT_NE(text.find("1 tool\n"), std::string::npos) << text;
    EXPECT_NE(text.find("10,000   50.0%\n"), std::string::npos) << text;
    EXPECT_EQ(context_text(parts, 0, false).find('%'), std::string::npos);
}

}  // namespace
}  // namespace cubepi::app
