#include <cubepi/provider/anthropic/messages_api.hpp>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

Json parsed(const std::string& text) { return boost::json::parse(text); }

ModelRequest request_of(std::string model, MessageList messages = {}) {
    ModelRequest request;
    request.model.id = std::move(model);
    request.model.provider_id = "anthropic";
    request.messages = messages.empty() ? MessageList{user_message("Hi")} : std::move(messages);
    return request;
}

AnthropicSettings settings_of(const Model& model) {
    static const CapabilityDescriptor nothing;
    static const std::map<std::string, CapabilityDescriptor> no_overrides;
    AnthropicSettings settings;
    settings.profile = effective_profile(ModelApi::anthropic_messages, model,
                                         ProviderCapability{nothing, no_overrides, {}});
    settings.cache_retention = CacheRetention::none;
    return settings;
}

WireProtocol::Built build(const ModelRequest& request) {
    return build_anthropic(request, settings_of(request.model));
}

ReasoningControl control(ReasoningMode mode, ReasoningEffort effort = ReasoningEffort::medium) {
    ReasoningControl made;
    made.mode = mode;
    made.effort = effort;
    return made;
}

ModelRequest reasoning_request(std::string model, ReasoningControl asked) {
    ModelRequest request = request_of(std::move(model));
    request.options = StreamOptions().reasoning(asked);
    return request;
}

std::shared_ptr<const ToolDefinitions> one_tool(const std::string& schema = "{}") {
    ToolDefinition tool;
    tool.name = "f";
    tool.parameters = std::make_shared<const Json>(parsed(schema));
    return std::make_shared<const ToolDefinitions>(ToolDefinitions{tool});
}

ToolChoice choice(ToolChoice::Mode mode) {
    ToolChoice made;
    made.mode = mode;
    made.name = mode == ToolChoice::Mode::named ? "f" : "";
    return made;
}

std::string notices(const WireProtocol::Built& built) {
    std::string text;
    for (const Notice& notice : built.notices) text += notice.text + "\n";
    return text;
}

TEST(AnthropicRequest, D14_Request_SendsOnlySetOptionsAndTheLimit) {
    const auto built = build(request_of("claude-sonnet-4-5"));
    EXPECT_EQ(Json(built.body), parsed(R"({"model": "claude-sonnet-4-5", "max_tokens": 32000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": true})"));
    EXPECT_TRUE(built.notices.empty());
}

TEST(AnthropicRequest, MaxTokens_DependsOnModelAndContextWindow) {
    EXPECT_EQ(build(request_of("claude-3-5-haiku-latest")).body.at("max_tokens"), Json(8192));
    EXPECT_EQ(build(request_of("some-model")).body.at("max_tokens"), Json(8192));
    ModelRequest set = request_of("claude-opus-4-6");
    set.model.max_tokens = 100;
    EXPECT_EQ(build(set).body.at("max_tokens"), Json(100));
    set.model.context_window = 50;
    const auto lowered = build(set);
    EXPECT_EQ(lowered.body.at("max_tokens"), Json(50));
    EXPECT_EQ(lowered.notices.size(), 1u);
    const auto thinking = build(reasoning_request("claude-opus-4-6", control(ReasoningMode::on)));
    EXPECT_EQ(thinking.body.at("max_tokens"), Json(64000));
}

TEST(AnthropicRequest, ThinkingUntilVersion45_HasABudget) {
    ModelRequest request =
        reasoning_request("claude-sonnet-4-5", control(ReasoningMode::on, ReasoningEffort::low));
    request.model.max_tokens = 4000;
    const auto built = build(request);
    EXPECT_EQ(built.body.at("thinking"), parsed(R"({"type": "enabled", "budget_tokens": 2048})"));
    EXPECT_EQ(built.body.at("max_tokens"), Json(6048));
    EXPECT_TRUE(built.notices.empty());
}

TEST(AnthropicRequest, ThinkingSinceVersion46_IsAdaptive) {
    const auto built = build(
        reasoning_request("claude-opus-4-6", control(ReasoningMode::on, ReasoningEffort::high)));
    EXPECT_EQ(built.body.at("thinking"), parsed(R"({"type": "adaptive"})"));
    EXPECT_EQ(built.body.at("output_config"), parsed(R"({"effort": "high"})"));
    const auto off = build(reasoning_request("claude-opus-4-6", control(ReasoningMode::off)));
    EXPECT_EQ(off.body.at("thinking"), parsed(R"({"type": "disabled"})"));
}

TEST(AnthropicRequest, UnknownModel_GetsTheRequestedReasoningMode) {
    const auto off = build(reasoning_request("my-model", control(ReasoningMode::off)));
    EXPECT_EQ(off.body.at("thinking"), parsed(R"({"type": "disabled"})"));
}

