// A tool: its arguments, and the text that it returns.

#include <cubepi/agent/agent_test_support.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/named_arguments.hpp>
#include <cubepi/agent/run/tool_batch.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/schema/json_text.hpp>
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

TEST(DynamicTool, Callable_ReturnsTextStructJsonOrContent) {
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

TEST(DynamicTool, Coroutine_TakesTheContext) {
    const auto coroutine = [](JsonObject arguments, ToolContext& context) -> Task<std::string> {
        co_await context.update("half");
        co_return query(arguments);
    };
    EXPECT_EQ(text_of(result_of(tool("t", "", query_schema(), coroutine), {{"q", "b"}})), "b");
    const auto failing = [](JsonObject) -> Task<Json> { throw Error(ErrorCode::io, "no disk"); };
    EXPECT_TRUE(result_of(tool("t", "", query_schema(), failing), {{"q", "b"}}).is_error);
}

TEST(DynamicTool, Arguments_AreValidated) {
    const ToolResultMessage result =
        result_of(tool("t", "", query_schema(), [](JsonObject) { return "ran"; }), {{"p", "a"}});
    EXPECT_TRUE(result.is_error);
    EXPECT_NE(text_of(result).find("q"), std::string::npos);
}

TEST(DynamicTool, BlockingCallable_RunsOnAnotherThread) {
    const std::thread::id here = std::this_thread::get_id();
    const auto block = [here](JsonObject arguments, ToolContext&) {
        return query(arguments) + (std::this_thread::get_id() == here ? " here" : " elsewhere");
    };
    EXPECT_EQ(text_of(result_of(blocking_tool("t", "", query_schema(), block), {{"q", "c"}})),
              "c elsewhere");
}

TEST(ToolConstraints, Constraints_AreInTheSchemaAndValidated) {
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

struct City {
    std::string city;
    static void describe_fields(FieldNotes& fields) { fields.describe("city", "In English."); }
};

TEST(ArgumentSchema, ToolsWithOneStruct_ShareTheSchema) {
    const auto make = [] { return tool<City>("t", "", [](City place) { return place.city; }); };
    const AgentTool first = make();
    EXPECT_EQ(first.parameters.shared_source(), make().parameters.shared_source());
    EXPECT_NE(json_text(first.parameters.source()).find("In English."), std::string::npos);
}

TEST(ArgumentSchema, DescriptionOfOneTool_LeavesTheOthers) {
    const auto make = [] { return tool<City>("t", "", [](City place) { return place.city; }); };
    const AgentTool described = make().describe("city", "In French.");
    EXPECT_NE(json_text(described.parameters.source()).find("In French."), std::string::npos);
    EXPECT_EQ(json_text(make().parameters.source()).find("In French."), std::string::npos);
}

TEST(BlockingToolProgress, Progress_ReachesListenersInOrderBeforeTheResult) {
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

TEST(BlockingToolProgress, ExcessProgress_IsDropped) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "done"});
    Agent agent({.model = faux.model(),
                 .tools = {blocking_tool<EchoArgs>("echo", "", [](EchoArgs, ToolContext& context) {
                     for (int i = 0; i < 100'000; ++i) context.report(i);
                     return "ran";
                 })}});
    EXPECT_TRUE(run(agent.prompt("Go")));
}

TEST(BlockingToolProgress, ProgressOfNonblockingTool_IsRefused) {
    const ToolResultMessage result = result_of(tool<EchoArgs>("t", "",
                                                              [](EchoArgs, ToolContext& context) {
                                                                  context.report("x");
                                                                  return "ran";
                                                              }),
                                               {{"value", "x"}});
    EXPECT_TRUE(result.is_error);
    EXPECT_NE(text_of(result).find("update()"), std::string::npos);
}

TEST(BlockingToolProgress, ProgressAfterAbort_IsIgnored) {
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

enum class Unit : std::uint8_t { celsius, fahrenheit };
struct Place {
    std::string city;
    std::string country = "NO";
};
struct Node {
    std::string name;
    std::vector<Node> children;
};

std::string forecast(std::string city, int days) { return city + " " + std::to_string(days); }

TEST(NamedArguments, Arguments_BecomeTheSchemaOfTheTool) {
    const AgentTool made = tool<"place", "days", "unit", "tags">(
        "forecast", "d",
        [](Place, std::optional<int>, Unit, std::vector<std::string>) { return "sunny"; });
    EXPECT_EQ(made.parameters.source(), parse_json(R"({
        "type": "object",
        "properties": {
            "place": {"type": "object", "required": ["city"], "properties": {
                "city": {"type": "string"}, "country": {"type": "string", "default": "NO"}}},
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["place", "unit", "tags"]})"));
}

TEST(NamedArguments, Arguments_ReachTheCallableInOrder) {
    EXPECT_EQ(text_of(result_of(tool<"city", "days">("t", "", forecast),
                                {{"days", 2}, {"city", "Oslo"}})),
              "Oslo 2");
    const auto all = [](Place place, std::optional<int> days, Unit unit, Json extra) {
        return place.city + place.country + std::to_string(days.value_or(-1)) +
               std::string(enum_name(unit)) + boost::json::serialize(extra);
    };
    EXPECT_EQ(text_of(result_of(
                  tool<"place", "days", "unit", "extra">("t", "", all),
                  {{"place", {{"city", "Rome"}}}, {"unit", "fahrenheit"}, {"extra", {{"a", 1}}}})),
              R"(RomeNO-1fahrenheit{"a":1})");
}

TEST(NamedArguments, NoArguments_AreAllowed) {
    const AgentTool clock = tool("now", "The time.", [] { return "noon"; });
    EXPECT_EQ(clock.parameters.source(), AgentTool::no_parameters().source());
    EXPECT_EQ(text_of(result_of(clock, {})), "noon");
}

TEST(NamedArguments, RecursiveType_IsAccepted) {
    const auto count = [](Node node) { return std::to_string(node.children.size()); };
    const JsonObject leaf{{"name", "b"}, {"children", JsonArray()}};
    EXPECT_EQ(text_of(result_of(tool<"node">("t", "", count),
                                {{"node", {{"name", "a"}, {"children", JsonArray{leaf, leaf}}}}})),
              "2");
}

TEST(NamedArguments, Arguments_HaveConstraintsDefaultsAndDescriptions) {
    AgentTool made = tool<"city", "days">("t", "", forecast)
                         .describe("city", "City name")
                         .constrain("days", Constraints().minimum(1).default_value(3));
    EXPECT_EQ(text_of(result_of(made, {{"city", "Oslo"}})), "Oslo 3");
    const ToolResultMessage result = result_of(made, {{"city", "Oslo"}, {"days", 0}});
    EXPECT_TRUE(result.is_error);
    EXPECT_NE(text_of(result).find("days"), std::string::npos);
}

TEST(NamedArguments, MissingOrMistypedArguments_AreSentBack) {
    EXPECT_TRUE(result_of(tool<"city", "days">("t", "", forecast), {{"city", "Oslo"}}).is_error);
    // The schema of an int has no bounds; its type does.
    const ToolResultMessage result = result_of(tool<"city", "days">("t", "", forecast),
                                               {{"city", "Oslo"}, {"days", 3000000000}});
    EXPECT_TRUE(result.is_error);
    EXPECT_NE(text_of(result).find("days"), std::string::npos) << text_of(result);
}

TEST(NamedArguments, Coroutine_TakesTheContext) {
    const auto coroutine = [](std::string city, ToolContext& context) -> Task<std::string> {
        co_await context.update("half");
        co_return city + " " + context.tool_call_id();
    };
    EXPECT_EQ(text_of(result_of(tool<"city">("t", "", coroutine), {{"city", "Oslo"}})).substr(0, 5),
              "Oslo ");
}

TEST(NamedArguments, Argument_MayBeMovedIntoTheCallable) {
    auto calls = std::make_unique<int>(0);
    auto count = [calls = std::move(calls)](std::vector<std::string> names) mutable {
        *calls += static_cast<int>(names.size());
        return std::to_string(*calls);
    };
    EXPECT_EQ(text_of(result_of(tool<"names">("t", "", std::move(count)),
                                {{"names", JsonArray{"a", "b"}}})),
              "2");
}

TEST(NamedArguments, BlockingCallable_RunsOnAnotherThread) {
    const std::thread::id here = std::this_thread::get_id();
    const auto block = [here](std::string city, ToolContext&) {
        return city + (std::this_thread::get_id() == here ? " here" : " elsewhere");
    };
    EXPECT_EQ(text_of(result_of(blocking_tool<"city">("t", "", block), {{"city", "Oslo"}})),
              "Oslo elsewhere");
}

TEST(AgentOfAModel, Model_GetsDefaultsForAllOtherOptions) {
    FauxProvider faux;
    faux.set_responses({"hello"});
    Agent agent(faux.model());
    EXPECT_EQ(run(agent.prompt("Hi")).text(), "hello");
    EXPECT_TRUE(agent.state().tools.empty());
}

// Invalid UTF-8 in the output of tools.

const std::string invalid = "caf\xE9 \xF0\x9F";
const std::string sanitized = "caf\xEF\xBF\xBD \xEF\xBF\xBD";

/// All places where the output of a call is visible.
struct Seen {
    std::vector<std::string> texts;
    std::vector<Json> details;
};

Seen everything(const Recorder& recorder, const Agent& agent, const Requests& requests,
                Checkpointer& store) {
    Seen seen;
    const auto add = [&](const Message& message) {
        const ToolResultMessage* result = message.tool_result();
        if (!result) return;
        seen.texts.push_back(message.text());
        seen.details.push_back(result->details);
    };
    for (const AgentEvent& event : recorder.events) {
        if (const auto* end = event.get_if<ToolExecutionEndEvent>()) {
            seen.texts.push_back(end->result.text());
            seen.details.push_back(end->result.details);
        }
        if (const auto* start = event.get_if<MessageStartEvent>()) add(start->message);
        if (const auto* end = event.get_if<MessageEndEvent>()) add(end->message);
    }
    for (const Message& message : agent.state().messages) add(message);
    for (const Message& message : requests.seen.back().messages) add(message);
    for (const Message& message : stored(store, "t")) add(message);
    return seen;
}

Json details_with(const std::string& text, const std::string& key) {
    JsonObject inner;
    inner[key] = JsonArray{Json(text), Json(1)};
    JsonObject details;
    details["path"] = text;
    details["inner"] = std::move(inner);
    return details;
}

Json invalid_details() { return details_with(invalid, "key\xFF"); }
Json sanitized_details() { return details_with(sanitized, "key\xEF\xBF\xBD"); }

void expect_same_everywhere(AgentTool tool, AfterToolCallHook after, bool with_details) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer(calling({echo_call("a")})), requests.answer("done")});
    Agent agent({.model = faux.model(),
                 .tools = {std::move(tool)},
                 .after_tool_call = std::move(after),
                 .checkpointer = store,
                 .thread_id = "t"});
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    const Seen seen = everything(recorder, agent, requests, *store);
    EXPECT_EQ(seen.texts.size(), 6u);
    for (const std::string& text : seen.texts) EXPECT_EQ(text, sanitized);
    if (!with_details) return;
    for (const Json& details : seen.details) EXPECT_EQ(details, sanitized_details());
}

