#include "agent_test_support.hpp"

// Changing the model and the other settings of an existing agent.

namespace cubepi {
namespace {

using namespace agent_test;

Model priced(std::string id) {
    Model model;
    model.id = std::move(id);
    ModelCost cost;
    cost.input = 1.0;
    cost.output = 1.0;
    cost.cache_read = 1.0;
    cost.cache_write = 1.0;
    model.cost = cost;
    return model;
}

std::vector<std::string> answered_by(const Agent& agent) {
    std::vector<std::string> models;
    for (const Message& message : agent.state().messages) {
        if (message.assistant()) models.push_back(message.assistant()->model_id.str());
    }
    return models;
}

TEST(State, SetModelBetweenRunsChangesProviderAndModel) {
    FauxProvider first;
    FauxProvider second;
    Requests to_first;
    Requests to_second;
    first.set_responses({to_first.answer("one")});
    second.set_responses({to_second.answer("two")});
    Agent agent({.model = first.model("a")});
    run(agent.prompt("hi"));
    agent.set_model(second.model("b"));
    EXPECT_EQ(agent.state().model->id, "b");
    run(agent.prompt("again"));
    EXPECT_EQ(to_first.seen.size(), 1U);
    ASSERT_EQ(to_second.seen.size(), 1U);
    EXPECT_EQ(to_second.seen[0].model.id, "b");
    EXPECT_EQ(to_second.seen[0].messages.size(), 3U) << "the history goes along";
    EXPECT_EQ(answered_by(agent), (std::vector<std::string>{"a", "b"}));
}

TEST(State, SetModelDuringARunHoldsFromTheNextCall) {
    FauxProvider first;
    FauxProvider second;
    Requests to_second;
    first.set_responses({calling({echo_call("x")}), "not asked"});
    second.set_responses({to_second.answer("done")});
    Agent agent({.model = first.model("a"), .tools = {echo_tool()}});
    // In the middle of the first answer.
    agent.subscribe([&](const AgentEvent& event) {
        if (event.stream_event()) agent.set_model(second.model("b"));
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(first.call_count(), 1U);
    ASSERT_EQ(to_second.seen.size(), 1U);
    EXPECT_EQ(to_second.seen[0].model.id, "b");
    EXPECT_EQ(answered_by(agent), (std::vector<std::string>{"a", "b"}));
}

TEST(State, SetModelHoldsForAHookAroundTheCall) {
    FauxProvider first;
    FauxProvider second;
    first.set_responses({calling({echo_call("x")})});
    second.set_responses({"done"});
    Agent* self = nullptr;
    std::vector<std::string> asked;
    Agent agent(
        {.model = first.model("a"),
         .tools = {echo_tool()},
         .around_model_call = [&](ModelRequest request, ModelCallNext next) -> Task<MessageStream> {
             asked.push_back(request.model.id);
             self->set_model(second.model("b"));
             return next(std::move(request));
         }});
    self = &agent;
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(asked, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(answered_by(agent), (std::vector<std::string>{"a", "b"}));
}

TEST(State, AModelWithoutProviderIsRefused) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model("a")});
    Model model;
    model.id = "orphan";
    try {
        agent.set_model(BoundModel(model));
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("'orphan' has no provider"), std::string::npos);
    }
    EXPECT_EQ(agent.state().model->id, "a");
    EXPECT_TRUE(run(agent.prompt("hi")));
}

TEST(State, D24_AChangeToAModelWithoutPriceFailsASpendLimitClosed) {
    FauxProvider first;
    FauxProvider second;
    first.set_responses({calling({echo_call("x")})});
    second.set_responses({"not asked"});
    AgentLimits limits;
    limits.max_spend = 1000.0;
    Agent agent({.model = first.model(priced("a")), .tools = {echo_tool()}, .limits = limits});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::tool_execution_end) agent.set_model(second.model("b"));
    });
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_NE(std::string(result.error().what()).find("'b'"), std::string::npos);
    EXPECT_EQ(second.call_count(), 0U);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(State, D56_AChangeOfTheModelIsNotAPrefixBreak) {
    FauxProvider first;
    FauxProvider second;
    first.set_responses({"one"});
    second.set_responses({"two"});
    Agent agent({.model = first.model("a"), .system_prompt = "Be brief."});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    agent.set_model(second.model("b"));
    run(agent.prompt("again"));
    EXPECT_TRUE(recorder.notices().empty());
}

TEST(State, TheOtherSettersHoldForTheNextRun) {
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("ok")});
    Agent agent({.model = faux.model()});
    agent.set_system_prompt("Rhyme.");
    agent.set_tools({echo_tool()});
    agent.set_reasoning(ReasoningControl{.mode = ReasoningMode::on});
    agent.set_extra("customer", 4711);
    MessageList history;
    history.push_back(user_message("earlier"));
    agent.set_messages(std::move(history));
    run(agent.prompt("hi"));
    ASSERT_EQ(requests.seen.size(), 1U);
    const ModelRequest& request = requests.seen[0];
    EXPECT_EQ(request.system_prompt, "Rhyme.");
    ASSERT_NE(request.tools, nullptr);
    EXPECT_EQ(request.tools->size(), 1U);
    ASSERT_TRUE(request.options.reasoning());
    EXPECT_EQ(request.options.reasoning()->mode, ReasoningMode::on);
    EXPECT_EQ(texts(request.messages), (std::vector<std::string>{"earlier", "hi"}));
    EXPECT_EQ(agent.state().extra.at("customer"), Json(4711));
}

TEST(State, TheHistoryIsNotReplacedDuringARunOrUnderAStore) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    ErrorCode code = ErrorCode::unknown;
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() != AgentEventType::turn_start) return;
        try {
            agent.set_messages({});
        } catch (const Error& error) {
            code = error.code();
        }
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(code, ErrorCode::busy);

    Agent stored({.model = faux.model(),
                  .checkpointer = std::make_shared<MemoryCheckpointer>(),
                  .thread_id = "t"});
    EXPECT_THROW(stored.set_messages({}), Error);
}

}  // namespace
}  // namespace cubepi
