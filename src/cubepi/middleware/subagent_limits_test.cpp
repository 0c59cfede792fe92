#include <cubepi/middleware/subagents_test_support.hpp>

#include <numeric>

#include <cubepi/agent/transcript.hpp>

// The limits of all sub-agents together hold when the run of their parent is suspended, and another process continues it (D134).

namespace cubepi {
namespace {

using namespace subagent_test;

struct SubagentLimitsOfRun : ::testing::Test {
    Family family;
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    std::vector<double> costs;  ///< of the attempts of sub-agents

    /// Has the parent delegate `count` times to sub-agents that ask once each.
    void delegate(std::size_t count) {
        std::vector<FauxStep> parent(count, delegating());
        parent.emplace_back("ok");
        family.parent.set_responses(std::move(parent));
        std::vector<FauxStep> child;
        for (std::size_t i = 0; i < count; ++i) {
            child.emplace_back(removing("/" + std::to_string(i)));
            child.emplace_back("done");
        }
        family.child.set_responses(std::move(child));
    }
    void set_prices(double max_spend) {
        Model model = family.child.model().spec();
        model.cost.emplace();
        model.cost->input = 100.0;
        model.cost->output = 0.0;
        model.cost->cache_read = 100.0;
        model.cost->cache_write = 100.0;
        family.subagents.default_model =
            BoundModel(family.child.model().provider(), std::move(model));
        family.subagents.limits.max_spend = max_spend;
        family.subagents.on_event = [this](const AgentEvent& event) {
            if (const auto* ended = event.get_if<AgentEndEvent>())
                costs.push_back(ended->cost.value());
            if (const auto* left = event.get_if<AgentSuspendedEvent>())
                costs.push_back(left->cost.value());
        };
    }
    double cost() const { return std::accumulate(costs.begin(), costs.end(), 0.0); }
    /// Answers each question in another process.
    RunResult run_in_processes() {
        RunResult result = Process(store, family, true).suspended();
        while (result.outcome == RunOutcome::suspended)
            result = Process(store, family, true).respond(approve());
        return result;
    }
};

TEST_F(SubagentLimitsOfRun, D134_MaxTotal_HoldsAcrossProcesses) {
    family.subagents.limits.max_total = 2;
    delegate(3);
    const RunResult result = run_in_processes();
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(family.removed, (std::vector<std::string>{"/0", "/1"}));
    EXPECT_EQ(result_text(result, 0), "done") << "the one that asked is not counted twice";
    EXPECT_NE(result_text(result, 1).find("max_total"), std::string::npos)
        << result_text(result, 1);
}

TEST_F(SubagentLimitsOfRun, D134_MaxTotal_HoldsInOneProcess) {
    family.subagents.limits.max_total = 2;
    delegate(3);
    Process process(store, family, true);
    RunResult result = process.suspended();
    while (result.outcome == RunOutcome::suspended) result = process.respond(approve());
    EXPECT_EQ(family.removed, (std::vector<std::string>{"/0", "/1"}));
    EXPECT_EQ(result_text(result, 0), "done");
    EXPECT_NE(result_text(result, 1).find("max_total"), std::string::npos)
        << result_text(result, 1);
}

TEST_F(SubagentLimitsOfRun, D134_MaxTotal_HoldsAcrossAlternatingProcesses) {
    family.subagents.limits.max_total = 3;
    delegate(5);
    Process first(store, family, true);
    Process second(store, family, true);
    RunResult result = first.suspended();
    for (bool by_first = false; result.outcome == RunOutcome::suspended; by_first = !by_first)
        result = (by_first ? first : second).respond(approve());
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(family.removed, (std::vector<std::string>{"/0", "/1", "/2"}));
}

TEST_F(SubagentLimitsOfRun, D134_MaxSpend_HoldsAcrossProcesses) {
    set_prices(0.0);
    delegate(1);
    (void)run_in_processes();
    const double one = cost();
    ASSERT_GT(one, 0.0);
    family.removed.clear();
    costs.clear();
    store = std::make_shared<MemoryCheckpointer>();
    const double limit = 4 * one;
    set_prices(limit);
    delegate(12);
    const RunResult result = run_in_processes();
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_LE(cost(), limit);
    EXPECT_GT(cost(), limit / 4);
    EXPECT_GE(family.removed.size(), 1u);
    EXPECT_LE(family.removed.size(), 4u);
}

TEST_F(SubagentLimitsOfRun, D134_NextRun_CountsForItselfInAnotherProcess) {
    family.subagents.limits.max_total = 1;
    delegate(1);
    EXPECT_EQ(result_text(run_in_processes()), "done");
    delegate(1);
    EXPECT_EQ(result_text(run_in_processes()), "done");
}

/// One sub-agent asks, and another one works meanwhile.
TEST_F(SubagentLimitsOfRun, D166_CostDuringQuestion_CountsInResultAndLimit) {
    set_prices(0.0);
    Model model = family.parent.model().spec();
    model.cost.emplace();
    model.cost->input = 1.0;
    model.cost->output = 0.0;
    model.cost->cache_read = 1.0;
    model.cost->cache_write = 1.0;
    family.options.model = BoundModel(family.parent.model().provider(), std::move(model));
    ContentList<AssistantContent> calls;
    for (const char* id : {"c1", "c2"})
        calls.emplace_back(faux_tool_call("subagent", {{"prompt", "do it"}}, id));
    family.parent.set_responses(
        {faux_assistant_message(std::move(calls), stop_reason::tool_use), "ok"});
    family.child.set_responses({removing("/a"), "done", "never sent"});
    const RunResult waiting = Process(store, family, true).suspended();
    ASSERT_EQ(waiting.outcome, RunOutcome::suspended);
    ASSERT_EQ(family.child.call_count(), 2u);
    ASSERT_GT(cost(), 0.0);
    EXPECT_GT(waiting.cost.value(), cost()) << "with the call of the parent";
    // Enough for the parent, if its sub-agents did not count.
    family.options.limits.max_spend = cost();
    const RunResult end = Process(store, family, true).respond(approve());
    EXPECT_EQ(end.outcome, RunOutcome::limited);
    EXPECT_EQ(family.parent.call_count(), 1u);
    EXPECT_EQ(family.child.call_count(), 2u) << "none continues, and none is repeated";
    EXPECT_EQ(family.removed, std::vector<std::string>{"/a"}) << "it was approved";
}

TEST_F(SubagentLimitsOfRun, D134_DamagedNote_DoesNotStopTheRun) {
    const std::vector<Json> damaged{Json(),     Json("x"),
                                    Json("[]"), Json(R"({"ended":-1,"cost":"x"})"),
                                    Json(12),   Json(R"({"ended":2000000000000})")};
    for (const Json& note : damaged) {
        store = std::make_shared<MemoryCheckpointer>();
        delegate(2);
        ASSERT_EQ(Process(store, family, true).suspended().outcome, RunOutcome::suspended);
        RunResult result = Process(store, family, true).respond(approve());
        ASSERT_EQ(result.outcome, RunOutcome::suspended);
        HitlAnswer answer;
        answer.run_id = result.run_id;
        answer.question_id = result.run_id + ".subagents";
        answer.answer = note;
        ASSERT_TRUE(run(store->load_hitl_answer("t", answer.run_id, answer.question_id)));
        run(store->save_hitl_answer("t", std::move(answer)));
        result = Process(store, family, true).respond(approve());
        EXPECT_EQ(result.outcome, RunOutcome::completed);
        EXPECT_TRUE(is_legal_transcript(run(store->load("t")).value().messages));
        EXPECT_FALSE(
            run(store->load_hitl_answer("t", result.run_id, result.run_id + ".subagents")));
    }
}

}  // namespace
}  // namespace cubepi