TEST(ToolText, InvalidUtf8_IsReplacedOnceAndConsistently) {
    auto tool_with_details = tool<EchoArgs>("echo", "Returns bytes.", [](EchoArgs) {
        AgentToolResult result(invalid);
        result.details = invalid_details();
        return result;
    });
    expect_same_everywhere(std::move(tool_with_details), {}, true);
}

/// Injects a message, and rewrites the answer.
struct WritesBytes {
    std::optional<TurnAction> after_model_response(AssistantMessage response) {
        response.content.clear();
        response.content.emplace_back(TextContent{invalid});
        TurnAction action;
        action.response = std::move(response);
        action.inject_messages.push_back(user_message(invalid));
        return action;
    }
};

TEST(MessageText, InvalidUtf8_IsReplacedInEventsAndStore) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two", "three"});
    Agent agent({.model = faux.model(),
                 .middleware = {WritesBytes()},
                 .checkpointer = store,
                 .thread_id = "t"});
    Recorder recorder(agent);
    agent.steer(invalid);
    agent.follow_up(invalid);
    UserMessage prompt;
    prompt.content.emplace_back(TextContent{invalid});
    prompt.metadata["sender_display_name"] = invalid;
    EXPECT_TRUE(run(agent.prompt(Message(std::move(prompt)))));

    std::vector<Message> seen;
    for (const AgentEvent& event : recorder.events) {
        // That of an answer precedes the hook.
        const auto* start = event.get_if<MessageStartEvent>();
        if (start && start->message.user()) seen.push_back(start->message);
        if (const auto* end = event.get_if<MessageEndEvent>()) seen.push_back(end->message);
    }
    for (const Message& message : agent.state().messages) seen.push_back(message);
    for (const Message& message : stored(*store, "t")) seen.push_back(message);
    EXPECT_GE(seen.size(), 4u * 5u);
    std::size_t named = 0;
    for (const Message& message : seen) {
        EXPECT_EQ(message.text(), sanitized);
        const Json* name = message.metadata().find("sender_display_name");
        if (name) {
            EXPECT_EQ(*name, Json(sanitized));
        }
        named += name ? 1 : 0;
    }
    EXPECT_EQ(named, 4u);
}

