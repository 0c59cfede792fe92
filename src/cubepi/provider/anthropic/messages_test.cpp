#include <cubepi/provider/anthropic/messages.hpp>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

Json parsed(const std::string& text) { return boost::json::parse(text); }

AnthropicMessages written(MessageList messages, const std::string& model = "claude-sonnet-4-5",
                          const std::string& provider = "anthropic") {
    ModelRequest request;
    request.model.id = model;
    request.model.provider_id = provider;
    request.messages = std::move(messages);
    return anthropic_messages(request);
}

AssistantMessage answer_of(std::string provider, std::string model) {
    AssistantMessage answer;
    answer.provider_id = std::move(provider);
    answer.model_id = std::move(model);
    return answer;
}

ThinkingContent signed_thinking(std::string text, const char* signature) {
    ThinkingContent thinking;
    thinking.thinking = std::move(text);
    thinking.extra["signature"] = signature;
    return thinking;
}

ToolCall call_of(std::string id) {
    ToolCall call;
    call.id = std::move(id);
    call.name = "f";
    return call;
}

ToolResultMessage result_of(std::string id, std::string text) {
    ToolResultMessage result;
    result.tool_call_id = std::move(id);
    result.tool_name = "f";
    result.content.emplace_back(TextContent{std::move(text)});
    return result;
}

AssistantMessage thinking_answer(std::string provider, std::string model) {
    AssistantMessage answer = answer_of(std::move(provider), std::move(model));
    ThinkingContent redacted;
    redacted.extra["redacted_data"] = "EmwK/+=";
    answer.content.emplace_back(redacted);
    answer.content.emplace_back(signed_thinking(" Hm\n", "Eq/+="));
    answer.content.emplace_back(signed_thinking("", "hidden"));
    answer.content.emplace_back(TextContent{"Ok"});
    answer.content.emplace_back(call_of("toolu_1"));
    return answer;
}

TEST(AnthropicMessages, D13_ThinkingGoesBackByteForByte) {
    const auto made = written({user_message("x"), thinking_answer("anthropic", "claude-opus-4-5"),
                               result_of("toolu_1", "r")});
    EXPECT_EQ(made.wire[1].at("content"), parsed(R"([
        {"type": "redacted_thinking", "data": "EmwK/+="},
        {"type": "thinking", "thinking": " Hm\n", "signature": "Eq/+="},
        {"type": "thinking", "thinking": "", "signature": "hidden"},
        {"type": "text", "text": "Ok"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}])"));
    EXPECT_TRUE(made.notices.empty());
}

TEST(AnthropicMessages, D13_ClaudeIsOneFamilyAtEveryCloud) {
    EXPECT_TRUE(same_anthropic_family(answer_of("bedrock", "us.anthropic.claude-opus-4-6-v1"),
                                      Model{.id = "claude-opus-4-6", .provider_id = "anthropic"}));
    EXPECT_TRUE(same_anthropic_family(answer_of("", ""), Model{.id = "x", .provider_id = "y"}));
    EXPECT_TRUE(same_anthropic_family(answer_of("deepseek", "deepseek-chat"),
                                      Model{.id = "deepseek-r", .provider_id = "deepseek"}));
    EXPECT_FALSE(same_anthropic_family(answer_of("anthropic", "claude-opus-4-6"),
                                       Model{.id = "deepseek-chat", .provider_id = "deepseek"}));
}

TEST(AnthropicMessages, D13_AnotherFamilysThinkingIsLeftOut) {
    AssistantMessage answer = thinking_answer("openai", "gpt-5.1");
    answer.content.pop_back();
    answer.content.emplace_back(call_of("call_abc|fc_123"));
    const auto made = written({user_message("x"), answer, result_of("call_abc|fc_123", "3")});
    EXPECT_EQ(made.wire[1].at("content"), parsed(R"([{"type": "text", "text": "Ok"},
        {"type": "tool_use", "id": "call_abc_fc_123", "name": "f", "input": {}}])"));
    EXPECT_EQ(made.wire[2].at_pointer("/content/0/tool_use_id"), Json("call_abc_fc_123"));
}

TEST(AnthropicMessages, ThinkingThatWasNeverSignedGoesAsText) {
    AssistantMessage answer = answer_of("anthropic", "claude-opus-4-5");
    answer.content.emplace_back(ThinkingContent{"Half a thou", {}});
    answer.stop_reason = "aborted";
    EXPECT_EQ(written({user_message("x"), answer, user_message("y")}).wire[1].at("content"),
              parsed(R"([{"type": "text", "text": "Half a thou"}])"));
}

TEST(AnthropicMessages, D1_ACallWithoutResultGetsOne) {
    AssistantMessage answer = answer_of("anthropic", "claude");
    answer.content.emplace_back(call_of("a"));
    answer.content.emplace_back(call_of("b"));
    const auto made = written({user_message("x"), answer, result_of("b", "r"), user_message("y")});
    ASSERT_EQ(made.wire.size(), 4u);
    const JsonArray& results = made.wire[2].at("content").as_array();
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results[0].at("tool_use_id"), Json("b"));
    EXPECT_EQ(results[1].at("tool_use_id"), Json("a"));
    EXPECT_EQ(results[1].at("is_error"), Json(true));
    EXPECT_EQ(made.notices.at(0).code, "repair");
}