TEST(AnthropicRequest, D14_ExcessiveBudget_IsLoweredWithANotice) {
    ModelRequest request =
        reasoning_request("claude-sonnet-4-5", control(ReasoningMode::on, ReasoningEffort::high));
    request.model.max_tokens = 2000;
    request.model.context_window = 9000;
    const auto lowered = build(request);
    EXPECT_EQ(lowered.body.at("max_tokens"), Json(9000));
    EXPECT_EQ(lowered.body.at("thinking"), parsed(R"({"type": "enabled", "budget_tokens": 7976})"));
    EXPECT_EQ(lowered.notices.size(), 2u) << notices(lowered);
    request.model.context_window = 1500;
    const auto none = build(request);
    EXPECT_EQ(none.body.at("thinking"), parsed(R"({"type": "disabled"})"));
    EXPECT_EQ(none.notices.size(), 2u) << notices(none);
}

TEST(AnthropicRequest, D14_TemperatureAndThinking_ExcludeEachOther) {
    ModelRequest request = reasoning_request("claude-sonnet-4-5", control(ReasoningMode::on));
    request.model.temperature = 0.3;
    const auto thinking = build(request);
    EXPECT_FALSE(thinking.body.contains("temperature"));
    EXPECT_EQ(thinking.notices.size(), 1u);
    request.options = StreamOptions();
    EXPECT_EQ(build(request).body.at("temperature"), Json(0.3));
    request.model.temperature = 1.5;
    const auto clamped = build(request);
    EXPECT_EQ(clamped.body.at("temperature"), Json(1.0));
    EXPECT_EQ(clamped.notices.size(), 1u);
}

TEST(AnthropicRequest, ToolChoices_HaveTheirWireForm) {
    ModelRequest request = request_of("claude-sonnet-4-5");
    request.tools = one_tool();
    const std::vector<std::pair<ToolChoice::Mode, const char*>> wanted{
        {ToolChoice::Mode::automatic, R"({"type": "auto"})"},
        {ToolChoice::Mode::required, R"({"type": "any"})"},
        {ToolChoice::Mode::none, R"({"type": "none"})"},
        {ToolChoice::Mode::named, R"({"type": "tool", "name": "f"})"}};
    for (const auto& [mode, wire] : wanted) {
        request.options = StreamOptions().tool_choice(choice(mode));
        const auto built = build(request);
        EXPECT_EQ(built.body.at("tool_choice"), parsed(wire));
        EXPECT_TRUE(built.body.contains("tools"));
    }
    request.tools = {};
    const auto built = build(request);
    EXPECT_FALSE(built.body.contains("tool_choice"));
    EXPECT_EQ(built.notices.size(), 1u);
}

TEST(AnthropicRequest, D14_ForcedCallAndBudget_ExcludeEachOther) {
    ModelRequest request = request_of("claude-sonnet-4-5");
    request.tools = one_tool();
    request.options = StreamOptions()
                          .tool_choice(choice(ToolChoice::Mode::required))
                          .reasoning(control(ReasoningMode::on));
    const auto budget = build(request);
    EXPECT_EQ(budget.body.at("thinking"), parsed(R"({"type": "disabled"})"));
    EXPECT_EQ(budget.body.at("tool_choice"), parsed(R"({"type": "any"})"));
    EXPECT_EQ(budget.notices.size(), 1u);
    request.model.id = "claude-opus-4-6";
    const auto adaptive = build(request);
    EXPECT_EQ(adaptive.body.at("thinking"), parsed(R"({"type": "adaptive"})"));
    EXPECT_TRUE(adaptive.notices.empty()) << notices(adaptive);
    AnthropicSettings settings = settings_of(request.model);
    settings.profile.forces_tools = false;
    const auto free = build_anthropic(request, settings);
    EXPECT_EQ(free.body.at("tool_choice"), parsed(R"({"type": "auto"})"));
    EXPECT_EQ(free.notices.size(), 1u);
}

TEST(AnthropicRequest, ResponseFormat_IsLoweredWithANotice) {
    ModelRequest request = request_of("claude-sonnet-4-5");
    ResponseFormat format;
    format.name = "answer";
    format.schema = std::make_shared<const Json>(parsed(
        R"({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1,
            "description": "how many"}, "kind": {"oneOf": [{"type": "string"}, {"type": "null"}]}},
            "required": ["n"]})"));
    request.options = StreamOptions().response_format(format);
    const auto built = build(request);
    EXPECT_EQ(built.body.at("output_config"), parsed(R"({"format": {"type": "json_schema",
        "schema": {"type": "object", "additionalProperties": false, "properties": {
            "n": {"type": "integer", "description":
                  "how many\nMust hold as in JSON Schema: {\"minimum\":1}"},
            "kind": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["n"]}}})"));
    EXPECT_EQ(built.notices.size(), 1u);
}

