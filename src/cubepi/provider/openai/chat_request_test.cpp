#include <cubepi/provider/openai/chat_api.hpp>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

ModelRequest request_for(std::string model) {
    ModelRequest request;
    request.model.id = std::move(model);
    request.model.provider_id = "openai";
    request.messages.push_back(user_message("Hello"));
    return request;
}

TEST(OpenAIChatRequest, D14_Request_HasOnlySetOptions) {
    const WireProtocol::Built built =
        build_openai_chat(request_for("gpt-4.1"), OpenAIChatSettings());
    EXPECT_EQ(Json(built.body),
              boost::json::parse(
                  R"({"model":"gpt-4.1","stream":true,"stream_options":{"include_usage":true},
        "messages":[{"role":"user","content":"Hello"}]})"));
    EXPECT_TRUE(built.notices.empty());
}

TEST(OpenAIChatRequest, D14_MaxTokens_UseTheFieldOfTheFamily) {
    ModelRequest request = request_for("llama3");
    request.model.max_tokens = 64;
    OpenAIChatSettings settings;
    EXPECT_TRUE(build_openai_chat(request, settings).body.contains("max_tokens"));
    request.model.id = "openai/gpt-5";
    EXPECT_TRUE(build_openai_chat(request, settings).body.contains("max_completion_tokens"));
    request.model.id = "gpt-4.1";
    settings.openai_endpoint = true;
    EXPECT_TRUE(build_openai_chat(request, settings).body.contains("max_completion_tokens"));
    settings.capability.max_tokens_field = "max_tokens";
    EXPECT_TRUE(build_openai_chat(request, settings).body.contains("max_tokens"));
}

TEST(OpenAIChatRequest, D14_UnsupportedTemperature_IsOmittedWithANotice) {
    ModelRequest request = request_for("o4-mini");
    request.model.temperature = 0.2;
    const WireProtocol::Built built = build_openai_chat(request, OpenAIChatSettings());
    EXPECT_FALSE(built.body.contains("temperature"));
    ASSERT_EQ(built.notices.size(), 1u);
    EXPECT_EQ(built.notices[0].code, "request_changed");
    request.model.id = "gpt-4.1";
    EXPECT_EQ(build_openai_chat(request, OpenAIChatSettings()).body.at("temperature"), Json(0.2));
}

TEST(OpenAIChatRequest, D14_ModelCapability_TakesPrecedenceOverTheProvider) {
    ModelRequest request = request_for("gpt-4.1");
    request.model.max_tokens = 10;
    CapabilityDescriptor own;
    own.max_tokens_field = "limit";
    request.model.capability = std::make_shared<const CapabilityDescriptor>(own);
    OpenAIChatSettings settings;
    settings.capability.max_tokens_field = "max_tokens";
    EXPECT_TRUE(build_openai_chat(request, settings).body.contains("limit"));
}

TEST(OpenAIChatRequest, D14_UnsupportedTools_AreReported) {
    ModelRequest request = request_for("gpt-6-sol");
    ToolDefinition tool;
    tool.name = "t";
    tool.parameters = std::make_shared<const Json>(JsonObject());
    request.tools = std::make_shared<const ToolDefinitions>(ToolDefinitions(1, tool));
    OpenAIChatSettings settings;
    settings.openai_endpoint = true;
    const WireProtocol::Built built = build_openai_chat(request, settings);
    ASSERT_EQ(built.notices.size(), 1U);
    EXPECT_EQ(built.notices[0].code, "unsupported");
    request.options = StreamOptions().reasoning(ReasoningControl());
    EXPECT_TRUE(build_openai_chat(request, settings).notices.empty());
}

TEST(OpenAIChatRequest, Reasoning_IsSentOnlyIfSet) {
    ModelRequest request = request_for("gpt-5.2");
    EXPECT_FALSE(
        build_openai_chat(request, OpenAIChatSettings()).body.contains("reasoning_effort"));
    ReasoningControl control;
    request.options = StreamOptions().reasoning(control);
    EXPECT_EQ(build_openai_chat(request, OpenAIChatSettings()).body.at("reasoning_effort"),
              Json("none"));
    control.mode = ReasoningMode::on;
    const std::pair<ReasoningEffort, const char*> efforts[] = {{ReasoningEffort::minimal, "none"},
                                                               {ReasoningEffort::low, "low"},
                                                               {ReasoningEffort::medium, "medium"},
                                                               {ReasoningEffort::high, "high"},
                                                               {ReasoningEffort::max, "xhigh"}};
    for (const auto& [effort, value] : efforts) {
        control.effort = effort;
        request.options = StreamOptions().reasoning(control);
        EXPECT_EQ(build_openai_chat(request, OpenAIChatSettings()).body.at("reasoning_effort"),
                  Json(value));
    }
    // A model that does not reason is not told to stop.
    request.model.id = "gpt-4.1";
    control.mode = ReasoningMode::off;
    request.options = StreamOptions().reasoning(control);
    EXPECT_FALSE(
        build_openai_chat(request, OpenAIChatSettings()).body.contains("reasoning_effort"));
}

Message assistant(ContentList<AssistantContent> content) {
    AssistantMessage message;
    message.content = std::move(content);
    message.provider_id = "openai";
    return message;
}

Message result_of(std::string id, ContentList<Content> content, bool is_error = false) {
    ToolResultMessage message;
    message.tool_call_id = std::move(id);
    message.tool_name = "shot";
    message.content = std::move(content);
    message.is_error = is_error;
    return message;
}

ToolCall call_of(std::string id) {
    ToolCall call;
    call.id = std::move(id);
    call.name = "shot";
    return call;
}

