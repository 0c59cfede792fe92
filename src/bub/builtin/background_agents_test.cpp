// Sub-agents of the pipeline in the background (D126), and the limits that sub-agents of a session share.

#include <bub/builtin/background_agents_test_support.hpp>

namespace bub {
namespace {

using test::calling;

class BackgroundAgents : public test::AgentsInBackground {};

TEST_F(BackgroundAgents, D126_TaskEnds_ItsTurnHasTheResult) {
    start();
    const auto script = [&]() -> Task<> {
        const TurnResult first = co_await turn("go");
        EXPECT_EQ(first.model_output, "waiting");
        EXPECT_EQ(agents->list("cli:chat").size(), 1u);
        const TurnResult listed = co_await turn(",tasks");
        EXPECT_NE(listed.model_output.find("running"), std::string::npos) << listed.model_output;
        co_await wait_for_result();
        Envelope again = delivered.front();
        Envelope message = delivered.front();
        const TurnResult second = co_await framework->process_inbound(std::move(message));
        EXPECT_EQ(second.model_output, "thanks");
        EXPECT_NE(seen.back().find("completed\nthe answer"), std::string::npos) << seen.back();
        const std::int64_t of_turn = tokens;
        const TurnResult third = co_await framework->process_inbound(std::move(again));
        EXPECT_TRUE(third.outbounds.empty()) << third.model_output;
        EXPECT_EQ(tokens, of_turn) << "there is no second run";
        (void)co_await turn("hello");
        EXPECT_TRUE(agents->list("cli:chat").empty());
    };
    run(script());
    EXPECT_EQ(delivered.size(), 1u);
}

TEST_F(BackgroundAgents, D126_TurnInProgress_ReceivesTheResult) {
    released = true;
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        co_await wait_for_result();
        const TurnResult next = co_await turn("hello");
        EXPECT_TRUE(saw("completed\nthe answer"));
        Envelope message = delivered.front();
        const TurnResult silent = co_await framework->process_inbound(std::move(message));
        EXPECT_TRUE(silent.outbounds.empty());
    };
    run(script());
}

TEST_F(BackgroundAgents, D126_OwnUser_CancelsATask) {
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        const std::string id = agents->list("cli:chat").at(0).id;
        Envelope cancel = Envelope("/tasks cancel " + id).on("telegram", "chat");
        cancel.session_id = "cli:chat";
        const TurnResult ended = co_await framework->process_inbound(std::move(cancel));
        EXPECT_NE(ended.model_output.find("being cancelled"), std::string::npos)
            << ended.model_output;
        while (delivered.empty()) co_await changed.wait();
        Envelope message = delivered.front();
        (void)co_await framework->process_inbound(std::move(message));
        EXPECT_TRUE(saw("cancelled"));
    };
    run(script());
}

TEST_F(BackgroundAgents, D126_OtherSession_CannotCancelIt) {
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        const std::string id = agents->list("cli:chat").at(0).id;
        EXPECT_FALSE(agents->cancel("cli:other", id));
        EXPECT_EQ(agents->list("cli:chat").at(0).state, cubepi::SubagentTaskState::running);
    };
    run(script());
}

TEST_F(BackgroundAgents, D126_ProcessEnds_TaskIsInterruptedAndNotRepeated) {
    start();
    const auto first = [&]() -> Task<> { (void)co_await turn("go"); };
    run(first());
    FrameworkOptions again;
    make_framework(std::move(again));
    agents = std::make_shared<SessionAgents>();
    options.agents = agents;
    seen.clear();
    start();
    const auto second = [&]() -> Task<> {
        const TurnResult listed = co_await turn(",tasks");
        EXPECT_NE(listed.model_output.find("interrupted"), std::string::npos)
            << listed.model_output;
        (void)co_await turn("hello");
        EXPECT_TRUE(saw("interrupted"));
        EXPECT_FALSE(saw("task one"));
        const TurnResult over = co_await turn(",tasks");
        EXPECT_EQ(over.model_output, "There are no sub-agents in the background.");
    };
    run(second());
}

TEST_F(BackgroundAgents, D126_SessionEnds_TaskEndsWithoutResult) {
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        (void)co_await turn(",quit");
        EXPECT_TRUE(agents->list("cli:chat").empty());
    };
    run(script());
    EXPECT_TRUE(delivered.empty());
}

TEST_F(BackgroundAgents, D126_ExpectedResults_AreHeldBackUntilTheEnd) {
    std::vector<Envelope> expected;
    options.expect_results = [&](Envelope message) { expected.push_back(std::move(message)); };
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        EXPECT_EQ(expected.size(), 1u);
        released = true;
        changed.pulse();
        co_await expected.front().held->wait();
        EXPECT_FALSE(expected.front().held->is_dropped());
        Envelope message = expected.front();
        const TurnResult reported = co_await framework->process_inbound(std::move(message));
        EXPECT_EQ(reported.model_output, "thanks");
        released = false;
        (void)co_await turn("go again");
        (void)co_await turn(",quit");
        EXPECT_EQ(expected.size(), 2u);
        co_await expected.back().held->wait();
        EXPECT_TRUE(expected.back().held->is_dropped());
    };
    run(script());
    EXPECT_TRUE(delivered.empty());
}

TEST_F(BackgroundAgents, InheritedConversation_IsRefusedInTheBackground) {
    session = "inherit";
    start();
    const auto script = [&]() -> Task<> { (void)co_await turn("go"); };
    run(script());
    EXPECT_TRUE(saw("cannot inherit this conversation"));
}