TEST(AnthropicRequest, ResponseFormat_IsTakenByNewerModels) {
    const auto takes = [](const std::string& id) {
        return claude_takes_response_format(model_profile(ModelApi::anthropic_messages, id), id);
    };
    EXPECT_TRUE(takes("claude-sonnet-4-5-20250929"));
    EXPECT_TRUE(takes("claude-opus-4-6"));
    EXPECT_TRUE(takes("claude-opus-4-1-20250805"));
    EXPECT_FALSE(takes("claude-sonnet-4-20250514"));
    EXPECT_FALSE(takes("claude-3-7-sonnet-latest"));
    EXPECT_FALSE(takes("deepseek-chat"));
}

class EveryMessage final : public CacheMarkerPolicy {
public:
    std::vector<std::size_t> message_breakpoint_indices(const MessageList& all) const override {
        std::vector<std::size_t> indices;
        for (std::size_t i = 0; i <= all.size(); ++i) indices.push_back(i);
        return indices;
    }
};

TEST(AnthropicRequest, CacheMarkers_FollowThePolicy) {
    ModelRequest request = request_of(
        "claude-sonnet-4-5", MessageList{user_message("1"), user_message("2"), user_message("3")});
    request.system_prompt = "Be brief.";
    request.tools = one_tool();
    AnthropicSettings settings = settings_of(request.model);
    settings.cache_retention = CacheRetention::one_hour;
    const Json marker = parsed(R"({"type": "ephemeral", "ttl": "1h"})");
    const Json default_body = build_anthropic(request, settings).body;
    EXPECT_EQ(default_body.at_pointer("/system/0/cache_control"), marker);
    EXPECT_EQ(default_body.at_pointer("/tools/0/cache_control"), marker);
    EXPECT_EQ(default_body.at_pointer("/messages/2/content/0/cache_control"), marker);
    EXPECT_FALSE(
        default_body.at_pointer("/messages/1/content/0").as_object().contains("cache_control"));
    settings.cache_policy = std::make_shared<EveryMessage>();
    const auto all = build_anthropic(request, settings);
    const Json body = all.body;
    // Four are allowed: two are left for the messages.
    EXPECT_FALSE(body.at_pointer("/messages/0/content/0").as_object().contains("cache_control"));
    EXPECT_EQ(body.at_pointer("/messages/1/content/0/cache_control"), marker);
    EXPECT_EQ(all.notices.size(), 1u);
}

TEST(AnthropicRequest, CacheMarker_IsNeverOnThinking) {
    AssistantMessage answer;
    ThinkingContent thinking;
    thinking.thinking = "Hm";
    thinking.extra["signature"] = "s";
    answer.content.emplace_back(TextContent{"Well."});
    answer.content.emplace_back(thinking);
    ModelRequest request = request_of("claude-sonnet-4-5", MessageList{user_message("1"), answer});
    AnthropicSettings settings = settings_of(request.model);
    settings.cache_retention = CacheRetention::five_minutes;
    const Json body = build_anthropic(request, settings).body;
    EXPECT_TRUE(body.at_pointer("/messages/1/content/0").as_object().contains("cache_control"));
    EXPECT_FALSE(body.at_pointer("/messages/1/content/1").as_object().contains("cache_control"));
}

TEST(AnthropicRequest, ExtraBody_OverridesTheRequest) {
    ModelRequest request = request_of("claude-sonnet-4-5");
    AnthropicSettings settings = settings_of(request.model);
    settings.extra_body = parsed(R"({"max_tokens": 7, "top_k": 5})").as_object();
    const auto built = build_anthropic(request, settings);
    EXPECT_EQ(built.body.at("max_tokens"), Json(7));
    EXPECT_EQ(built.body.at("top_k"), Json(5));
}

TEST(AnthropicRequest, UnstreamedForm_IsBuiltForObservers) {
    AssistantMessage answer;
    answer.response_id = "m1";
    answer.model_id = "claude";
    answer.stop_reason = "length";
    answer.content.emplace_back(TextContent{"Hi"});
    Usage usage;
    usage.input_tokens = 3;
    usage.output_tokens = 4;
    answer.usage = usage;
    EXPECT_EQ(Json(anthropic_message(answer)), parsed(R"({"id": "m1", "type": "message",
        "role": "assistant", "model": "claude", "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "max_tokens", "stop_sequence": null, "usage": {"input_tokens": 3,
        "output_tokens": 4, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}})"));
}

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

