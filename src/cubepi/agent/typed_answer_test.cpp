#include <cubepi/agent/typed_answer.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

struct Step {
    int day;
    std::string city;
};
struct Plan {
    std::string title;
    std::vector<Step> steps;
};

ToolCall answer_call(JsonObject arguments, std::string id = "a1") {
    return faux_tool_call("structured_output", std::move(arguments), std::move(id));
}

JsonObject good_plan() {
    JsonObject step;
    step["day"] = 1;
    step["city"] = "Rome";
    JsonObject plan;
    plan["title"] = "Italy";
    plan["steps"] = JsonArray{step};
    return plan;
}

JsonObject bad_plan() {
    JsonObject plan = good_plan();
    plan["steps"] = "none";
    return plan;
}

/// A provider that enforces response formats, scripted.
class NativeFaux final : public Provider {
public:
    explicit NativeFaux(FauxProvider faux) : faux_(std::move(faux)) {}
    MessageStream stream(ModelRequest request) override { return faux_.stream(std::move(request)); }
    bool takes_response_format(const Model&) const override { return true; }

private:
    FauxProvider faux_;
};

BoundModel native(const FauxProvider& faux) {
    Model model;
    model.id = "native";
    return BoundModel(std::make_shared<NativeFaux>(faux), std::move(model));
}

std::string good_text() { return boost::json::serialize(good_plan()); }

const StructuredOutputError& structured_error(const RunResult& result) {
    return dynamic_cast<const StructuredOutputError&>(result.error());
}

TEST(TypedAnswer, D80_Tools_RunBeforeTheAnswerCall) {
    Requests requests;
    FauxProvider faux;
    faux.set_responses({requests.answer(calling({echo_call("x")})),
                        requests.answer(calling({answer_call(good_plan())}))});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    Recorder events(agent);
    const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->title, "Italy");
    EXPECT_EQ((*plan).steps.at(0).city, "Rome");
    EXPECT_EQ(plan.new_messages.size(), 5u);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    EXPECT_EQ(events.count(AgentEventType::tool_execution_end), 2u);
    const ModelRequest& request = requests.seen.at(0);
    ASSERT_EQ(request.tools->size(), 2u);
    EXPECT_EQ(request.tools->at(1).name, "structured_output");
    EXPECT_EQ(request.options.tool_choice()->mode, ToolChoice::Mode::required);
    EXPECT_FALSE(request.options.response_format());
    // The next prompt is an ordinary one.
    faux.set_responses({requests.answer("Gladly")});
    EXPECT_EQ(run(agent.prompt("Thanks")).text(), "Gladly");
    EXPECT_EQ(requests.seen.at(2).tools->size(), 1u);
}

TEST(TypedAnswer, D80_CapableEndpoint_EnforcesTheForm) {
    Requests requests;
    FauxProvider faux;
    faux.set_responses(
        {requests.answer(calling({echo_call("x")})), requests.answer(good_text().c_str())});
    Agent agent({.model = native(faux), .tools = {echo_tool()}});
    const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->steps.at(0).day, 1);
    for (const ModelRequest& request : requests.seen) {
        EXPECT_EQ(request.tools->size(), 1u);
        EXPECT_FALSE(request.options.tool_choice());
        EXPECT_EQ(request.options.response_format()->name, "structured_output");
    }
}

TEST(TypedAnswer, D80_InvalidAnswer_IsSentBack) {
    for (const bool by_endpoint : {false, true}) {
        Requests requests;
        FauxProvider faux;
        const std::string bad = boost::json::serialize(bad_plan());
        faux.set_responses({by_endpoint ? requests.answer(bad.c_str())
                                        : requests.answer(calling({answer_call(bad_plan())})),
                            by_endpoint ? requests.answer(good_text().c_str())
                                        : requests.answer(calling({answer_call(good_plan())}))});
        Agent agent({.model = by_endpoint ? native(faux) : faux.model()});
        const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
        ASSERT_TRUE(plan);
        EXPECT_EQ(plan->title, "Italy");
        EXPECT_TRUE(is_legal_transcript(agent.state().messages));
        const Message& correction = requests.seen.at(1).messages.back();
        EXPECT_NE(correction.text().find("steps"), std::string::npos);
        EXPECT_EQ(correction.role(), by_endpoint ? Role::user : Role::tool_result);
        EXPECT_EQ(is_synthetic_message(correction), by_endpoint);
    }
}

