#include <cubepi/provider/openai_responses.hpp>

#include "wire_cases.hpp"

namespace cubepi::wire {
namespace {

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