TEST(AnthropicMessages, D13_Thinking_IsReturnedByteForByte) {
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

TEST(AnthropicMessages, D13_ClaudeAtEveryCloud_IsOneFamily) {
    EXPECT_TRUE(same_anthropic_family(answer_of("bedrock", "us.anthropic.claude-opus-4-6-v1"),
                                      Model{.id = "claude-opus-4-6", .provider_id = "anthropic"}));
    EXPECT_TRUE(same_anthropic_family(answer_of("", ""), Model{.id = "x", .provider_id = "y"}));
    EXPECT_TRUE(same_anthropic_family(answer_of("deepseek", "deepseek-chat"),
                                      Model{.id = "deepseek-r", .provider_id = "deepseek"}));
    EXPECT_FALSE(same_anthropic_family(answer_of("anthropic", "claude-opus-4-6"),
                                       Model{.id = "deepseek-chat", .provider_id = "deepseek"}));
}

TEST(AnthropicMessages, D13_ThinkingOfAnotherFamily_IsOmitted) {
    AssistantMessage answer = thinking_answer("openai", "gpt-5.1");
    answer.content.pop_back();
    answer.content.emplace_back(call_of("call_abc|fc_123"));
    const auto made = written({user_message("x"), answer, result_of("call_abc|fc_123", "3")});
    EXPECT_EQ(made.wire[1].at("content"), parsed(R"([{"type": "text", "text": "Ok"},
        {"type": "tool_use", "id": "call_abc_fc_123", "name": "f", "input": {}}])"));
    EXPECT_EQ(made.wire[2].at_pointer("/content/0/tool_use_id"), Json("call_abc_fc_123"));
}

TEST(AnthropicMessages, CutThinking_IsSentAsText) {
    for (const char* reason : {"aborted", "error", "length"}) {
        AssistantMessage answer = answer_of("anthropic", "claude-opus-4-5");
        answer.content.emplace_back(ThinkingContent{"Half a thou", {}});
        answer.stop_reason = reason;
        EXPECT_EQ(written({user_message("x"), answer, user_message("y")}).wire[1].at("content"),
                  parsed(R"([{"type": "text", "text": "Half a thou"}])"));
    }
}

TEST(AnthropicMessages, UnsignedThinkingOfOtherApis_BecomesText) {
    AssistantMessage answer = answer_of("gateway", "claude-opus-4-5");
    answer.content.emplace_back(ThinkingContent{"Hm", {}});
    answer.content.emplace_back(TextContent{"Ok"});
    EXPECT_EQ(
        written({user_message("x"), answer, user_message("y")}).wire[1].at_pointer("/content/0"),
        parsed(R"({"type": "text", "text": "Hm"})"));
}

TEST(AnthropicMessages, D88_MembersOfBlocks_ReturnToTheirFamily) {
    AssistantMessage answer = answer_of("kimi", "k2");
    ThinkingContent thinking{"Hm", {}};
    thinking.extra["anthropic_members"] = parsed(R"({"a": 1, "type": "x"})");
    answer.content.emplace_back(thinking);
    TextContent text{"Ok"};
    text.extra["anthropic_members"] = parsed(R"({"b": 2})");
    answer.content.emplace_back(text);
    EXPECT_EQ(
        written({user_message("x"), answer, user_message("y")}, "k2", "kimi").wire[1].at("content"),
        parsed(R"([{"a": 1, "type": "thinking", "thinking": "Hm"},
                         {"b": 2, "type": "text", "text": "Ok"}])"));
    EXPECT_EQ(
        written({user_message("x"), answer, user_message("y")}, "m", "other").wire[1].at("content"),
        parsed(R"([{"type": "text", "text": "Ok"}])"));
}

TEST(AnthropicMessages, D1_CallWithoutResult_GetsOne) {
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

TEST(AnthropicMessages, D1_ResultWithoutCall_IsOmitted) {
    const auto made = written({user_message("x"), result_of("gone", "r"), user_message("y")});
    EXPECT_EQ(made.wire.size(), 2u);
    EXPECT_EQ(made.notices.at(0).code, "repair");
    EXPECT_FALSE(made.places[1]);
}

TEST(AnthropicMessages, D1_RepeatedIds_BecomeUnique) {
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

TEST(AnthropicMessages, D14_EmptyContent_IsNotSent) {
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

TEST(AnthropicMessages, ImagesInPromptsAndResults_AreSent) {
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

TEST(AnthropicMessages, D14_ImageOfAnswer_IsOmittedWithANotice) {
    AssistantMessage answer = answer_of("painter", "p");
    answer.content.emplace_back(TextContent{"Here."});
    answer.content.emplace_back(ImageContent{"aGk=", "image/png", {}});
    const auto made = written({user_message("x"), answer, user_message("y")});
    EXPECT_EQ(made.wire[1].at("content").as_array().size(), 1u);
    EXPECT_EQ(made.notices.at(0).code, "request_changed");
}

TEST(AnthropicMessages, D13_ServerTools_AreReturnedInTheirPlace) {
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

TEST(AnthropicMessages, D4_UnparsedCall_IsReturnedAsValidJson) {
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
