#include <cubepi/provider/anthropic.hpp>

#include "aimock.hpp"

// Features of AnthropicProvider, against aimock; those of all providers are in aimock_surfaces_test.cpp.

namespace cubepi::wire {
namespace {

class AimockAnthropic : public AimockTest {
protected:
    static BoundModel model() {
        return AnthropicProvider(options_for<AnthropicOptions>(url, {})).model("claude-sonnet-4-5");
    }
};

TEST_F(AimockAnthropic, KeyAndVersionAreHeaders) {
    EXPECT_EQ(ask(model(), "hello").stop_reason, "stop");
    const Json seen = journal();
    EXPECT_EQ(seen.at_pointer("/0/path"), Json("/v1/messages"));
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("x-api-key"));
    EXPECT_EQ(seen.at_pointer("/0/headers/anthropic-version"), Json("2023-06-01"));
}

TEST_F(AimockAnthropic, D13_SendsThinkingBack) {
    const AssistantMessage answer = ask(model(), "think");
    ASSERT_EQ(answer.content.size(), 2u);
    MessageList messages{user_message("think"), answer, user_message("hello")};
    EXPECT_EQ(run(model().generate(std::move(messages))).stop_reason, "stop");
}

}  // namespace
}  // namespace cubepi::wire