TEST(TypedAnswer, D80_TextInsteadOfCall_IsSentBack) {
    Requests requests;
    FauxProvider faux;
    faux.set_responses({requests.answer("I would go to Rome."),
                        requests.answer(("Here: " + good_text()).c_str())});
    Agent agent({.model = faux.model()});
    const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->title, "Italy");
    EXPECT_EQ(requests.seen.at(0).options.tool_choice()->name, "structured_output");
    EXPECT_NE(requests.seen.at(1).messages.back().text().find("Call the tool"), std::string::npos);
}

TEST(TypedAnswer, D80_ExhaustedRetries_FailTheRun) {
    FauxProvider faux;
    faux.set_responses({calling({answer_call(bad_plan())}), calling({answer_call(bad_plan())}),
                        calling({answer_call(bad_plan())})});
    Agent agent({.model = faux.model()});
    PromptOptions options = PromptOptions().answer(StructuredOptions().max_retries(2));
    const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it", std::move(options)));
    EXPECT_FALSE(plan);
    EXPECT_EQ(plan.outcome, RunOutcome::failed);
    EXPECT_EQ(structured_error(plan).failure(), StructuredFailure::invalid);
    EXPECT_EQ(structured_error(plan).attempts(), 3);
    EXPECT_FALSE(structured_error(plan).issues().empty());
    EXPECT_FALSE(plan.value);
    EXPECT_THROW((void)plan->title, Error);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    EXPECT_FALSE(agent.state().error_message.empty());
}

TEST(TypedAnswer, D80_Refusal_IsNotRetried) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message("I must not.", "refusal")});
    Agent agent({.model = faux.model()});
    const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
    EXPECT_EQ(structured_error(plan).failure(), StructuredFailure::refused);
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST(TypedAnswer, D80_RunWithoutAnswer_Fails) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")})});
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .should_stop_after_turn = [](ShouldStopAfterTurnContext&) { return true; }});
    const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
    EXPECT_EQ(plan.outcome, RunOutcome::failed);
    EXPECT_EQ(structured_error(plan).failure(), StructuredFailure::invalid);
}

TEST(TypedAnswer, D80_OtherFailures_KeepTheirOutcome) {
    FauxProvider faux;
    faux.set_responses({faux_failure("down")});
    Agent agent({.model = faux.model()});
    const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
    EXPECT_EQ(plan.outcome, RunOutcome::failed);
    EXPECT_EQ(plan.error().code(), ErrorCode::provider);
    EXPECT_FALSE(plan.value);
}

TEST(TypedAnswer, D80_Answer_EndsTheRunAndQueuedInputsWait) {
    FauxProvider faux;
    faux.set_responses({calling({answer_call(good_plan()), echo_call("x")}), "Gladly.", "Later."});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    agent.follow_up("And then?");
    const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
    EXPECT_TRUE(plan);
    EXPECT_EQ(faux.call_count(), 1u);
    EXPECT_EQ(run(agent.prompt("Thanks")).text(), "Later.");
}

TEST(TypedAnswer, D80_Answer_IsStoredInTheThread) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({calling({answer_call(good_plan())}), "I am not asked."});
    {
        Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
        EXPECT_TRUE(run(agent.prompt<Plan>(user_message("Plan it", "input-1"))));
    }
    EXPECT_EQ(stored(*store, "t").size(), 3u);
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt("Thanks")));
}

TEST(TypedAnswer, D80_RepeatedInput_ReturnsTheStoredValue) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({good_text().c_str()});
    Agent agent({.model = native(faux), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt<Plan>(user_message("Plan it", "input-1"))));
    const TypedResult<Plan> again = run(agent.prompt<Plan>(user_message("Plan it", "input-1")));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->title, "Italy");
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST(TypedAnswer, D80_ToolOfTheSameName_IsRefused) {
    FauxProvider faux;
    Agent agent({.model = faux.model(),
                 .tools = {tool<EchoArgs>("structured_output", "", [](EchoArgs) { return "x"; })}});
    EXPECT_THROW((void)run(agent.prompt<Plan>("Plan it")), Error);
    EXPECT_FALSE(agent.state().is_streaming);
}

