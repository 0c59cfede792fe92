#include <cubepi/middleware/subagents_test_support.hpp>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/middleware/detail/subagent_run.hpp>

namespace cubepi {
namespace {

using namespace subagent_test;
using ::testing::Test;

struct Subagents : Test {
    Family family;
};

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST_F(Subagents, Subagent_DoesATaskInItsOwnContext) {
    family.subagents.subagents.push_back(
        {.name = "researcher", .description = "Finds.", .system_prompt = "You research."});
    std::vector<ModelRequest> seen;
    family.parent.set_responses({delegating({{"subagent_type", "researcher"}}), "It is done."});
    family.child.set_responses({[&seen](const ModelRequest& request) {
        seen.push_back(request);
        return faux_assistant_message("found");
    }});
    const RunResult result = family.prompt();
    EXPECT_EQ(result.text(), "It is done.");
    EXPECT_EQ(result_text(result), "found");
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].system_prompt.str(), "You research.");
    ASSERT_EQ(seen[0].messages.size(), 1u);
    EXPECT_EQ(seen[0].messages[0].text(), "do it");
    EXPECT_EQ(seen[0].tools->size(), 1u);
}

/// Those who show the work read integers, also before the message was stored.
TEST(SubagentWork, Turns_AreAnInteger) {
    SubagentResult result;
    result.turns = 2;
    EXPECT_EQ(detail::integer_member(detail::work_json(result), "turns"), 2);
}

TEST_F(Subagents, UnknownType_IsAnErrorNamingTheTypes) {
    family.parent.set_responses({delegating({{"subagent_type", "wizard"}}), "ok"});
    const std::string text = result_text(family.prompt());
    EXPECT_TRUE(contains(text, "error: ") && contains(text, "'general-purpose'")) << text;
    EXPECT_EQ(family.child.call_count(), 0u);
}

TEST_F(Subagents, InvalidTypes_AreRefusedAtOnce) {
    EXPECT_THROW(SubagentMiddleware{SubagentOptions{}}, Error);
    family.subagents.subagents = {{.name = "a"}, {.name = "a"}};
    EXPECT_THROW(SubagentMiddleware{family.subagents}, Error);
    family.subagents.subagents = {{.name = "a", .tools = family.subagents.shared_tools}};
    EXPECT_THROW(SubagentMiddleware{family.subagents}, Error);
}

TEST_F(Subagents, D67_UsageOfSubagents_CountsInTheRun) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), "done"});
    const RunResult result = family.prompt();
    const Spending spent = family.middleware->spending();
    EXPECT_GT(*spent.usage.output_tokens, 0);
    EXPECT_GT(*result.usage.output_tokens, *spent.usage.output_tokens);
    EXPECT_EQ(family.removed, std::vector<std::string>{"/a"});
}

TEST_F(Subagents, D114_BlockedCallOfParent_IsBlockedInSubagents) {
    family.options.before_tool_call = [](BeforeToolCallContext& call) {
        std::optional<BeforeToolCallResult> result;
        if (call.tool_call.name == "rm") {
            result.emplace();
            result->block = true;
            result->reason = "never";
        }
        return result;
    };
    family.subagents.limits.max_depth = 2;
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), delegating(), removing("/b"), "no", "no"});
    const RunResult result = family.prompt();
    EXPECT_EQ(result_text(result), "no");
    EXPECT_TRUE(family.removed.empty());
    EXPECT_EQ(family.child.pending_response_count(), 0u);
}

TEST_F(Subagents, D114_DepthLimit_LeavesTheToolOut) {
    std::vector<std::size_t> tools;
    const auto note = [&tools](AssistantMessage answer) {
        return [&tools, answer](const ModelRequest& request) {
            tools.push_back(request.tools->size());
            return answer;
        };
    };
    family.subagents.limits.max_depth = 2;
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({note(delegating()), note(faux_assistant_message("deep")),
                                note(faux_assistant_message("done"))});
    EXPECT_EQ(result_text(family.prompt()), "done");
    EXPECT_EQ(tools, (std::vector<std::size_t>{2, 1, 2}));
}

