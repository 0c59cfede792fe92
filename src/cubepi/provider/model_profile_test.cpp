#include <cubepi/provider/model_profile.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/models/model_tables.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

namespace cubepi {
namespace {

ReasoningControl control(ReasoningMode mode, ReasoningEffort effort = ReasoningEffort::medium) {
    ReasoningControl made;
    made.mode = mode;
    made.effort = effort;
    return made;
}

struct Asked {
    ModelApi api;
    std::string_view model;
    ReasoningMode mode;
    ReasoningEffort effort;
    std::string_view sent;
    bool noticed;
};

PayloadPreview preview(const Asked& asked, std::string_view url = {}) {
    const ModelProfile profile = model_profile(asked.api, asked.model, url);
    return preview_payload(profile.capability, control(asked.mode, asked.effort));
}

class Reasoning : public ::testing::TestWithParam<Asked> {};

TEST_P(Reasoning, D14_Reasoning_UsesModelFormAndReportsUnsupportedSettings) {
    const Asked& asked = GetParam();
    const PayloadPreview got = preview(asked);
    EXPECT_EQ(boost::json::serialize(got.payload), asked.sent) << asked.model;
    EXPECT_EQ(!got.notices.empty(), asked.noticed) << asked.model;
}

constexpr ModelApi chat = ModelApi::openai_chat;
constexpr ModelApi responses = ModelApi::openai_responses;
constexpr ModelApi claude = ModelApi::anthropic_messages;
using enum ReasoningMode;
constexpr ReasoningEffort minimal = ReasoningEffort::minimal;
constexpr ReasoningEffort low = ReasoningEffort::low;
constexpr ReasoningEffort medium = ReasoningEffort::medium;
constexpr ReasoningEffort high = ReasoningEffort::high;
constexpr ReasoningEffort most = ReasoningEffort::max;

INSTANTIATE_TEST_SUITE_P(
    OpenAI, Reasoning,
    ::testing::Values(
        Asked{chat, "gpt-5", off, medium, R"({"reasoning_effort":"minimal"})", true},
        Asked{chat, "gpt-5", on, minimal, R"({"reasoning_effort":"minimal"})", false},
        Asked{chat, "gpt-5", on, most, R"({"reasoning_effort":"high"})", false},
        Asked{chat, "gpt-5.1", off, medium, R"({"reasoning_effort":"none"})", false},
        Asked{chat, "gpt-5.1", on, minimal, R"({"reasoning_effort":"none"})", true},
        Asked{chat, "gpt-5.2-2025-12-11", on, most, R"({"reasoning_effort":"xhigh"})", false},
        Asked{chat, "openai/gpt-5.6-sol", on, most, R"({"reasoning_effort":"max"})", false},
        Asked{chat, "gpt-5-pro", on, low, R"({"reasoning_effort":"high"})", true},
        Asked{chat, "o4-mini", off, medium, R"({"reasoning_effort":"low"})", true},
        Asked{chat, "gpt-oss:20b", off, medium, R"({"reasoning_effort":"low"})", true},
        Asked{chat, "gpt-4.1", on, medium, R"({})", true},
        Asked{chat, "some-model", on, high, R"({"reasoning_effort":"high"})", false},
        Asked{responses, "gpt-6-astra", off, medium, R"({"reasoning":{"effort":"low"}})", true},
        Asked{responses, "gpt-6.1-terra", off, medium, R"({"reasoning":{"effort":"none"}})", false},
        Asked{responses, "gpt-6.2-venus", on, high, R"({"reasoning":{"effort":"high"}})", false}));

INSTANTIATE_TEST_SUITE_P(
    Claude, Reasoning,
    ::testing::Values(
        Asked{claude, "claude-sonnet-4-5", on, high,
              R"({"thinking":{"type":"enabled","budget_tokens":16384}})", false},
        Asked{claude, "claude-sonnet-4-5-20250929", off, high,
              R"({"thinking":{"type":"disabled"}})", false},
        Asked{claude, "claude-opus-4-6", on, most,
              R"({"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}})", false},
        Asked{claude, "claude-opus-5", on, minimal,
              R"({"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}})", true},
        Asked{claude, "claude-opus-5", off, medium, R"({"thinking":{"type":"disabled"}})", false},
        Asked{claude, "claude-opus-5-5", off, medium, R"({"output_config":{"effort":"low"}})",
              true},
        Asked{claude, "claude-sonnet-5-5", off, medium, R"({"thinking":{"type":"between_tools"}})",
              true},
        Asked{claude, "us.anthropic.claude-opus-4-7", off, medium,
              R"({"thinking":{"type":"disabled"}})", false},
        Asked{claude, "claude-3-5-haiku-latest", on, medium, R"({})", true}));

