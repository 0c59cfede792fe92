// The HTML page of a session.

#include <gtest/gtest.h>

#include <string>

#include <cubepi/core/message.hpp>

#include "transcript.hpp"

namespace cubepi::app {
namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

MessageList conversation() {
    MessageList messages;
    messages.push_back(user_message("why <b>&\"'\n```cpp\nif (a < b) {{title}}\n```\nso?", "m1"));
    AssistantMessage answer;
    ThinkingContent thought;
    thought.thinking = "</pre><script>alert(1)</script>";
    answer.content.emplace_back(std::move(thought));
    ToolCall call;
    call.id = "c1";
    call.name = "<tool>";
    call.arguments = JsonObject{{"path", "</details>"}};
    answer.content.emplace_back(std::move(call));
    answer.content.emplace_back(TextContent{"so\x1b[31m \xE2\x80\xAE.", {}});
    messages.push_back(Message(std::move(answer)));
    return messages;
}

std::string page() {
    SessionPageHead head;
    head.title = "<title>";
    head.details = "plan · 2 messages";
    return session_page(conversation(), head);
}

TEST(SessionPage, Text_IsEscaped) {
    const std::string text = page();
    EXPECT_FALSE(has(text, "<script")) << text;
    EXPECT_FALSE(has(text, "<tool>")) << text;
    EXPECT_TRUE(has(text, "<title>&lt;title&gt;</title>")) << text;
    EXPECT_TRUE(has(text, "why &lt;b&gt;&amp;&quot;&#39;")) << text;
    EXPECT_TRUE(has(text, "&lt;/pre&gt;&lt;script&gt;alert(1)")) << text;
    EXPECT_TRUE(has(text, "{&quot;path&quot;:&quot;&lt;/details&gt;&quot;}")) << text;
    EXPECT_FALSE(has(text, "\x1b")) << text;
    EXPECT_FALSE(has(text, "\xE2\x80\xAE")) << "the order of characters cannot be changed";
}

TEST(SessionPage, CodeBlocks_AreSetOff) {
    EXPECT_TRUE(has(page(), "<pre>if (a &lt; b) {{title}}\n</pre>")) << page();
}

TEST(SessionPage, Page_LoadsNothing) {
    const std::string text = page();
    EXPECT_TRUE(has(text, "default-src 'none'")) << text;
    EXPECT_TRUE(has(text, "--back: #fff")) << "the look of the page of traces";
    EXPECT_FALSE(has(text, "{{style}}")) << text;
    EXPECT_FALSE(has(text, "http:") || has(text, "https:")) << text;
}

TEST(SessionPage, AnswersOfUser_StandWithTheirQuestions) {
    MessageList messages;
    AssistantMessage answer;
    ToolCall call;
    call.id = "c1";
    call.name = "ask_user";
    const Json option = JsonObject{{"label", "Deep blue"}, {"value", "b"}};
    const Json question =
        JsonObject{{"key", "color"}, {"prompt", "Which <color>?"}, {"options", JsonArray{option}}};
    call.arguments = JsonObject{{"questions", JsonArray{question}}};
    answer.content.emplace_back(std::move(call));
    messages.push_back(Message(std::move(answer)));
    ToolResultMessage result;
    result.tool_call_id = "c1";
    result.tool_name = "ask_user";
    result.details =
        JsonObject{{"hitl", JsonObject{{"kind", "ask"}, {"answers", JsonObject{{"color", "b"}}}}}};
    messages.push_back(Message(std::move(result)));
    const std::string text = session_page(messages, SessionPageHead());
    EXPECT_TRUE(has(text, "<pre>Which &lt;color&gt;? (Deep blue)\n</pre>")) << text;
    EXPECT_TRUE(has(text, "<pre>Which &lt;color&gt;? → Deep blue\n</pre>")) << text;
    const std::string markdown = to_markdown(messages, "s");
    EXPECT_TRUE(has(markdown, "Which <color>? (Deep blue)\n")) << markdown;
    EXPECT_TRUE(has(markdown, "Which <color>? → Deep blue\n")) << markdown;
}

TEST(SessionPage, Picture_IsEmbeddedIfItIsOne) {
    const auto page_with = [](const std::string& source, const std::string& type) {
        UserMessage user;
        ImageContent image;
        image.source = source;
        image.media_type = type;
        user.content.emplace_back(std::move(image));
        MessageList messages;
        messages.push_back(Message(std::move(user)));
        return session_page(messages, SessionPageHead());
    };
    EXPECT_TRUE(has(page_with("aGk=", "image/png"), "src=\"data:image/png;base64,aGk=\""));
    EXPECT_FALSE(has(page_with("\" onerror=\"x", "image/png"), "<img"));
    EXPECT_FALSE(has(page_with("aGk=", "image/svg+xml"), "<img"));
    EXPECT_FALSE(has(page_with("https://host/a.png", "image/png"), "<img"));
}

}  // namespace
}  // namespace cubepi::app