Json deep_value() {
    Json deep;
    for (int i = 0; i < 600; ++i) {
        JsonArray outer;
        outer.push_back(std::move(deep));
        deep = std::move(outer);
    }
    return deep;
}

TEST(ToolText, TooDeepDetails_AreReplacedByAReason) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    auto deep = tool<EchoArgs>("echo", "Returns deep details.", [](EchoArgs) {
        AgentToolResult result("fine");
        result.details = deep_value();
        return result;
    });
    Agent agent({.model = faux.model(),
                 .tools = {std::move(deep)},
                 .checkpointer = store,
                 .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt("hi")));
    const MessageList thread = stored(*store, "t");
    EXPECT_EQ(thread[2].text(), "fine");
    EXPECT_EQ(thread[2].tool_result()->details,
              Json(JsonObject{{"omitted", "nested deeper than 512 levels"}}));
}

TEST(ToolText, InvalidUtf8InException_IsReplaced) {
    auto throwing = tool<EchoArgs>(
        "echo", "Throws.", [](EchoArgs) -> std::string { throw std::runtime_error(invalid); });
    expect_same_everywhere(std::move(throwing), {}, false);
}

TEST(ToolText, InvalidUtf8OfAfterToolCall_IsReplaced) {
    AfterToolCallHook after = [](AfterToolCallContext&) {
        AfterToolCallResult changed;
        changed.content = ContentList<Content>{TextContent{invalid}};
        changed.details = invalid_details();
        return std::optional<AfterToolCallResult>(std::move(changed));
    };
    expect_same_everywhere(echo_tool(), std::move(after), true);
}

