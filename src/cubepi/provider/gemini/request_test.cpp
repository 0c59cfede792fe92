#include <cubepi/provider/gemini/generate_api.hpp>

#include <gtest/gtest.h>

#include <map>

#include <cubepi/provider/wire/encoding.hpp>

namespace cubepi::detail {
namespace {

Json parsed(const std::string& text) { return boost::json::parse(text); }

ModelRequest request_of(std::string model, MessageList messages = {}) {
    ModelRequest request;
    request.model.id = std::move(model);
    request.model.provider_id = "gemini";
    request.messages = messages.empty() ? MessageList{user_message("Hi")} : std::move(messages);
    return request;
}

WireProtocol::Built build(const ModelRequest& request, bool sends_signatures = true) {
    static const CapabilityDescriptor nothing;
    static const std::map<std::string, CapabilityDescriptor> no_overrides;
    GeminiSettings settings;
    settings.profile = effective_profile(ModelApi::gemini, request.model,
                                         ProviderCapability{nothing, no_overrides, {}});
    settings.sends_signatures = sends_signatures;
    return build_gemini(request, settings);
}

Json config_of(std::string model, ReasoningMode mode, ReasoningEffort effort) {
    ReasoningControl control;
    control.mode = mode;
    control.effort = effort;
    ModelRequest request = request_of(std::move(model));
    request.options = StreamOptions().reasoning(control);
    return build(request).body.at("generationConfig").at("thinkingConfig");
}

ToolCall call_of(const std::string& id, const std::string& signature = {}) {
    ToolCall call;
    call.id = id;
    call.name = "f";
    call.arguments["a"] = 1;
    if (!signature.empty())
        call.extra[gemini_members_key] = JsonObject{{thought_signature_key, signature}};
    return call;
}

AssistantMessage answer_of(ContentList<AssistantContent> content,
                           const std::string& provider = "gemini") {
    AssistantMessage answer;
    answer.content = std::move(content);
    answer.provider_id = provider;
    return answer;
}

ToolResultMessage result_of(const std::string& id, ContentList<Content> content,
                            bool is_error = false) {
    ToolResultMessage result;
    result.tool_call_id = id;
    result.tool_name = "f";
    result.content = std::move(content);
    result.is_error = is_error;
    return result;
}

ContentList<Content> text_content(std::string text) {
    ContentList<Content> content;
    content.emplace_back(TextContent{std::move(text), {}});
    return content;
}

TEST(GeminiRequest, D14_Request_SendsOnlySetOptions) {
    EXPECT_EQ(Json(build(request_of("gemini-3.8-flash")).body),
              parsed(R"({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})"));
    ModelRequest request = request_of("gemini-3.8-flash");
    request.system_prompt = "Be brief.";
    request.model.max_tokens = 100;
    request.model.temperature = 0.5;
    const auto built = build(request);
    EXPECT_EQ(built.body.at("systemInstruction"), parsed(R"({"parts": [{"text": "Be brief."}]})"));
    EXPECT_EQ(built.body.at("generationConfig"),
              parsed(R"({"maxOutputTokens": 100, "temperature": 0.5})"));
}

TEST(GeminiRequest, D13_CallsAndResults_KeepSignaturesAndIds) {
    ToolCall first = call_of("c1", "Eq=");
    first.extra[gemini_call_id_key] = "c1";
    ContentList<AssistantContent> content;
    content.emplace_back(ThinkingContent{"Hm", {}});
    content.emplace_back(first);
    content.emplace_back(call_of("made here"));
    const auto built =
        build(request_of("gemini-3.8-flash", {user_message("x"), answer_of(std::move(content)),
                                              result_of("made here", text_content("no"), true),
                                              result_of("c1", text_content("2"))}));
    EXPECT_EQ(built.body.at("contents"), parsed(R"([
        {"role": "user", "parts": [{"text": "x"}]},
        {"role": "model", "parts": [
            {"thoughtSignature": "Eq=", "functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}},
            {"functionCall": {"name": "f", "args": {"a": 1}}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "f", "response": {"error": "no"}}},
            {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "2"}}}]}])"));
    EXPECT_TRUE(built.notices.empty());
}

TEST(GeminiRequest, D1_MissingResult_IsReplaced) {
    ContentList<AssistantContent> content;
    content.emplace_back(call_of("c1", "s"));
    const auto built = build(
        request_of("gemini-3.8-flash", {user_message("x"), answer_of(std::move(content)),
                                        result_of("c9", text_content("?")), user_message("y")}));
    EXPECT_EQ(
        built.body.at("contents").at(2).at_pointer("/parts/0/functionResponse/response/error"),
        Json(interrupted_result));
    EXPECT_EQ(built.notices.size(), 2u);
}

TEST(GeminiRequest, ForeignCalls_GetTheWordForNoSignature) {
    const auto signature = [](const std::string& model, const std::string& provider) {
        ContentList<AssistantContent> content;
        content.emplace_back(call_of("c1", "Eq="));
        content.emplace_back(call_of("c2"));
        const auto built = build(request_of(
            model, {user_message("x"), answer_of(std::move(content), provider),
                    result_of("c1", text_content("1")), result_of("c2", text_content("2"))}));
        const Json& parts = built.body.at("contents").at(1).at("parts");
        EXPECT_FALSE(parts.at(1).as_object().contains(thought_signature_key));
        const Json* made = parts.at(0).as_object().if_contains(thought_signature_key);
        return made ? std::string(made->as_string()) : std::string();
    };
    EXPECT_EQ(signature("gemini-3.8-flash", "gemini"), "Eq=");
    EXPECT_EQ(signature("gemini-3.8-flash", "openai"), "skip_thought_signature_validator");
    EXPECT_EQ(signature("gemini-2.5-pro", "openai"), "");
    EXPECT_EQ(signature("gemini-flash-latest", "openai"), "skip_thought_signature_validator");
}