TEST(ModelProfile, CompatibleServers_HaveTheirOwnReasoningFields) {
    const auto at = [](std::string_view url, std::string_view model, ReasoningMode mode) {
        const PayloadPreview got = preview({chat, model, mode, high, {}, false}, url);
        return boost::json::serialize(got.payload);
    };
    EXPECT_EQ(at("https://openrouter.ai/api/v1", "anthropic/claude-opus-5", on),
              R"({"reasoning":{"effort":"high"}})");
    EXPECT_EQ(at("https://api.deepseek.com", "deepseek-v4-pro", on),
              R"({"thinking":{"type":"enabled"},"reasoning_effort":"high"})");
    EXPECT_EQ(at("https://api.deepseek.com", "deepseek-v4-pro", off),
              R"({"thinking":{"type":"disabled"}})");
    EXPECT_EQ(at("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen3-max", off),
              R"({"enable_thinking":false})");
    EXPECT_EQ(at("https://notdeepseek.com", "x", on), R"({"reasoning_effort":"high"})");
    EXPECT_EQ(at("https://evil-api.deepseek.com.example/", "x", on),
              R"({"reasoning_effort":"high"})");
    EXPECT_EQ(model_profile(chat, "deepseek-v4-pro", "https://api.deepseek.com/v1")
                  .capability.thinking_field,
              "reasoning_content");
}

TEST(ModelProfile, FamilyName_EndsAtItsMarks) {
    EXPECT_EQ(model_profile(chat, "gpt-5-mini").family, "gpt-5");
    EXPECT_EQ(model_profile(chat, "gpt-5.1-codex-max").family, "gpt-5.1-codex-max");
    EXPECT_EQ(model_profile(chat, "gpt-5.9").family, "gpt-5.");
    EXPECT_EQ(model_profile(chat, "gpt-50").family, "");
    EXPECT_EQ(model_profile(chat, "o3x").family, "");
    EXPECT_EQ(model_profile(claude, "anthropic/claude-opus-4.6").family, "claude-opus-4-6");
    EXPECT_FALSE(model_profile(chat, "qwen3:8b").known());
}

TEST(ModelProfile, EachModelOfTheTable_AcceptsEverySetting) {
    for (const detail::ProfileRow& row : detail::profile_rows()) {
        for (const ModelApi api : {chat, responses, claude}) {
            const ModelProfile profile = model_profile(api, row.id);
            ASSERT_TRUE(profile.capability.reasoning);
            EXPECT_TRUE(lint_capability(profile.capability, api).empty() ||
                        row.style == detail::ReasoningStyle::thinking_switch)
                << row.id;
            for (const ReasoningMode mode : {off, automatic, on}) {
                for (const ReasoningEffort effort : {minimal, low, medium, high, most}) {
                    const PayloadPreview got =
                        preview_payload(profile.capability, control(mode, effort));
                    EXPECT_TRUE(!got.payload.empty() || !got.notices.empty() ||
                                row.style == detail::ReasoningStyle::always)
                        << row.id << " says nothing to mode " << to_string(mode);
                }
            }
        }
    }
}