TEST(OpenAIChatRequest, D1_CallWithoutResult_GetsOne) {
    ModelRequest request = request_for("gpt-4.1");
    request.messages.push_back(assistant({call_of("a"), call_of("b")}));
    request.messages.push_back(result_of("b", {TextContent{"ok"}}));
    request.messages.push_back(user_message("And?"));
    std::vector<Notice> notices;
    const JsonArray wire = openai_chat_messages(request, CapabilityDescriptor(), notices);
    ASSERT_EQ(wire.size(), 5u);
    EXPECT_EQ(wire[3].at("tool_call_id"), Json("a"));
    EXPECT_EQ(wire[4].at("role"), Json("user"));
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0].code, "repair");
}

TEST(OpenAIChatRequest, D1_ResultWithoutCall_IsOmitted) {
    ModelRequest request = request_for("gpt-4.1");
    request.messages.push_back(result_of("x", {TextContent{"of nothing"}}));
    request.messages.push_back(assistant({call_of("a"), call_of("b")}));
    request.messages.push_back(result_of("b", {TextContent{"once"}}));
    request.messages.push_back(result_of("b", {TextContent{"twice"}}));
    request.messages.push_back(user_message("And?"));
    request.messages.push_back(result_of("a", {TextContent{"too late"}}));
    std::vector<Notice> notices;
    const JsonArray wire = openai_chat_messages(request, CapabilityDescriptor(), notices);
    std::string roles;
    for (const Json& message : wire) roles += std::string(message.at("role").as_string()) + " ";
    EXPECT_EQ(roles, "user assistant tool tool user ");
    EXPECT_EQ(wire[2].at("content"), Json("once"));
    EXPECT_EQ(wire[3].at("tool_call_id"), Json("a"));
    EXPECT_EQ(notices.size(), 4u);
}

TEST(OpenAIChatRequest, D14_ImagesAndFailuresOfTools_ReachTheModel) {
    ModelRequest request = request_for("gpt-4.1");
    request.messages.push_back(assistant({call_of("a"), call_of("b")}));
    ImageContent image;
    image.source = "AAAA";
    image.media_type = "image/png";
    request.messages.push_back(result_of("a", {TextContent{"the screen"}, image}));
    request.messages.push_back(result_of("b", {TextContent{"no such city"}}, true));
    std::vector<Notice> notices;
    const JsonArray wire = openai_chat_messages(request, CapabilityDescriptor(), notices);
    ASSERT_EQ(wire.size(), 5u);
    EXPECT_EQ(wire[3].at("content"), Json("Error: no such city"));
    EXPECT_EQ(wire[4].at("role"), Json("user"));
    EXPECT_EQ(wire[4].at_pointer("/content/1/image_url/url"), Json("data:image/png;base64,AAAA"));
}

TEST(OpenAIChatRequest, EmptyAnswers_AreOmitted) {
    ModelRequest request = request_for("gpt-4.1");
    request.messages.push_back(assistant({}));
    request.messages.push_back(assistant({TextContent{""}}));
    std::vector<Notice> notices;
    EXPECT_EQ(openai_chat_messages(request, CapabilityDescriptor(), notices).size(), 1u);
}

TEST(OpenAIChatRequest, D13_Thinking_IsReturnedOnlyWhereWanted) {
    ThinkingContent thinking;
    thinking.thinking = "hm";
    thinking.extra["reasoning_details"] =
        JsonArray({JsonObject({{"type", "reasoning.encrypted"}, {"data", "x"}})});
    ModelRequest request = request_for("m");
    request.messages.push_back(assistant({thinking, TextContent{"yes"}}));
    std::vector<Notice> notices;
    CapabilityDescriptor capability;
    JsonArray wire = openai_chat_messages(request, capability, notices);
    EXPECT_EQ(wire[1].at_pointer("/reasoning_details/0/data"), Json("x"));
    EXPECT_FALSE(wire[1].get_object().contains("reasoning_content"));
    capability.thinking_field = "reasoning_content";
    wire = openai_chat_messages(request, capability, notices);
    EXPECT_EQ(wire[1].at("reasoning_content"), Json("hm"));
    // Another family cannot read it.
    request.model.provider_id = "other";
    wire = openai_chat_messages(request, CapabilityDescriptor(), notices);
    EXPECT_FALSE(wire[1].get_object().contains("reasoning_details"));
}

TEST(OpenAIChatRequest, ToolChoiceWithoutTools_IsOmittedWithNotice) {
    ModelRequest request = request_for("m");
    request.options = StreamOptions().tool_choice(ToolChoice());
    const WireProtocol::Built built = build_openai_chat(request, OpenAIChatSettings());
    EXPECT_FALSE(built.body.contains("tool_choice"));
    EXPECT_EQ(built.notices.size(), 1u);
}

TEST(OpenAIChatRequest, D13_IdsOfResponsesApi_AreShortened) {
    const std::string call_id = "call_abcdefghijklmnopqrstuvwx";
    const std::string id = call_id + "|fc_" + std::string(50, '0');
    ModelRequest request = request_for("gpt-4.1");
    AssistantMessage answer;
    ToolCall call;
    call.id = id;
    call.name = "add";
    answer.content.emplace_back(call);
    request.messages.push_back(answer);
    ToolResultMessage result;
    result.tool_call_id = id;
    request.messages.push_back(result);
    std::vector<Notice> notices;
    const JsonArray wire = openai_chat_messages(request, CapabilityDescriptor(), notices);
    EXPECT_EQ(wire.at(1).at("tool_calls").at(0).at("id"), Json(call_id));
    EXPECT_EQ(wire.at(2).at("tool_call_id"), Json(call_id));
    EXPECT_TRUE(notices.empty());
}

}  // namespace
}  // namespace cubepi::detail
