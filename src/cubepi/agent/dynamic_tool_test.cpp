#include <cubepi/agent/tool.hpp>

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent_test_support.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

Json query_schema() {
    return parse_json(R"({"type":"object","properties":{"q":{"type":"string"},
        "limit":{"type":"integer","default":3}},"required":["q"]})");
}

std::string query(const JsonObject& arguments) {
    return std::string(arguments.at("q").as_string());
}

TEST(DynamicTool, ReturnsATextAStructJsonOrContent) {
    const auto text = [](JsonObject arguments) {
        return query(arguments) + std::to_string(arguments.at("limit").as_int64());
    };
    EXPECT_EQ(text_of(result_of(tool("t", "", query_schema(), text), {{"q", "a"}})), "a3");
    const auto json = [](JsonObject arguments) { return Json(std::move(arguments)); };
    EXPECT_EQ(text_of(result_of(tool("t", "", query_schema(), json), {{"q", "a"}})),
              R"({"q":"a","limit":3})");
    const auto content = [](JsonObject) {
        ContentList<Content> blocks;
        blocks.emplace_back(TextContent{"see"});
        blocks.emplace_back(image_url("https://example.com/a.png"));
        return blocks;
    };
    EXPECT_EQ(result_of(tool("t", "", query_schema(), content), {{"q", "a"}}).content.size(), 2u);
}

TEST(DynamicTool, MayBeACoroutineAndTakesTheContext) {
    const auto coroutine = [](JsonObject arguments, ToolContext& context) -> Task<std::string> {
        co_await context.update("half");
        co_return query(arguments);
    };
    EXPECT_EQ(text_of(result_of(tool("t", "", query_schema(), coroutine), {{"q", "b"}})), "b");
    const auto failing = [](JsonObject) -> Task<Json> { throw Error(ErrorCode::io, "no disk"); };
    EXPECT_TRUE(result_of(tool("t", "", query_schema(), failing), {{"q", "b"}}).is_error);
}

TEST(DynamicTool, ArgumentsAreValidated) {
    const ToolResultMessage result =
        result_of(tool("t", "", query_schema(), [](JsonObject) { return "ran"; }), {{"p", "a"}});
    EXPECT_TRUE(result.is_error);
    EXPECT_NE(text_of(result).find("q"), std::string::npos);
}

TEST(DynamicTool, MayBlock) {
    const std::thread::id here = std::this_thread::get_id();
    const auto block = [here](JsonObject arguments, ToolContext&) {
        return query(arguments) + (std::this_thread::get_id() == here ? " here" : " elsewhere");
    };
    EXPECT_EQ(text_of(result_of(blocking_tool("t", "", query_schema(), block), {{"q", "c"}})),
              "c elsewhere");
}

TEST(ToolConstraints, AreInTheSchemaAndValidated) {
    AgentTool limited = tool<EchoArgs>("t", "", [](EchoArgs args) { return args.value; })
                            .describe("value", "A code")
                            .constrain("value", Constraints().pattern("^[A-Z]+$").max_length(3));
    const Json& value = limited.parameters.source().at("properties").at("value");
    EXPECT_EQ(value.at("maxLength"), Json(3));
    EXPECT_EQ(text_of(result_of(limited, {{"value", "ABC"}})), "ABC");
    const ToolResultMessage refused = result_of(limited, {{"value", "ABCD"}});
    EXPECT_TRUE(refused.is_error);
    EXPECT_NE(text_of(refused).find("at most 3 characters"), std::string::npos);
    EXPECT_THROW((void)limited.constrain("missing", Constraints().minimum(1)), Error);
    EXPECT_THROW((void)limited.constrain("value", Constraints().minimum(1)), Error);
}

TEST(BlockingToolProgress, ReachesTheListenersInOrderBeforeTheResult) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "done"});
    Agent agent({.model = faux.model(),
                 .tools = {blocking_tool<EchoArgs>("echo", "", [](EchoArgs, ToolContext& context) {
                     for (int i = 0; i < 20; ++i) context.report(i);
                     return "ran";
                 })}});
    std::vector<std::int64_t> seen;
    bool ended = false;
    agent.subscribe([&](const AgentEvent& event) {
        if (const auto* update = event.get_if<ToolExecutionUpdateEvent>()) {
            EXPECT_FALSE(ended);
            seen.push_back(update->partial_result.as_int64());
        }
        if (event.type() == AgentEventType::tool_execution_end) ended = true;
    });
    EXPECT_TRUE(run(agent.prompt("Go")));
    ASSERT_EQ(seen.size(), 20u);
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<std::int64_t>(i));
}

TEST(BlockingToolProgress, MoreThanListenersTakeIsDropped) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "done"});
    Agent agent({.model = faux.model(),
                 .tools = {blocking_tool<EchoArgs>("echo", "", [](EchoArgs, ToolContext& context) {
                     for (int i = 0; i < 100'000; ++i) context.report(i);
                     return "ran";
                 })}});
    EXPECT_TRUE(run(agent.prompt("Go")));
}

TEST(BlockingToolProgress, IsRefusedInOtherTools) {
    const ToolResultMessage result = result_of(tool<EchoArgs>("t", "",
                                                              [](EchoArgs, ToolContext& context) {
                                                                  context.report("x");
                                                                  return "ran";
                                                              }),
                                               {{"value", "x"}});
    EXPECT_TRUE(result.is_error);
    EXPECT_NE(text_of(result).find("update()"), std::string::npos);
}

TEST(BlockingToolProgress, AfterAnAbortIsIgnored) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "done"});
    auto ended = std::make_shared<std::atomic<bool>>(false);
    {
        Agent agent(
            {.model = faux.model(),
             .tools = {blocking_tool<EchoArgs>("echo", "",
                                               [ended](EchoArgs, ToolContext& context) {
                                                   context.report("begun");
                                                   while (!context.stop_token().stop_requested())
                                                       std::this_thread::yield();
                                                   for (int i = 0; i < 1000; ++i) context.report(i);
                                                   *ended = true;
                                                   return "ran";
                                               })},
             .limits = {.abort_grace = std::chrono::milliseconds(0)}});
        agent.subscribe([&](const AgentEvent& event) {
            if (event.type() == AgentEventType::tool_execution_update) agent.abort();
        });
        EXPECT_EQ(run(agent.prompt("Go")).outcome, RunOutcome::aborted);
    }
    while (!*ended) std::this_thread::yield();
}

}  // namespace
}  // namespace cubepi