TEST(ModelProfile, CallerSettings_TakePrecedenceOverTheTable) {
    CapabilityDescriptor provider;
    provider.max_tokens_field = "provider_limit";
    std::map<std::string, CapabilityDescriptor> by_id;
    by_id["gpt-5.1"].max_tokens_field = "id_limit";
    const ProviderCapability told{provider, by_id, {}};

    Model model;
    model.id = "gpt-5.1";
    EXPECT_EQ(effective_profile(chat, model, told).capability.max_tokens_field, "id_limit");
    model.id = "gpt-5.2";
    EXPECT_EQ(effective_profile(chat, model, told).capability.max_tokens_field, "provider_limit");
    CapabilityDescriptor own;
    own.temperature.mode = TemperatureSpec::Mode::fixed;
    own.temperature.fixed_value = 1.0;
    model.capability = std::make_shared<const CapabilityDescriptor>(own);
    const ModelProfile holds = effective_profile(chat, model, told);
    EXPECT_EQ(holds.capability.max_tokens_field, "max_completion_tokens");
    EXPECT_EQ(holds.capability.temperature.mode, TemperatureSpec::Mode::fixed);
    EXPECT_TRUE(holds.reasons);
}

TEST(ModelProfile, ModelDeclaredAsReasoning_IsTrusted) {
    const CapabilityDescriptor none;
    const std::map<std::string, CapabilityDescriptor> no_overrides;
    Model model;
    model.id = "gpt-4.1";
    model.reasoning = true;
    const ModelProfile holds = effective_profile(chat, model, {none, no_overrides, {}});
    EXPECT_TRUE(holds.reasons);
    EXPECT_EQ(boost::json::serialize(preview_payload(holds.capability, control(on)).payload),
              R"({"reasoning_effort":"medium"})");
}

TEST(ModelProfile, Summaries_AreRequestedWhereTheyExist) {
    ReasoningControl asked = control(on, high);
    asked.summary = ReasoningSummary::automatic;
    const auto sent = [&](ModelApi api, std::string_view model) {
        return preview_payload(model_profile(api, model).capability, asked);
    };
    EXPECT_EQ(boost::json::serialize(sent(responses, "gpt-5.1").payload),
              R"({"reasoning":{"effort":"high","summary":"auto"},)"
              R"("include":["reasoning.encrypted_content"]})");
    EXPECT_EQ(boost::json::serialize(sent(claude, "claude-opus-5").payload),
              R"({"thinking":{"type":"adaptive","display":"summarized"},)"
              R"("output_config":{"effort":"high"}})");
    const PayloadPreview chat_asked = sent(chat, "gpt-5.1");
    EXPECT_EQ(boost::json::serialize(chat_asked.payload), R"({"reasoning_effort":"high"})");
    EXPECT_EQ(chat_asked.notices.size(), 1U);
}

TEST(PreviewPayload, Preview_ReturnsOnlyChangedFields) {
    JsonObject base;
    base["model"] = "gpt-5.1";
    base["reasoning_effort"] = "high";
    const CapabilityDescriptor capability = model_profile(chat, "gpt-5.1").capability;
    EXPECT_TRUE(preview_payload(capability, control(on, high), base).payload.empty());
    EXPECT_EQ(boost::json::serialize(preview_payload(capability, control(on, low), base).payload),
              R"({"reasoning_effort":"low"})");
    EXPECT_EQ(base["reasoning_effort"], Json("high"));
}

TEST(PreviewPayload, ErrorPolicy_ThrowsForUnsupportedModes) {
    CapabilityDescriptor capability;
    capability.reasoning.emplace().unsupported_mode_policy = UnsupportedModePolicy::error;
    EXPECT_THROW(preview_payload(capability, control(on)), Error);
}

TEST(PreviewRequest, Preview_ShowsTheWholeBodyWithoutSendingIt) {
    const OpenAIProvider provider({.extra_body = {{"service_tier", "flex"}}});
    Model model;
    model.id = "gpt-5.1";
    model.temperature = 0.3;
    const PayloadPreview got =
        preview_request(provider.model(model), {user_message("Hi")}, "Be brief.", {},
                        StreamOptions().reasoning(control(on, low)));
    EXPECT_EQ(boost::json::serialize(got.payload),
              R"({"model":"gpt-5.1","messages":[{"role":"system","content":"Be brief."},)"
              R"({"role":"user","content":"Hi"}],"stream":true,)"
              R"("stream_options":{"include_usage":true},"reasoning_effort":"low",)"
              R"("service_tier":"flex"})");
    ASSERT_EQ(got.notices.size(), 1U);
    EXPECT_EQ(got.notices[0].details.at("field"), Json("temperature"));
}

