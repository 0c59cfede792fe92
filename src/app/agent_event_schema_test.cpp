// docs/schema/agent-event.schema.json is what `cubepi run --json` prints.

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/schema/validate.hpp>

#include "source_tree.hpp"

namespace cubepi::app {
namespace {

Json published_schema() {
    std::ifstream file(cubepi::testing::source_path("docs/schema/agent-event.schema.json"));
    std::stringstream text;
    text << file.rdbuf();
    return boost::json::parse(text.str());
}

/// Why `event` is not what the schema says; empty when it is.
std::string complaint(const Json& schema, const JsonObject& event) {
    static const JsonSchema compiled(published_schema());
    Json value = event;
    for (const SchemaIssue& issue : compiled.validate(value))
        return issue.path + ": " + issue.message;
    if (value != Json(event)) return "it fits only after a change";
    // Every property is documented.
    const JsonObject& own =
        schema.at("definitions").at(event.at("type").get_string()).at("properties").get_object();
    const JsonObject& common = schema.at("properties").get_object();
    for (const auto& [key, unused] : event) {
        if (!own.contains(key) && !common.contains(key))
            return "the schema does not know " + std::string(key);
    }
    return {};
}

void expect_valid(const JsonObject& event) {
    static const Json schema = published_schema();
    EXPECT_EQ(complaint(schema, event), "") << boost::json::serialize(event);
}

RunInfo example_run() {
    RunInfo run;
    run.run_id = "run";
    run.attempt_id = "attempt";
    run.thread_id = "thread";
    run.origin.parent_run_id = "parent";
    run.origin.parent_tool_call_id = "call";
    return run;
}

AgentEvent event_of(AgentEvent::Body body) {
    AgentEvent event;
    event.body = std::move(body);
    event.run = std::make_shared<const RunInfo>(example_run());
    event.turn = 1;
    event.seq = 7;
    return event;
}

struct AddArgs {
    int a = 0;
    int b = 0;
};

TEST(AgentEventSchema, EventsOfToolRun_FitTheSchema) {
    FauxProvider faux;
    ContentList<AssistantContent> first;
    first.emplace_back(faux_thinking("two numbers"));
    first.emplace_back(faux_text("I add them."));
    first.emplace_back(faux_tool_call("add", {{"a", 1}, {"b", 2}}));
    first.emplace_back(faux_tool_call("add", {{"a", "no number"}}));
    faux.set_responses({faux_assistant_message(std::move(first), stop_reason::tool_use), "Three.",
                        faux_failure("the server is on fire")});
    AgentOptions options;
    options.model = faux.model("offline");
    options.tools.push_back(
        tool<AddArgs>("add", "Adds.", [](AddArgs args, ToolContext& ctx) -> Task<std::string> {
            const Json half("half-way");
            co_await ctx.update(half);
            co_return std::to_string(args.a + args.b);
        }));
    Agent agent(std::move(options));
    std::set<AgentEventType> seen;
    agent.subscribe([&](const AgentEvent& event) {
        seen.insert(event.type());
        expect_valid(to_json(event));
        expect_valid(to_json(event, true));
    });
    run(agent.prompt("1 + 2?"));
    run(agent.prompt("And again?"));
    for (const AgentEventType type :
         {AgentEventType::agent_start, AgentEventType::agent_end, AgentEventType::turn_start,
          AgentEventType::turn_end, AgentEventType::message_start, AgentEventType::message_update,
          AgentEventType::message_end, AgentEventType::tool_execution_start,
          AgentEventType::tool_execution_update, AgentEventType::tool_execution_end}) {
        EXPECT_TRUE(seen.contains(type)) << to_string(type);
    }
}

TEST(AgentEventSchema, EventOfEachType_FitsTheSchema) {
    HitlOption option;
    option.label = "Yes";
    option.value = "yes";
    HitlQuestion question;
    question.key = "sure";
    question.prompt = "Sure?";
    question.options = std::vector<HitlOption>{option};
    HitlRequest asks;
    asks.question_id = "q1";
    asks.payload = AskRequest{{question, HitlQuestion()}};
    HitlRequest approves;
    approves.question_id = "q2";
    approves.thread_id = "thread";
    approves.timeout_seconds = 5;
    approves.payload = ApproveRequest{"write", "c1", {{"path", "x"}}, nullptr};
    HitlRequest confirms;
    confirms.payload = ConfirmRequest{"Continue?", nullptr};

    Notice notice;
    notice.code = "retry";
    notice.text = "Trying again.";
    ToolExecutionEndEvent ended;
    ended.result = AgentToolResult::error("refused");
    ended.blocked_by_hook = true;
    ended.block_reason = "no";

    const std::vector<AgentEvent::Body> bodies{
        AgentStartEvent(),
        AgentEndEvent(),
        TurnStartEvent(),
        TurnEndEvent{Message(faux_assistant_message("hi")), {}},
        MessageStartEvent{user_message("hi", "id")},
        MessageEndEvent{Message(faux_assistant_message("hi"))},
        ToolExecutionStartEvent(),
        ToolExecutionUpdateEvent(),
        ended,
        HitlRequestEvent{asks},
        HitlRequestEvent{approves},
        HitlRequestEvent{confirms},
        HitlAnswerEvent{"q1", "yes", false},
        AgentSuspendedEvent{{asks, approves, confirms}},
        AgentAbortedEvent{"ctrl-c"},
        NoticeEvent{notice}};
    for (const AgentEvent::Body& body : bodies) expect_valid(to_json(event_of(body)));
}

TEST(AgentEventSchema, JsonThatIsNotAnEvent_IsRejected) {
    const Json schema = published_schema();
    EXPECT_NE(complaint(schema, {{"type", "agent_start"}, {"run_id", "r"}, {"turn", 0}}), "");
    EXPECT_NE(complaint(schema, {{"type", "agent_end"}, {"run_id", "r"}, {"turn", 0}, {"seq", 1}}),
              "");
    EXPECT_NE(complaint(schema, {{"type", "party"}, {"run_id", "r"}, {"turn", 0}, {"seq", 1}}), "");
}

}  // namespace
}  // namespace cubepi::app
