#include <bub/builtin/turn/conversation_digest.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/message.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/faux.hpp>

namespace bub::detail {
namespace {

using cubepi::faux_assistant_message;
using cubepi::faux_tool_call;
using cubepi::Message;
using cubepi::MessageList;
using cubepi::user_message;

Message result_of(const std::string& tool, const std::string& text) {
    cubepi::ToolResultMessage result;
    result.tool_name = tool;
    cubepi::TextContent block;
    block.text = text;
    result.content.push_back(std::move(block));
    return Message(std::move(result));
}

Message calling(const std::string& tool) {
    return Message(faux_assistant_message(faux_tool_call(tool), cubepi::stop_reason::tool_use));
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

TEST(ConversationDigest, ContainsTextsCallsAndResults) {
    MessageList messages;
    messages.push_back(user_message("look"));
    messages.push_back(calling("list"));
    messages.push_back(result_of("list", "a.txt"));
    messages.push_back(Message(faux_assistant_message("", cubepi::stop_reason::error, "too long")));
    const ConversationDigest digest(messages);
    EXPECT_EQ(digest.message_count(), 3u);
    EXPECT_EQ(digest.text(1'000), "User: look\nAssistant calls list: {}\nResult of list: a.txt\n");
}

TEST(ConversationDigest, AConversationOfOneInputHasNoHistory) {
    MessageList messages;
    messages.push_back(
        cubepi::synthetic_user_message("[Anchor created: session/start]: {}", "anchor"));
    messages.push_back(user_message("one"));
    EXPECT_FALSE(ConversationDigest(messages).has_history());
    messages.push_back(user_message("two"));
    EXPECT_TRUE(ConversationDigest(messages).has_history());
    MessageList handed_off;
    handed_off.push_back(cubepi::synthetic_user_message(
        "[Anchor created: phase/2]: {\"summary\": \"x\"}", "anchor"));
    handed_off.push_back(user_message("one"));
    const ConversationDigest digest(handed_off);
    EXPECT_TRUE(digest.has_history());
    EXPECT_TRUE(digest.text(1'000).starts_with("Note, not by the user: [Anchor"))
        << digest.text(1'000);
}

TEST(ConversationDigest, KeepsTheFirstAndTheNewestMessagesWithinTheLimit) {
    const ConversationDigest digest(long_conversation());
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

TEST(ConversationDigest, ShortensBetweenCharacters) {
    std::string text;
    for (int i = 0; i < 500; ++i) text += "\xE2\x82\xAC\xF0\x9F\x98\x80";
    for (std::size_t limit = 0; limit < 300; ++limit) {
        const std::string cut = shortened_middle(text, limit);
        EXPECT_LE(cut.size(), limit);
        EXPECT_TRUE(cubepi::is_utf8(cut)) << limit;
    }
    EXPECT_EQ(shortened_middle("short", 5), "short");
}

}  // namespace bub::detail