TEST(PreviewRequest, EachProtocol_HasAPreview) {
    Model model;
    model.id = "claude-opus-5-5";
    model.max_tokens = 100;
    const AnthropicProvider anthropic({.api_key = "k"});
    const PayloadPreview asked = preview_request(anthropic.model(model), {user_message("Hi")}, {},
                                                 {}, StreamOptions().reasoning(control(off)));
    EXPECT_EQ(asked.payload.at("output_config"), boost::json::parse(R"({"effort":"low"})"));
    EXPECT_EQ(asked.notices.size(), 1U);
    const OpenAIResponsesProvider responses({.api_key = "k"});
    EXPECT_TRUE(preview_request(responses.model("gpt-5.1"), {user_message("Hi")})
                    .payload.contains("input"));
}

TEST(PreviewRequest, ProviderWithoutPreview_IsAnError) {
    const FauxProvider faux;
    EXPECT_THROW(preview_request(faux.model("m"), {user_message("Hi")}), Error);
    EXPECT_THROW(preview_request(BoundModel(), {user_message("Hi")}), Error);
}

TEST(LintCapability, ImpossibleSettings_AreFound) {
    CapabilityDescriptor capability;
    ReasoningCapability& reasoning = capability.reasoning.emplace();
    write_at_path(reasoning.mode_payloads[on], "thinking.type", "enabled");
    reasoning.effort_values[high] = "high";
    reasoning.summary_values[ReasoningSummary::automatic] = "auto";
    reasoning.include_payloads["effort:huge"] = JsonObject();
    reasoning.include_payloads["mode:auto"] = JsonObject();
    capability.temperature.mode = TemperatureSpec::Mode::fixed;
    std::vector<std::string> codes;
    for (const Notice& notice : lint_capability(capability, chat)) codes.push_back(notice.code);
    EXPECT_EQ(codes, (std::vector<std::string>{"openai_chat_top_level_thinking",
                                               "effort_without_path", "summary_without_path",
                                               "unknown_include", "temperature_limits"}));
    EXPECT_EQ(lint_capability(capability, claude).size(), 4U);
}

TEST(Temperature, D14_ReasoningModel_OmitsItWithANotice) {
    const TemperatureSpec spec = model_profile(chat, "gpt-5.1").capability.temperature;
    JsonObject reasoning;
    EXPECT_EQ(apply_temperature(reasoning, spec, 0.5, true).size(), 1U);
    EXPECT_TRUE(reasoning.empty());
    JsonObject quiet;
    EXPECT_TRUE(apply_temperature(quiet, spec, 0.5, false).empty());
    EXPECT_EQ(quiet["temperature"], Json(0.5));
    JsonObject hot;
    const TemperatureSpec claudes =
        model_profile(claude, "claude-haiku-4-5").capability.temperature;
    EXPECT_EQ(apply_temperature(hot, claudes, 1.7).size(), 1U);
    EXPECT_EQ(hot["temperature"], Json(1.0));
}

TEST(AsksToReason, EachSpelling_IsRead) {
    const auto asks = [](std::string_view text) {
        return asks_to_reason(boost::json::parse(text).as_object());
    };
    EXPECT_TRUE(asks(R"({"reasoning_effort":"low"})"));
    EXPECT_FALSE(asks(R"({"reasoning_effort":"none"})"));
    EXPECT_TRUE(asks(R"({"reasoning":{"effort":"high"}})"));
    EXPECT_FALSE(asks(R"({"reasoning":{"enabled":false}})"));
    EXPECT_TRUE(asks(R"({"thinking":{"type":"adaptive"}})"));
    EXPECT_FALSE(asks(R"({"thinking":{"type":"disabled"}})"));
    EXPECT_FALSE(asks(R"({"enable_thinking":false})"));
    EXPECT_FALSE(asks("{}"));
    EXPECT_TRUE(asks_to_reason(JsonObject(), true));
}

}  // namespace
}  // namespace cubepi
