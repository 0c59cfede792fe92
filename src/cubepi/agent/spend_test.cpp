// The cost of runs and the spend limit. D24.

#include <cubepi/agent/agent_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

/// One dollar per call: Faux counts tokens by characters, so only the output has a price, which is set manually.
Model priced() {
    Model model;
    model.id = "priced";
    ModelCost& cost = model.cost.emplace();
    cost.input = 0.0;
    cost.output = 1'000'000.0;
    cost.cache_read = 0.0;
    cost.cache_write = 0.0;
    return model;
}

AssistantMessage worth(std::int64_t dollars, AssistantMessage message) {
    message.usage.emplace();
    message.usage->output_tokens = dollars;
    return message;
}

/// A provider that returns prepared answers, including their usage.
class Till final : public Provider {
public:
    explicit Till(std::vector<AssistantMessage> answers) : answers_(std::move(answers)) {}
    MessageStream stream(ModelRequest request) override {
        const std::size_t at = std::min(calls++, answers_.size() - 1);
        AssistantMessage answer = answers_[at];
        answer.model_id = request.model.id;
        return MessageStream(std::make_unique<Source>(std::move(answer)));
    }
    std::size_t calls = 0;

private:
    class Source final : public StreamSource {
    public:
        explicit Source(AssistantMessage answer) : answer_(std::move(answer)) {}
        std::optional<StreamEvent> ready() override {
            if (given_) return std::nullopt;
            given_ = true;
            StreamEvent event;
            event.type = StreamEventType::done;
            event.partial = PartialMessage(Message(std::move(answer_)));
            return event;
        }
        Task<StreamEvent> next() override {
            std::optional<StreamEvent> event = ready();
            co_return std::move(*event);
        }

    private:
        AssistantMessage answer_;
        bool given_ = false;
    };
    std::vector<AssistantMessage> answers_;
};

AgentLimits spending(double usd) {
    AgentLimits limits;
    limits.max_spend = usd;
    return limits;
}

TEST(Spend, ARunSaysWhatItCost) {
    auto till = std::make_shared<Till>(std::vector<AssistantMessage>{
        worth(2, calling({echo_call("a")})), worth(3, faux_assistant_message("done"))});
    Agent agent({.model = BoundModel(till, priced()), .tools = {echo_tool()}});
    const RunResult result = run(agent.prompt("hi"));
    ASSERT_TRUE(result);
    ASSERT_TRUE(result.cost);
    EXPECT_DOUBLE_EQ(*result.cost, 5.0);
}

TEST(Spend, D12_AnUnknownPriceIsNotZero) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    EXPECT_FALSE(run(agent.prompt("hi")).cost);
}

TEST(Spend, D24_TheLimitIsAnOutcomeWithItsNameAndLegalHistory) {
    std::vector<AssistantMessage> answers;
    for (int i = 0; i < 9; ++i)
        answers.push_back(worth(2, calling({echo_call("a", "c" + std::to_string(i))})));
    auto till = std::make_shared<Till>(std::move(answers));
    Agent agent(
        {.model = BoundModel(till, priced()), .tools = {echo_tool()}, .limits = spending(5.0)});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_NE(std::string(result.error().what()).find("max_spend"), std::string::npos);
    EXPECT_EQ(till->calls, 3U);
    EXPECT_DOUBLE_EQ(*result.cost, 6.0);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1U);
    // The next run has its own budget.
    EXPECT_EQ(run(agent.prompt("on")).outcome, RunOutcome::limited);
    EXPECT_EQ(till->calls, 6U);
}

PriorSpending prior(std::size_t turns, std::optional<double> cost) {
    PriorSpending spending;
    spending.turns = turns;
    spending.usage.output_tokens = 4;
    spending.cost = cost;
    return spending;
}

TEST(Spend, D24_PriorSpendingCountsTowardTheLimitsAndIsPartOfTheResult) {
    auto till =
        std::make_shared<Till>(std::vector<AssistantMessage>{worth(2, calling({echo_call("a")}))});
    AgentLimits limits = spending(7.0);
    Agent agent({.model = BoundModel(till, priced()), .tools = {echo_tool()}, .limits = limits});
    const RunResult result = run(agent.prompt("hi", PromptOptions().prior_spending(prior(1, 4.0))));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_EQ(till->calls, 2U);
    EXPECT_DOUBLE_EQ(*result.cost, 8.0);
    EXPECT_EQ(result.usage.output_tokens, 8);
}

TEST(Spend, D24_PriorSpendingCountsForPulledEventsToo) {
    auto till = std::make_shared<Till>(
        std::vector<AssistantMessage>{worth(2, faux_assistant_message("done"))});
    Agent agent({.model = BoundModel(till, priced())});
    AgentRun pulled = agent.start("hi", PromptOptions().prior_spending(prior(1, 4.0)));
    const RunResult result = run(pulled.result());
    ASSERT_TRUE(result.cost);
    EXPECT_DOUBLE_EQ(*result.cost, 6.0);
}

TEST(Spend, D24_ALimitThatPriorSpendingHasReachedEndsARunBeforeItsFirstCall) {
    auto till = std::make_shared<Till>(
        std::vector<AssistantMessage>{worth(2, faux_assistant_message("never sent"))});
    for (const PriorSpending& before : {prior(1, 5.0), prior(1, std::nullopt), prior(3, 0.0)}) {
        AgentLimits limits = spending(5.0);
        limits.max_turns = 3;
        Agent agent({.model = BoundModel(till, priced()), .limits = limits});
        Recorder recorder(agent);
        const RunResult result = run(agent.prompt("hi", PromptOptions().prior_spending(before)));
        EXPECT_EQ(result.outcome, RunOutcome::limited);
        EXPECT_EQ(till->calls, 0U);
        EXPECT_EQ(result.cost, before.cost);
        EXPECT_TRUE(is_legal_transcript(agent.state().messages));
        EXPECT_EQ(recorder.count(AgentEventType::turn_start), 1U);
        EXPECT_EQ(recorder.count(AgentEventType::turn_end), 1U);
        EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1U);
    }
}

TEST(Spend, D24_AnUnknownPriceFailsTheLimitClosed) {
    FauxProvider faux;
    faux.set_responses({"never sent"});
    Agent agent({.model = faux.model("mystery"), .limits = spending(1.0)});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_NE(std::string(result.error().what()).find("mystery"), std::string::npos);
    EXPECT_EQ(faux.call_count(), 0U);
    EXPECT_EQ(agent.state().messages.size(), 2U);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    EXPECT_EQ(recorder.count(AgentEventType::turn_start), 1U);
    EXPECT_EQ(recorder.count(AgentEventType::turn_end), 1U);
    EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1U);
}

TEST(Spend, D24_AnAnswerWithoutUsageFailsTheLimitClosed) {
    AssistantMessage silent = calling({echo_call("a")});
    silent.usage.reset();
    auto till = std::make_shared<Till>(std::vector<AssistantMessage>{silent});
    Agent agent(
        {.model = BoundModel(till, priced()), .tools = {echo_tool()}, .limits = spending(1.0)});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_EQ(till->calls, 1U);
    EXPECT_FALSE(result.cost);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

}  // namespace
}  // namespace cubepi