TEST(TypedAnswer, D80_Reasoning_IsNotCombinedWithForcedCall) {
    Requests requests;
    FauxProvider faux;
    faux.set_responses({requests.answer(calling({answer_call(good_plan())}))});
    Agent agent({.model = faux.model(), .reasoning = ReasoningControl{.mode = ReasoningMode::on}});
    EXPECT_TRUE(run(agent.prompt<Plan>("Plan it")));
    EXPECT_FALSE(requests.seen.at(0).options.tool_choice());
}

TEST(TypedAnswer, NonObjectValue_IsReturned) {
    FauxProvider faux;
    faux.set_responses({calling({answer_call({{"value", JsonArray{1, 2, 3}}})})});
    Agent agent({.model = faux.model()});
    const auto numbers = run(agent.prompt<std::vector<int>>("Count"));
    ASSERT_TRUE(numbers);
    EXPECT_EQ(*numbers, (std::vector<int>{1, 2, 3}));
}

TEST(TypedAnswer, StreamedAnswer_IsReadIncrementally) {
    for (const bool by_endpoint : {false, true}) {
        FauxProvider faux;
        if (by_endpoint) {
            faux.set_responses({good_text().c_str()});
        } else {
            faux.set_responses({calling({answer_call(good_plan())})});
        }
        Agent agent({.model = by_endpoint ? native(faux) : faux.model()});
        PartialAnswer<Plan> partial;
        std::vector<std::string> cities;
        std::size_t updates = 0;
        agent.subscribe([&](const AgentEvent& event) {
            const Plan* so_far = partial.update(event);
            if (!so_far) return;
            ++updates;
            if (!so_far->steps.empty()) cities.push_back(so_far->steps.back().city);
        });
        EXPECT_TRUE(run(agent.prompt<Plan>("Plan it")));
        EXPECT_GT(updates, 2u);
        ASSERT_FALSE(cities.empty());
        EXPECT_EQ(cities.back(), "Rome");
    }
}

TEST(TypedAnswer, PartialNonObjectValue_IsReturned) {
    FauxProvider faux;
    faux.set_responses({calling({answer_call({{"value", JsonArray{100, 200, 300}}})})});
    Agent agent({.model = faux.model()});
    PartialAnswer<std::vector<int>> partial;
    std::size_t most = 0;
    agent.subscribe([&](const AgentEvent& event) {
        if (const auto* so_far = partial.update(event)) most = std::max(most, so_far->size());
    });
    EXPECT_TRUE(run(agent.prompt<std::vector<int>>("Count")));
    EXPECT_EQ(most, 3u);
}

Task<TypedResult<Plan>> pull(Agent& agent, std::size_t* events) {
    TypedAgentRun<Plan> plan = agent.start<Plan>("Plan it");
    for (;;) {
        const std::optional<AgentEvent> event = co_await plan.next();
        if (!event) break;
        ++*events;
    }
    TypedResult<Plan> result = co_await plan.result();
    co_return result;
}

TEST(TypedAnswer, PulledEvents_EndWithTheAnswer) {
    FauxProvider faux;
    faux.set_responses({calling({answer_call(good_plan())})});
    Agent agent({.model = faux.model()});
    std::size_t events = 0;
    const TypedResult<Plan> plan = run(pull(agent, &events));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->title, "Italy");
    EXPECT_GT(events, 5u);
}

TEST(TypedAnswer, D7_AbortAtAnyEvent_LeavesALegalHistory) {
    bool reached = true;
    for (std::uint64_t at = 1; reached; ++at) {
        FauxProvider faux;
        faux.set_responses({calling({echo_call("x")}), calling({answer_call(bad_plan())}),
                            calling({answer_call(good_plan())})});
        Agent agent({.model = faux.model(), .tools = {echo_tool()}});
        reached = false;
        agent.subscribe([&](const AgentEvent& event) {
            if (event.seq == at && !reached) {
                reached = true;
                agent.abort();
            }
        });
        const TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan it"));
        EXPECT_EQ(plan.value.has_value(), static_cast<bool>(plan));
        EXPECT_TRUE(is_legal_transcript(agent.state().messages)) << at;
        faux.set_responses({"Still here."});
        EXPECT_TRUE(run(agent.prompt("Hello?")));
        ASSERT_LT(at, 1000u);
    }
}

}  // namespace
}  // namespace cubepi
