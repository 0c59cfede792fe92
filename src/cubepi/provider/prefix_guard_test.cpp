#include <cubepi/provider/prefix_guard.hpp>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

Message answer(std::string text, std::int64_t prompt_tokens = 0) {
    AssistantMessage message;
    message.content.emplace_back(TextContent{.text = std::move(text)});
    if (prompt_tokens > 0) {
        message.usage.emplace();
        message.usage->input_tokens = 0;
        message.usage->cache_read_tokens = prompt_tokens;
    }
    return Message(std::move(message));
}

std::shared_ptr<const ToolDefinitions> tools(std::vector<std::string> names) {
    auto made = std::make_shared<ToolDefinitions>();
    for (std::string& name : names) {
        ToolDefinition tool;
        tool.name = std::move(name);
        tool.parameters = std::make_shared<const Json>(JsonObject({{"type", "object"}}));
        made->push_back(std::move(tool));
    }
    return made;
}

ModelRequest request(MessageList messages) {
    ModelRequest made;
    made.model.id = "m";
    made.system_prompt = "You are helpful.";
    made.tools = tools({"read", "write"});
    made.messages = std::move(messages);
    return made;
}

std::string_view detail_of(const Notice& notice, std::string_view key) {
    return notice.details.at(key).as_string();
}

TEST(PrefixGuard, D56_GrowingConversation_IsNotABreak) {
    PrefixGuard guard;
    ModelRequest one = request({user_message("hi")});
    EXPECT_FALSE(guard.check(one));
    for (int i = 0; i < 100; ++i) {
        one.messages.push_back(answer("a" + std::to_string(i)));
        one.messages.push_back(user_message("b" + std::to_string(i)));
        EXPECT_FALSE(guard.check(one));
    }
    EXPECT_FALSE(guard.check(one)) << "the same again";
}

TEST(PrefixGuard, D56_Break_NamesTheBlockAndItsTokens) {
    PrefixGuard guard;
    MessageList history{user_message(std::string(400, 'a'), "u1"),
                        answer(std::string(400, 'b'), 1000),
                        user_message(std::string(200, 'c'), "u2")};
    ModelRequest first = request(history);
    first.system_prompt = {};
    first.tools = nullptr;
    EXPECT_FALSE(guard.check(first));
    ModelRequest edited = first;
    edited.messages = MessageList{history[0], answer("rewritten", 1000), history[2]};
    const std::optional<Notice> found = guard.check(edited);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->code, "cache_prefix_break");
    EXPECT_EQ(detail_of(*found, "block"), "messages/1/content/0");
    EXPECT_EQ(detail_of(*found, "change"), "changed");
    EXPECT_EQ(found->details.at("tokens"), Json(600));
    EXPECT_FALSE(guard.check(edited)) << "told once";
}

TEST(PrefixGuard, D56_Tools_PrecedeSystemPromptAndMessages) {
    PrefixGuard guard;
    const ModelRequest first = request({user_message("hi")});
    EXPECT_FALSE(guard.check(first));
    ModelRequest other = request({user_message("ho")});
    other.system_prompt = "You are terse.";
    other.tools = tools({"read", "grep"});
    std::optional<Notice> found = guard.check(other);
    ASSERT_TRUE(found);
    EXPECT_EQ(detail_of(*found, "block"), "tools/1");
    EXPECT_EQ(detail_of(*found, "tool"), "write");
    EXPECT_FALSE(guard.check(other));
    ModelRequest prompt = other;
    prompt.system_prompt = "You are verbose.";
    found = guard.check(prompt);
    ASSERT_TRUE(found);
    EXPECT_EQ(detail_of(*found, "block"), "system_prompt");
    ModelRequest more = prompt;
    more.tools = tools({"read", "grep", "fetch"});
    found = guard.check(more);
    ASSERT_TRUE(found);
    EXPECT_EQ(detail_of(*found, "block"), "tools/2");
}

TEST(PrefixGuard, D56_FieldsUnreadByTheModel_DoNotCount) {
    PrefixGuard guard;
    UserMessage user;
    user.content.emplace_back(TextContent{.text = "hi"});
    user.timestamp = 1.0;
    EXPECT_FALSE(guard.check(request({Message(user)})));
    UserMessage stored = user;
    stored.id = "u1";
    stored.run_id = "r1";
    stored.timestamp = 2.0;
    stored.metadata["steer_id"] = "s";
    std::get<TextContent>(stored.content[0]).extra["cache_control"] =
        JsonObject({{"type", "ephemeral"}});
    ModelRequest again = request({Message(stored)});
    again.tools = tools({"read", "write"});
    EXPECT_FALSE(guard.check(again));
    stored.metadata["sender_display_name"] = "Ann";
    EXPECT_TRUE(guard.check(request({Message(stored)}))) << "the model reads the name";
}

TEST(PrefixGuard, D56_ShorterHistory_IsABreakAtItsEnd) {
    PrefixGuard guard;
    const MessageList history{user_message("one", "u1"), answer("two"), user_message("three")};
    EXPECT_FALSE(guard.check(request(history)));
    MessageList shorter = history;
    shorter.truncate(1);
    const std::optional<Notice> found = guard.check(request(shorter));
    ASSERT_TRUE(found);
    EXPECT_EQ(detail_of(*found, "block"), "messages/1/content/0");
    EXPECT_EQ(detail_of(*found, "change"), "removed");
    EXPECT_EQ(detail_of(*found, "role"), "assistant");
}

TEST(PrefixGuard, OtherModel_HasAnotherCache) {
    PrefixGuard guard;
    EXPECT_FALSE(guard.check(request({user_message("hi")})));
    ModelRequest other = request({user_message("ho")});
    other.model.id = "n";
    EXPECT_FALSE(guard.check(other));
    guard.reset();
    other.messages = {user_message("hu")};
    EXPECT_FALSE(guard.check(other));
}

}  // namespace
}  // namespace cubepi
