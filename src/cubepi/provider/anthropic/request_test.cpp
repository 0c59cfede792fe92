#include <cubepi/provider/anthropic/request.hpp>

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

TEST(AnthropicRequest, D14_SendsOnlyWhatTheCallerSetAndTheLimit) {
    const auto built = build(request_of("claude-sonnet-4-5"));
    EXPECT_EQ(Json(built.body), parsed(R"({"model": "claude-sonnet-4-5", "max_tokens": 32000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": true})"));
    EXPECT_TRUE(built.notices.empty());
}

TEST(AnthropicRequest, TheLimitThatTheApiWants) {
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

TEST(AnthropicRequest, ThinkingWithABudgetUntilVersion45) {
    ModelRequest request =
        reasoning_request("claude-sonnet-4-5", control(ReasoningMode::on, ReasoningEffort::low));
    request.model.max_tokens = 4000;
    const auto built = build(request);
    EXPECT_EQ(built.body.at("thinking"), parsed(R"({"type": "enabled", "budget_tokens": 2048})"));
    EXPECT_EQ(built.body.at("max_tokens"), Json(6048));
    EXPECT_TRUE(built.notices.empty());
}

TEST(AnthropicRequest, AdaptiveThinkingSinceVersion46) {
    const auto built = build(
        reasoning_request("claude-opus-4-6", control(ReasoningMode::on, ReasoningEffort::high)));
    EXPECT_EQ(built.body.at("thinking"), parsed(R"({"type": "adaptive"})"));
    EXPECT_EQ(built.body.at("output_config"), parsed(R"({"effort": "high"})"));
    const auto off = build(reasoning_request("claude-opus-4-6", control(ReasoningMode::off)));
    EXPECT_EQ(off.body.at("thinking"), parsed(R"({"type": "disabled"})"));
}

TEST(AnthropicRequest, AnUnknownModelIsBelieved) {
    const auto off = build(reasoning_request("my-model", control(ReasoningMode::off)));
    EXPECT_EQ(off.body.at("thinking"), parsed(R"({"type": "disabled"})"));
}

TEST(AnthropicRequest, D14_ABudgetThatDoesNotFitIsLoweredWithANotice) {
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

TEST(AnthropicRequest, D14_TheTemperatureAndThinkingExcludeEachOther) {
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

TEST(AnthropicRequest, ToolChoices) {
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

TEST(AnthropicRequest, D14_AForcedCallAndABudgetExcludeEachOther) {
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

TEST(AnthropicRequest, ResponseFormatIsLoweredWithANotice) {
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

TEST(AnthropicRequest, WhichModelsTakeAResponseFormat) {
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

TEST(AnthropicRequest, CacheMarkersFollowThePolicy) {
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

TEST(AnthropicRequest, AMarkerNeverStandsOnThinking) {
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

TEST(AnthropicRequest, ExtraBodyLiesOverWhatIsThere) {
    ModelRequest request = request_of("claude-sonnet-4-5");
    AnthropicSettings settings = settings_of(request.model);
    settings.extra_body = parsed(R"({"max_tokens": 7, "top_k": 5})").as_object();
    const auto built = build_anthropic(request, settings);
    EXPECT_EQ(built.body.at("max_tokens"), Json(7));
    EXPECT_EQ(built.body.at("top_k"), Json(5));
}

TEST(AnthropicRequest, TheUnstreamedFormForObservers) {
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

}  // namespace
}  // namespace cubepi::detail
