#include <cubepi/provider/openai.hpp>

#include "aimock.hpp"

// Features of OpenAIProvider, against aimock; those of all providers are in aimock_surfaces_test.cpp.

namespace cubepi::wire {
namespace {

class AimockChat : public AimockTest {
protected:
    static BoundModel model() {
        return OpenAIProvider(options_for<OpenAIOptions>(url + "/v1", {})).model("gpt-4.1");
    }
};

TEST_F(AimockChat, D14_SendsOnlyConfiguredParameters) {
    EXPECT_EQ(ask(model(), "hello").stop_reason, "stop");
    const Json seen = journal();
    const Json& body = seen.at_pointer("/0/body");
    EXPECT_EQ(body.at_pointer("/messages/0"),
              boost::json::parse(R"({"role":"system","content":"Be brief."})"));
    EXPECT_EQ(body.at_pointer("/stream_options/include_usage"), Json(true));
    EXPECT_FALSE(body.as_object().contains("temperature"));
    EXPECT_FALSE(body.as_object().contains("max_tokens"));
    // The journal of a mock may mask it, but it must have been present.
    EXPECT_TRUE(seen.at_pointer("/0/headers").as_object().contains("authorization"));
}

TEST_F(AimockChat, ResultsFollowTheirCall) {
    MessageList messages{user_message("weather in Paris?")};
    messages.push_back(run(model().generate(messages, {}, weather_tool())));
    const std::vector<const ToolCall*> calls = messages.back().assistant()->tool_calls();
    ASSERT_EQ(calls.size(), 1u);
    messages.push_back(weather_result(*calls[0]));
    EXPECT_EQ(run(model().generate(messages, {}, weather_tool())).stop_reason, "stop");
    const Json second = journal().at_pointer("/1/body");
    EXPECT_EQ(second.at_pointer("/messages/1/tool_calls/0/id"), Json("call_w"));
    EXPECT_EQ(second.at_pointer("/messages/2"),
              boost::json::parse(R"({"role":"tool","tool_call_id":"call_w","content":"21.5"})"));
    EXPECT_EQ(second.at_pointer("/tools/0/function/name"), Json("weather"));
}

}  // namespace
}  // namespace cubepi::wire
