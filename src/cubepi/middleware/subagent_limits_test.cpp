#include <cubepi/middleware/subagents_test_support.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

#include <cubepi/agent/transcript.hpp>

// The limits of all sub-agents together hold when another process continues the run of their parent, which was suspended (D134) or whose process was killed (D204).

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

/// Details are data of a store, which may be damaged.
TEST_F(SubagentLimitsOfRun, D204_DamagedDetails_DoNotStopTheRun) {
    const std::vector<Json> damaged{
        Json(),
        Json("x"),
        Json(JsonArray()),
        boost::json::parse(R"({"key":"","cost":1})"),
        boost::json::parse(R"({"key":7,"cost":"x"})"),
        boost::json::parse(R"({"key":"k","cost":-1,"nested":-9000000000000000000})")};
    for (const Json& counted : damaged) {
        store = std::make_shared<MemoryCheckpointer>();
        ToolCall call = faux_tool_call("subagent", {{"prompt", "do it"}}, "c1");
        ToolResultMessage result;
        result.tool_call_id = "c1";
        result.tool_name = SharedString("subagent");
        result.content.emplace_back(TextContent{"done"});
        result.details = JsonObject{{"subagent_call", counted}};
        run(store->append(
            "t",
            MessageList{user_message("go", "u"),
                        Message(faux_assistant_message(AssistantContent(std::move(call)),
                                                       stop_reason::tool_use)),
                        Message(std::move(result))},
            AppendOptions()));
        delegate(1);
        Process process(store, family, true);
        RunResult ended = process.suspended("u");
        ASSERT_EQ(ended.outcome, RunOutcome::suspended);
        ended = process.respond(approve());
        EXPECT_EQ(ended.outcome, RunOutcome::completed);
        EXPECT_TRUE(is_legal_transcript(run(store->load("t")).value().messages));
    }
}

/// A store whose process is killed after a write that satisfies a condition: nothing is stored from then on.
class KilledStore final : public Checkpointer {
public:
    using IsLast = std::function<bool(const Message&)>;
    KilledStore(std::shared_ptr<Checkpointer> inner, IsLast is_last)
        : inner_(std::move(inner)), is_last_(std::move(is_last)) {}
    Task<std::optional<CheckpointData>> load(std::string thread_id) override {
        return inner_->load(std::move(thread_id));
    }
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override {
        require_alive();
        const bool is_last = std::any_of(messages.begin(), messages.end(), is_last_);
        Task<std::int64_t> appending =
            inner_->append(std::move(thread_id), std::move(messages), std::move(options));
        const std::int64_t position = co_await std::move(appending);
        is_killed_ = is_last;
        co_return position;
    }
    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        require_alive();
        co_await inner_->save_extra(std::move(thread_id), std::move(extra));
    }

private:
    void require_alive() const {
        if (is_killed_) throw CheckpointerError(ErrorCode::io, "killed");
    }
    std::shared_ptr<Checkpointer> inner_;
    IsLast is_last_;
    bool is_killed_ = false;
};

/// Sub-agents without questions, of a parent without a channel.
struct KilledRuns : SubagentLimitsOfRun {
    std::size_t delegated = 0;  ///< calls of the parent
    std::size_t worked = 0;     ///< calls of sub-agents' models
    std::size_t most = 8;  ///< so many times the parent delegates; an answer after a kill is lost

    KilledRuns() {
        family.parent.set_responses(
            std::vector<FauxStep>(60, FauxStep([this](const ModelRequest&) {
                                      return delegated < most ? (++delegated, delegating())
                                                              : faux_assistant_message("ok");
                                  })));
        family.child.set_responses(std::vector<FauxStep>(60, FauxStep([this](const ModelRequest&) {
                                                             ++worked;
                                                             return faux_assistant_message("done");
                                                         })));
    }
    /// Runs the prompt, or what is left of it, in a process that is killed when the n-th result is stored; 0: never.
    void run_process(std::size_t killed_at) {
        std::size_t results = 0;
        auto killed = std::make_shared<KilledStore>(store, [&](const Message& message) {
            return message.tool_result() && ++results == killed_at;
        });
        SubagentOptions subagents = family.subagents;
        subagents.checkpointer = store;
        AgentOptions options = family.options;
        options.checkpointer = killed;
        options.thread_id = "t";
        options.middleware.emplace_back(SubagentMiddleware(std::move(subagents)));
        Agent agent(std::move(options));
        try {
            (void)run(agent.prompt(user_message("go").with_id("u")));
        } catch (const CheckpointerError&) {
            return;
        }
        EXPECT_EQ(killed_at, 0u) << "it was not killed";
    }
    std::size_t results_with(std::string_view text) {
        std::size_t count = 0;
        const std::optional<CheckpointData> stored = run(store->load("t"));
        for (const Message& message : stored->messages) {
            if (message.tool_result() && message.text().find(text) != std::string::npos) ++count;
        }
        return count;
    }
};

TEST_F(KilledRuns, D204_MaxTotal_HoldsAfterKills) {
    family.subagents.limits.max_total = 3;
    run_process(1);
    run_process(1);
    run_process(0);
    EXPECT_EQ(worked, 3u);
    EXPECT_GT(results_with("max_total"), 0u);
    // The next prompt has its own.
    most += 4;
    AgentOptions options = family.options;
    options.checkpointer = store;
    options.thread_id = "t";
    options.middleware.emplace_back(SubagentMiddleware(family.subagents));
    EXPECT_TRUE(run(Agent(std::move(options)).prompt("again")));
    EXPECT_EQ(worked, 6u);
}

TEST_F(KilledRuns, D204_MaxSpend_HoldsAfterKills) {
    set_prices(0.0);
    most = 1;
    run_process(0);
    const double one = cost();
    ASSERT_GT(one, 0.0);
    store = std::make_shared<MemoryCheckpointer>();
    costs.clear();
    delegated = 0;
    most = 12;
    const double limit = 3.5 * one;
    set_prices(limit);
    for (int i = 0; i < 3; ++i) run_process(1);
    run_process(0);
    EXPECT_LE(cost(), limit);
    EXPECT_GT(cost(), one);
    EXPECT_GT(results_with("max_spend"), 0u);
}

/// A task in the background counts from its start, and in full if it was interrupted.
TEST_F(KilledRuns, D204_TaskInTheBackground_CountsAfterKills) {
    family.subagents.limits.max_background = 4;
    family.subagents.limits.max_total = 2;
    AsyncEvent never;
    family.child.set_responses(
        std::vector<FauxStep>(9, FauxStep([&](const ModelRequest&) -> Task<AssistantMessage> {
                                  ++worked;
                                  co_await never.wait();
                                  co_return faux_assistant_message("done");
                              })));
    family.parent.set_responses(std::vector<FauxStep>(
        60, FauxStep([this](const ModelRequest&) {
            return delegated < most ? (++delegated, delegating({{"run_in_background", true}}))
                                    : faux_assistant_message("ok");
        })));
    run_process(1);
    run_process(1);
    run_process(0);
    EXPECT_EQ(results_with("Started task"), 2u);
    EXPECT_GT(results_with("max_total"), 0u);
    EXPECT_LE(worked, 2u);
    // Its cost is unknown.
    store = std::make_shared<MemoryCheckpointer>();
    delegated = 0;
    family.subagents.limits.max_total = 0;
    set_prices(1.0);
    run_process(1);
    run_process(0);
    EXPECT_EQ(results_with("Started task"), 1u);
    EXPECT_GT(results_with("max_spend"), 0u);
}

}  // namespace
}  // namespace cubepi
