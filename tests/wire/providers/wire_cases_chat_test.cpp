#include <cubepi/provider/openai.hpp>

#include "wire_cases.hpp"

namespace cubepi::wire {
namespace {

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

}  // namespace
}  // namespace cubepi::wire
