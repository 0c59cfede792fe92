#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

#include "wire_cases.hpp"

namespace cubepi::wire {
namespace {

/// The answers of a policy to its three questions in a case.
class FixedPolicy final : public CacheMarkerPolicy {
public:
    explicit FixedPolicy(const Json& form) : form_(form) {}
    bool mark_system() const override { return form_.at("system").as_bool(); }
    bool mark_last_tool() const override { return form_.at("last_tool").as_bool(); }
    std::vector<std::size_t> message_breakpoint_indices(const MessageList&) const override {
        std::vector<std::size_t> indices;
        for (const Json& index : form_.at("messages").as_array())
            indices.push_back(index.to_number<std::size_t>());
        return indices;
    }

private:
    Json form_;
};

std::shared_ptr<Provider> make_anthropic(const Json& constructor) {
    AnthropicOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://endpoint";
    const std::string retention = text_of(constructor, "cache_retention");
    if (retention == "long") made.cache_retention = CacheRetention::one_hour;
    if (retention == "none") made.cache_retention = CacheRetention::none;
    if (const Json* policy = member(constructor, "cache_policy"))
        made.cache_policy = std::make_shared<const FixedPolicy>(*policy);
    return std::make_shared<AnthropicProvider>(std::move(made));
}

class AnthropicWireCases : public ::testing::TestWithParam<std::string> {};

TEST_P(AnthropicWireCases, RequestMessageAndEvents) {
    expect_case_holds(GetParam(), make_anthropic);
}

INSTANTIATE_TEST_SUITE_P(Anthropic, AnthropicWireCases, ::testing::ValuesIn(cases_of("anthropic-")),
                         case_test_name);

std::shared_ptr<Provider> make_chat(const Json& constructor) {
    OpenAIOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://endpoint/v1";
    // The cases contain the original's words for effort, regardless of what a model accepts.
    made.capability.reasoning = openai_chat_reasoning();
    if (const Json* body = member(constructor, "extra_body")) made.extra_body = body->as_object();
    if (const Json* headers = member(constructor, "extra_headers")) {
        for (const auto& [name, value] : headers->as_object())
            made.extra_headers.emplace_back(name, value.as_string());
    }
    if (const Json* capability = member(constructor, "capability")) {
        const std::string field = text_of(*capability, "max_tokens_field");
        if (!field.empty()) made.capability.max_tokens_field = field;
    }
    return std::make_shared<OpenAIProvider>(std::move(made));
}

class ChatWireCases : public ::testing::TestWithParam<std::string> {};

TEST_P(ChatWireCases, RequestMessageAndEvents) { expect_case_holds(GetParam(), make_chat); }

INSTANTIATE_TEST_SUITE_P(OpenAIChat, ChatWireCases, ::testing::ValuesIn(cases_of("openai-chat-")),
                         case_test_name);

std::shared_ptr<Provider> make_responses(const Json& constructor) {
    OpenAIResponsesOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://endpoint/v1";
    // The cases contain the original's words for effort, regardless of what a model accepts.
    made.capability.reasoning = openai_responses_reasoning();
    if (const Json* headers = member(constructor, "extra_headers")) {
        for (const auto& [name, value] : headers->as_object())
            made.extra_headers.emplace_back(name, value.as_string());
    }
    return std::make_shared<OpenAIResponsesProvider>(std::move(made));
}

class ResponsesWireCases : public ::testing::TestWithParam<std::string> {};

TEST_P(ResponsesWireCases, RequestMessageAndEvents) {
    expect_case_holds(GetParam(), make_responses);
}

INSTANTIATE_TEST_SUITE_P(OpenAIResponses, ResponsesWireCases,
                         ::testing::ValuesIn(cases_of("openai-responses-")), case_test_name);

}  // namespace
}  // namespace cubepi::wire