TEST(ToolText, InvalidUtf8OfUpdate_IsReplaced) {
    auto reporting =
        tool<EchoArgs>("echo", "Reports.", [](EchoArgs, ToolContext& ctx) -> Task<std::string> {
            Json partial = invalid_details();
            co_await ctx.update(std::move(partial));
            co_return std::string("done");
        });
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent({.model = faux.model(), .tools = {reporting}});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    std::vector<Json> updates;
    for (const AgentEvent& event : recorder.events) {
        if (const auto* update = event.get_if<ToolExecutionUpdateEvent>())
            updates.push_back(update->partial_result);
    }
    EXPECT_EQ(updates, std::vector<Json>{sanitized_details()});
}

TEST(ToolText, ReasonOfBlockedCall_IsSanitized) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .before_tool_call = [](BeforeToolCallContext&) {
                     BeforeToolCallResult block;
                     block.block = true;
                     block.reason = invalid;
                     return std::optional<BeforeToolCallResult>(std::move(block));
                 }});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    for (const AgentEvent& event : recorder.events) {
        if (const auto* end = event.get_if<ToolExecutionEndEvent>()) {
            EXPECT_EQ(std::string(end->block_reason), sanitized);
            EXPECT_EQ(end->result.text(), sanitized);
        }
    }
}

TEST(Tool, D104_LaterReplayPolicy_ReplacesTheEarlierOne) {
    const auto by_arguments = [](const JsonObject&) { return ReplayPolicy::idempotent; };
    AgentTool fixed = AgentTool().replay(by_arguments).replay(ReplayPolicy::never);
    EXPECT_FALSE(detail::is_repeatable(&fixed, {}));
    AgentTool chosen = std::move(fixed).replay(by_arguments);
    EXPECT_TRUE(detail::is_repeatable(&chosen, {}));
}

}  // namespace
}  // namespace cubepi