TEST_F(Subagents, D114_LimitsOfNumber_AreErrorResults) {
    family.subagents.limits.max_total = 1;
    family.parent.set_responses({delegating(), delegating(), "ok"});
    family.child.set_responses({"first"});
    const RunResult result = family.prompt();
    EXPECT_EQ(result_text(result), "first");
    EXPECT_TRUE(contains(result_text(result, 1), "max_total")) << result_text(result, 1);
}

TEST_F(Subagents, D114_ParallelSubagents_ReserveTheirMoney) {
    Model priced;
    priced.id = "m";
    priced.cost.emplace();
    priced.cost->input = 1;
    priced.cost->output = 1;
    family.subagents.default_model =
        BoundModel(std::make_shared<FauxProvider>(family.child), priced);
    family.subagents.limits.max_spend = 1;
    ContentList<AssistantContent> calls;
    calls.emplace_back(faux_tool_call("subagent", {{"prompt", "a"}}, "c1"));
    calls.emplace_back(faux_tool_call("subagent", {{"prompt", "b"}}, "c2"));
    family.parent.set_responses(
        {faux_assistant_message(std::move(calls), stop_reason::tool_use), "ok"});
    family.child.set_responses({"one"});
    const RunResult result = family.prompt();
    EXPECT_EQ(result_text(result), "one");
    EXPECT_TRUE(contains(result_text(result, 1), "max_spend")) << result_text(result, 1);
}

TEST_F(Subagents, SubagentThatLoops_EndsAtItsLimit) {
    family.subagents.subagents.push_back({.name = "general-purpose", .limits = {.max_turns = 5}});
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses(std::vector<FauxStep>(20, FauxStep(removing("/a"))));
    const RunResult result = family.prompt();
    EXPECT_EQ(result.text(), "ok");
    EXPECT_TRUE(contains(result_text(result), "max_turns")) << result_text(result);
    EXPECT_EQ(family.removed.size(), 5u);
}

TEST_F(Subagents, ModelOfSubagentFails_ParentContinues) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({faux_failure("the endpoint is down")});
    const RunResult result = family.prompt();
    EXPECT_EQ(result.text(), "ok");
    const std::string text = result_text(result);
    EXPECT_TRUE(contains(text, "error: ") && contains(text, "endpoint is down")) << text;
}

TEST_F(Subagents, AbortOfParent_EndsTheSubagent) {
    AsyncEvent hung;
    std::vector<std::string> ends;
    family.subagents.on_event = [&ends](const AgentEvent& event) {
        if (const auto* end = event.get_if<AgentEndEvent>())
            ends.emplace_back(to_string(end->outcome));
    };
    family.parent.set_responses({delegating()});
    family.child.set_responses({[&](const ModelRequest&) { return calling("wait", {}); }});
    std::unique_ptr<Agent> agent;
    family.subagents.shared_tools.push_back(
        tool<PathArgs>("unused", "", [](PathArgs) { return "no"; }));
    family.subagents.shared_tools.push_back(
        AgentTool("wait", "Waits.", AgentTool::no_parameters(), [&](JsonObject, ToolContext&) {
            agent->abort();
            auto waiting = [](AsyncEvent* event) -> Task<AgentToolResult> {
                co_await event->wait();
                co_return "never";
            };
            return MaybeTask<AgentToolResult>(waiting(&hung));
        }));
    agent = family.agent();
    const RunResult result = run(agent->prompt("go"));
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(ends, std::vector<std::string>{"aborted"});
    EXPECT_EQ(family.child.call_count(), 1u);
}

TEST_F(Subagents, Events_NameTheirParentAndAreBounded) {
    std::vector<std::string> parents;
    family.subagents.limits.max_events = 3;
    family.subagents.event_mapper = [](const AgentEvent& event) {
        return std::vector<Json>{Json(to_string(event.type()))};
    };
    family.subagents.on_event = [&parents](const AgentEvent& event) {
        parents.push_back(event.run->origin.parent_run_id);
    };
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({"done"});
    const RunResult result = family.prompt();
    ASSERT_FALSE(parents.empty());
    EXPECT_EQ(parents.front(), result.run_id);
    const Json& details = tool_result(result.new_messages).details;
    EXPECT_EQ(details.at("subagent_events"),
              (JsonArray{"agent_start", "turn_start", "message_start"}));
}

}  // namespace
}  // namespace cubepi
