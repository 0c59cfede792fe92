#include <cubepi/middleware/compaction/run.hpp>

#include <gtest/gtest.h>

#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi::detail {
namespace {

Message result_of(const std::string& tool, const std::string& text) {
    ToolResultMessage result;
    result.tool_name = tool;
    TextContent block;
    block.text = text;
    result.content.push_back(std::move(block));
    return Message(std::move(result));
}

Message calling(const std::string& tool) {
    return Message(faux_assistant_message(faux_tool_call(tool), stop_reason::tool_use));
}

MessageList long_conversation() {
    MessageList messages;
    for (int i = 0; i < 20; ++i) {
        messages.push_back(user_message("question " + std::to_string(i) + std::string(80, '.')));
        messages.push_back(Message(faux_assistant_message("answer " + std::to_string(i))));
    }
    return messages;
}

}  // namespace

TEST(ConversationDigest, Digest_ContainsTextsCallsAndResults) {
    MessageList messages;
    messages.push_back(user_message("look"));
    messages.push_back(calling("list"));
    messages.push_back(result_of("list", "a.txt"));
    messages.push_back(Message(faux_assistant_message("", stop_reason::error, "too long")));
    const ConversationDigest digest("", messages.begin(), messages.end());
    EXPECT_EQ(digest.text(1'000), "User: look\nAssistant calls list: {}\nResult of list: a.txt\n");
}

TEST(ConversationDigest, LongConversation_KeepsFirstAndNewestMessages) {
    const MessageList messages = long_conversation();
    const ConversationDigest digest("", messages.begin(), messages.end());
    ASSERT_GT(digest.size(), 2'000u);
    for (const std::size_t limit : {200u, 500u, 1'000u, 2'000u, 100'000u}) {
        const std::string text = digest.text(limit);
        EXPECT_LE(text.size(), limit);
        EXPECT_NE(text.find("answer 19"), std::string::npos) << text;
    }
    const std::string text = digest.text(1'000);
    EXPECT_NE(text.find("question 0"), std::string::npos) << text;
    EXPECT_NE(text.find(" messages omitted]"), std::string::npos) << text;
    EXPECT_EQ(text.find("question 5"), std::string::npos) << text;
}

TEST(ConversationDigest, Shortening_CutsBetweenCharacters) {
    std::string text;
    for (int i = 0; i < 500; ++i) text += "\xE2\x82\xAC\xF0\x9F\x98\x80";
    for (std::size_t limit = 0; limit < 300; ++limit) {
        const std::string cut = shortened_middle(text, limit);
        EXPECT_LE(cut.size(), limit);
        EXPECT_TRUE(is_utf8(cut)) << limit;
    }
    EXPECT_EQ(shortened_middle("short", 5), "short");
}

}  // namespace cubepi::detail