TEST(AnthropicMessages, D1_AResultWithoutItsCallIsLeftOut) {
    const auto made = written({user_message("x"), result_of("gone", "r"), user_message("y")});
    EXPECT_EQ(made.wire.size(), 2u);
    EXPECT_EQ(made.notices.at(0).code, "repair");
    EXPECT_FALSE(made.places[1]);
}

TEST(AnthropicMessages, D1_IdsThatOccurAgainAreMadeDifferent) {
    MessageList messages{user_message("x")};
    for (int turn = 0; turn < 3; ++turn) {
        AssistantMessage answer = answer_of("vllm", "qwen");
        answer.content.emplace_back(call_of("call_0"));
        messages.push_back(answer);
        messages.push_back(result_of("call_0", "r"));
    }
    const auto made = written(messages);
    for (const auto& [message, id] :
         {std::pair(2, "call_0"), std::pair(4, "call_0_2"), std::pair(6, "call_0_3")}) {
        const auto at = static_cast<std::size_t>(message);
        EXPECT_EQ(made.wire[at - 1].at_pointer("/content/0/id"), Json(id));
        EXPECT_EQ(made.wire[at].at_pointer("/content/0/tool_use_id"), Json(id));
    }
}

TEST(AnthropicMessages, D14_WhatTheApiRefusesAsEmptyIsNotSent) {
    UserMessage user;
    user.content.emplace_back(TextContent{""});
    user.content.emplace_back(TextContent{"Hello"});
    user.content.emplace_back(TextContent{" \n"});
    AssistantMessage answer = answer_of("anthropic", "claude");
    answer.content.emplace_back(TextContent{""});
    answer.content.emplace_back(call_of("a"));
    AssistantMessage failed = answer_of("anthropic", "claude");
    failed.stop_reason = "error";
    const auto made =
        written({user, answer, result_of("a", ""), failed, user_message("y"), failed});
    EXPECT_EQ(Json(made.wire), parsed(R"([
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": false}]},
        {"role": "user", "content": [{"type": "text", "text": "y"}]}])"));
    EXPECT_EQ(made.source.size(), 5u);
}

TEST(AnthropicMessages, ImagesInPromptsAndInResults) {
    UserMessage user;
    user.content.emplace_back(ImageContent{"aGk=", "image/png", {}});
    user.content.emplace_back(ImageContent{"https://example.org/a.jpg", {}, {}});
    AssistantMessage answer = answer_of("anthropic", "claude");
    answer.content.emplace_back(call_of("a"));
    ToolResultMessage result = result_of("a", "the screen");
    result.content.emplace_back(ImageContent{"aGk=", "image/png", {}});
    const auto made = written({user, answer, result});
    EXPECT_EQ(made.wire[0].at("content"), parsed(R"([
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.jpg"}}])"));
    EXPECT_EQ(made.wire[2].at_pointer("/content/0/content"), parsed(R"([
        {"type": "text", "text": "the screen"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}])"));
}

TEST(AnthropicMessages, D14_AnImageOfAnAnswerIsOmittedWithANotice) {
    AssistantMessage answer = answer_of("painter", "p");
    answer.content.emplace_back(TextContent{"Here."});
    answer.content.emplace_back(ImageContent{"aGk=", "image/png", {}});
    const auto made = written({user_message("x"), answer, user_message("y")});
    EXPECT_EQ(made.wire[1].at("content").as_array().size(), 1u);
    EXPECT_EQ(made.notices.at(0).code, "request_changed");
}

TEST(AnthropicMessages, D13_ServerToolsGoBackInTheirPlace) {
    AssistantMessage answer = answer_of("anthropic", "claude");
    TextContent cited{"Found."};
    cited.extra["citations"] = parsed(R"([{"url": "u"}])");
    answer.content.emplace_back(TextContent{"Searching."});
    answer.content.emplace_back(cited);
    answer.extra["anthropic_blocks"] = parsed(R"([
        {"before": 1, "block": {"type": "server_tool_use", "id": "s"}},
        {"before": 1, "block": {"type": "web_search_tool_result", "tool_use_id": "s"}}])");
    answer.stop_reason = "pause_turn";
    EXPECT_EQ(written({user_message("x"), answer}).wire[1].at("content"), parsed(R"([
        {"type": "text", "text": "Searching."},
        {"type": "server_tool_use", "id": "s"},
        {"type": "web_search_tool_result", "tool_use_id": "s"},
        {"type": "text", "text": "Found.", "citations": [{"url": "u"}]}])"));
    answer.stop_reason = "aborted";
    EXPECT_EQ(written({user_message("x"), answer}).wire[1].at("content").as_array().size(), 2u);
}

TEST(AnthropicMessages, D4_ACallThatDidNotParseGoesBackAsValidJson) {
    AssistantMessage answer = answer_of("anthropic", "claude");
    ToolCall call = call_of("a");
    call.extra["raw_arguments"] = "{\"x\": ";
    answer.content.emplace_back(call);
    EXPECT_EQ(written({user_message("x"), answer, result_of("a", "bad")})
                  .wire[1]
                  .at_pointer("/content/0"),
              parsed(R"({"type": "tool_use", "id": "a", "name": "f", "input": {}})"));
}

}  // namespace
}  // namespace cubepi::detail