TEST_F(BackgroundAgents, NamedConversation_IsInUseDuringTheTask) {
    session = "research";
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        (void)co_await turn("go again");
        EXPECT_TRUE(saw("is in use by another call"));
        co_await wait_for_result();
    };
    run(script());
}

TEST_F(BackgroundAgents, D127_LimitOfNumber_HoldsForOnePrompt) {
    options.subagents.max_total = 2;
    again = "go from the result";
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        (void)co_await turn("go again");
        EXPECT_FALSE(saw("(max_total)"));
        co_await wait_for_result();
        while (delivered.size() < 2) co_await changed.wait();
        // The second prompt has started one, and its results start another one.
        Envelope message = delivered.front();
        (void)co_await framework->process_inbound(std::move(message));
        EXPECT_FALSE(saw("(max_total)"));
        again = "go from the next result";
        while (delivered.size() < 3) co_await changed.wait();
        Envelope next = delivered.back();
        (void)co_await framework->process_inbound(std::move(next));
        EXPECT_TRUE(saw("2 sub-agents were started (max_total)"));
    };
    run(script());
}

TEST_F(BackgroundAgents, D127_FailedTurn_LosesNoResultAndRepeatsNone) {
    fails = true;
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        (void)co_await turn("go again");
        co_await wait_for_result();
        while (delivered.size() < 2) co_await changed.wait();
        Envelope first = delivered.front();
        Task<TurnResult> failing = framework->process_inbound(std::move(first));
        const cubepi::Outcome<TurnResult> failed = co_await cubepi::outcome_of(std::move(failing));
        EXPECT_FALSE(failed.ok());
        Envelope second = delivered.back();
        const TurnResult silent = co_await framework->process_inbound(std::move(second));
        EXPECT_TRUE(silent.outbounds.empty()) << silent.model_output;
        (void)co_await turn("hello");
    };
    run(script());
    EXPECT_TRUE(agents->list("cli:chat").empty());
    const cubepi::MessageList messages = agent_messages(tape("cli:chat"));
    EXPECT_EQ(std::count_if(messages.begin(), messages.end(), cubepi::is_subagent_task_result), 2);
}

/// A million tokens of an answer cost one dollar, so that the shortest one that is asked for costs 0.001.
void add_price(BuiltinOptions& options, double max_spend_of_turn) {
    options.configure = [max_spend_of_turn](cubepi::AgentOptions& agent, const TurnContext&) {
        cubepi::Model model = agent.model.spec();
        cubepi::ModelCost& cost = model.cost.emplace();
        cost.input = cost.cache_read = cost.cache_write = 0.0;
        cost.output = 1.0;
        agent.model = cubepi::BoundModel(agent.model.provider(), std::move(model));
        agent.limits.max_spend = max_spend_of_turn;
    };
}

TEST_F(BackgroundAgents, D127_MoneyOfPrompt_IsEnoughForParallelTasks) {
    add_price(options, 0.0);
    options.subagents.max_spend = 0.01;
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        (void)co_await turn("go again");
        co_await wait_for_result();
        while (delivered.size() < 2) co_await changed.wait();
        for (const cubepi::SubagentTask& task : agents->list("cli:chat"))
            EXPECT_EQ(task.result.error, "");
    };
    run(script());
}

TEST_F(BackgroundAgents, D127_MoneyOfPrompt_EndsATask) {
    add_price(options, 0.0);
    options.subagents.max_spend = 0.001;
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        co_await wait_for_error("max_spend");
        EXPECT_FALSE(saw("task one"));
    };
    run(script());
}

TEST_F(BackgroundAgents, D120_MoneyOfTurn_LimitsItsTasksToo) {
    add_price(options, 0.0015);
    options.subagents.max_spend = 1.0;
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        co_await wait_for_error("max_spend");
        EXPECT_FALSE(saw("task one"));
    };
    run(script());
}

TEST_F(BackgroundAgents, StepsOfSubagent_HaveTheirOwnLimit) {
    options.max_subagent_steps = 1;
    child_calls = "write";
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        co_await wait_for_error("max_turns (1)");
    };
    run(script());
}

TEST_F(BackgroundAgents, D24_LongResult_IsShortened) {
    result = std::string(200'000, 'x');
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        co_await wait_for_result();
        Envelope message = delivered.front();
        (void)co_await framework->process_inbound(std::move(message));
        EXPECT_LT(seen.back().size(), 60'000u);
        EXPECT_NE(seen.back().find("xxx"), std::string::npos);
    };
    run(script());
}

TEST_F(BackgroundAgents, WaitingTurn_EndsWithTheResult) {
    options.waits_for_tasks = true;
    start();
    released = true;
    const auto script = [&]() -> Task<> {
        const TurnResult only = co_await turn("go");
        EXPECT_TRUE(only.model_output.ends_with("thanks")) << only.model_output;
        EXPECT_TRUE(agents->list("cli:chat").empty());
    };
    run(script());
}

TEST_F(BackgroundAgents, ToolRemovedByHost_OffersNoTasks) {
    options.configure = [](cubepi::AgentOptions& agent, const TurnContext&) {
        agent.tools.clear();
    };
    start();
    const auto script = [&]() -> Task<> { (void)co_await turn("hello"); };
    run(script());
    EXPECT_EQ(std::count(offered.begin(), offered.end(), "subagent_tasks"), 0);
}

TEST_F(BackgroundAgents, NoneAllowed_ModelIsNotOfferedThem) {
    options.subagents.max_background = 0;
    start();
    const auto script = [&]() -> Task<> { (void)co_await turn("go"); };
    run(script());
    EXPECT_TRUE(agents->list("cli:chat").empty());
    EXPECT_FALSE(saw("Started task"));
}

}  // namespace
}  // namespace bub