TEST(GeminiRequest, D89_RefusedSignatures_AreLeftOut) {
    ContentList<AssistantContent> content;
    content.emplace_back(call_of("c1", "Eq="));
    const ModelRequest request = request_of(
        "gemini-3.8-flash",
        {user_message("x"), answer_of(std::move(content)), result_of("c1", text_content("1"))});
    EXPECT_EQ(
        build(request, false).body.at("contents").at(1).at_pointer("/parts/0/thoughtSignature"),
        Json("skip_thought_signature_validator"));
}

TEST(GeminiRequest, Images_StandWhereTheModelReadsThem) {
    ContentList<Content> shown = text_content("see");
    shown.emplace_back(ImageContent{"aGk=", "image/png", {}});
    ContentList<AssistantContent> content;
    content.emplace_back(call_of("c1", "s"));
    const auto parts = [&](const std::string& model) {
        const auto built = build(
            request_of(model, {user_message("x", cubepi::image_url("https://example.com/cat.png")),
                               answer_of(content), result_of("c1", shown)}));
        EXPECT_EQ(built.body.at("contents").at(0).at_pointer("/parts/1/fileData/fileUri"),
                  Json("https://example.com/cat.png"));
        return built.body.at("contents").at(2).at("parts");
    };
    const Json image = parsed(R"({"inlineData": {"mimeType": "image/png", "data": "aGk="}})");
    EXPECT_EQ(parts("gemini-3.8-flash").at_pointer("/0/functionResponse/parts/0"), image);
    EXPECT_EQ(parts("gemini-2.5-pro").at(1), image);
    shown.emplace_back(cubepi::image_url("https://example.com/dog.png"));
    EXPECT_EQ(parts("gemini-3.8-flash").at(1).at_pointer("/fileData/fileUri"),
              Json("https://example.com/dog.png"));
}

TEST(GeminiRequest, Tools_AreSentAsJsonSchema) {
    ToolDefinition tool;
    tool.name = "f";
    tool.description = "d";
    tool.parameters = std::make_shared<const Json>(
        parsed(R"({"type": "object", "properties": {"a": {"type": "integer"}}})"));
    ModelRequest request = request_of("gemini-3.8-flash");
    request.tools = std::make_shared<const ToolDefinitions>(ToolDefinitions{tool});
    ToolChoice choice;
    choice.mode = ToolChoice::Mode::named;
    choice.name = "f";
    request.options = StreamOptions().tool_choice(choice);
    const auto built = build(request);
    EXPECT_EQ(built.body.at("tools"), parsed(R"([{"functionDeclarations": [{"name": "f",
        "description": "d", "parametersJsonSchema":
        {"type": "object", "properties": {"a": {"type": "integer"}}}}]}])"));
    EXPECT_EQ(
        built.body.at("toolConfig"),
        parsed(R"({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}})"));
    request.tools.reset();
    EXPECT_EQ(build(request).notices.size(), 1u);
}

TEST(GeminiRequest, D14_Reasoning_IsALevelOrABudget) {
    using enum ReasoningMode;
    using enum ReasoningEffort;
    EXPECT_EQ(config_of("gemini-3.8-flash", on, medium), parsed(R"({"thinkingLevel": "medium"})"));
    EXPECT_EQ(config_of("gemini-3.8-flash", off, medium), parsed(R"({"thinkingLevel": "low"})"));
    EXPECT_EQ(config_of("gemini-3-pro-preview", on, medium),
              parsed(R"({"thinkingLevel": "high"})"));
    EXPECT_EQ(config_of("gemini-2.5-flash", on, high), parsed(R"({"thinkingBudget": 16384})"));
    EXPECT_EQ(config_of("gemini-2.5-flash", off, high), parsed(R"({"thinkingBudget": 0})"));
    EXPECT_EQ(config_of("gemini-2.5-pro", off, high), parsed(R"({"thinkingBudget": 128})"));
}

TEST(GeminiRequest, ModelIds_CannotChangeTheAddress) {
    EXPECT_EQ(gemini_path("gemini-3.8-flash"),
              "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse");
    EXPECT_EQ(gemini_path("tunedModels/a b?c#d"),
              "/v1beta/tunedModels/a%20b%3Fc%23d:streamGenerateContent?alt=sse");
    for (const char* id : {"", "models/../files", "a//b", "./x"})
        EXPECT_THROW(gemini_path(id), Error) << id;
}

TEST(GeminiRequest, Response_HasTheUnstreamedForm) {
    ContentList<AssistantContent> content;
    content.emplace_back(TextContent{"Hi", {}});
    AssistantMessage answer = answer_of(std::move(content));
    Usage usage;
    usage.input_tokens = 8;
    usage.cache_read_tokens = 4;
    usage.output_tokens = 8;
    usage.reasoning_tokens = 3;
    answer.usage = usage;
    const JsonObject body = gemini_response(answer);
    EXPECT_EQ(Json(body).at_pointer("/candidates/0/content/parts/0/text"), Json("Hi"));
    EXPECT_EQ(Json(body).at_pointer("/candidates/0/finishReason"), Json("STOP"));
    EXPECT_EQ(body.at("usageMetadata"),
              parsed(R"({"promptTokenCount": 12, "candidatesTokenCount": 5, "thoughtsTokenCount": 3,
                         "cachedContentTokenCount": 4, "totalTokenCount": 20})"));
}

}  // namespace
}  // namespace cubepi::detail
