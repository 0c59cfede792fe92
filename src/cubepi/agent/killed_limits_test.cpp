// The limits of a run hold when its process was killed and another one continues it (D222).

#include <cubepi/agent/agent_test_support.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/store_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

/// A store whose process can be killed: nothing is stored from then on.
class KilledStore final : public ForwardingStore {
public:
    /// Dies after the n-th result of a tool from now on was stored. Zero: never.
    void kill_after(std::size_t results) {
        left_ = results;
        is_dead_ = false;
    }
    bool is_dead() const noexcept { return is_dead_; }
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override {
        require_alive();
        const bool is_result = !messages.empty() && messages.back().tool_result() != nullptr;
        Task<std::int64_t> appending =
            memory.append(std::move(thread_id), std::move(messages), std::move(options));
        const std::int64_t position = co_await std::move(appending);
        if (is_result && left_ > 0) is_dead_ = --left_ == 0;
        co_return position;
    }
    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        require_alive();
        return memory.save_extra(std::move(thread_id), std::move(extra));
    }
    Task<void> release_claim(std::string thread_id, std::string run_id,
                             std::string owner_id) override {
        require_alive();
        return memory.release_claim(std::move(thread_id), std::move(run_id), std::move(owner_id));
    }

private:
    void require_alive() const {
        if (is_dead_) throw CheckpointerError(ErrorCode::io, "killed");
    }
    std::size_t left_ = 0;
    bool is_dead_ = false;
};

struct KilledRun : ::testing::Test {
    FauxProvider faux;
    std::shared_ptr<KilledStore> store = std::make_shared<KilledStore>();
    AgentLimits limits;
    Model model;
    std::size_t works = 0;          ///< calls of the tool
    std::string result = "worked";  ///< followed by the number of the call if `is_new`
    bool is_new = true;

    KilledRun() {
        model.id = "free";
        ModelCost& cost = model.cost.emplace();
        cost.input = cost.output = cost.cache_read = cost.cache_write = 0.0;
        std::vector<FauxStep> steps;
        for (int i = 0; i < 40; ++i)
            steps.emplace_back(calling({echo_call("a", "c" + std::to_string(i))}));
        faux.set_responses(std::move(steps));
    }
    /// A tool whose call costs 0.4 USD.
    AgentTool work() {
        return tool<EchoArgs>("echo", "Works.", [this](EchoArgs, ToolContext& context) {
            context.charge(Usage(), 0.4);
            ++works;
            return is_new ? result + std::to_string(works) : result;
        });
    }
    AgentOptions options() {
        AgentOptions made;
        made.model = faux.model(model);
        made.tools = {work()};
        made.limits = limits;
        made.checkpointer = store;
        made.thread_id = "t";
        return made;
    }
    /// Runs a new process, which is killed after so many results; 0: it is not killed. Returns nothing if it was.
    std::optional<RunResult> run_process(std::size_t killed_after, std::string input = "u") {
        store->kill_after(killed_after);
        Agent agent(options());
        try {
            Message prompt = user_message("go", std::move(input));
            return run(agent.prompt(std::move(prompt)));
        } catch (const CheckpointerError&) {
            EXPECT_TRUE(store->is_dead());
            return std::nullopt;
        }
    }
    /// Returns the number of answers in the store, which has not that to the last request of a killed process.
    std::size_t answers() {
        const MessageList history = stored(*store, "t");
        std::size_t count = 0;
        for (const Message& message : history) {
            const AssistantMessage* const answer = message.assistant();
            if (answer && answer->has_tool_calls()) ++count;
        }
        return count;
    }
    std::string limit_of(const std::optional<RunResult>& ended) {
        if (!ended || ended->outcome != RunOutcome::limited) return "none";
        const auto* const reached = dynamic_cast<const LimitReachedError*>(&ended->error());
        return reached ? std::string(reached->limit()) : "another error";
    }
};

TEST_F(KilledRun, D222_MaxTurns_HoldsAfterKills) {
    limits.max_turns = 4;
    EXPECT_FALSE(run_process(1));
    EXPECT_FALSE(run_process(1));
    EXPECT_EQ(limit_of(run_process(0)), "max_turns");
    EXPECT_EQ(answers(), 4u);
    EXPECT_EQ(limit_of(run_process(0)), "max_turns") << "the same input has no more";
    EXPECT_EQ(answers(), 4u);
    EXPECT_TRUE(is_legal_transcript(stored(*store, "t")));
    EXPECT_EQ(limit_of(run_process(0, "v")), "max_turns");
    EXPECT_EQ(answers(), 8u) << "the next prompt has its own";
}

TEST_F(KilledRun, D222_ChargesOfTools_CountAfterKills) {
    limits.max_spend = 1.0;
    EXPECT_FALSE(run_process(1));
    EXPECT_FALSE(run_process(1));
    const std::optional<RunResult> ended = run_process(0);
    EXPECT_EQ(limit_of(ended), "max_spend");
    EXPECT_EQ(works, 3u);
    EXPECT_DOUBLE_EQ(ended->cost.value(), 0.4) << "a result is about its own attempt";
}

TEST_F(KilledRun, D222_Answers_CountWithTheirPriceAfterKills) {
    limits.max_spend = 1'000'000.0;
    model.cost->output = 1'000'000.0;
    EXPECT_FALSE(run_process(1));
    double spent = 0;
    const MessageList history = stored(*store, "t");
    for (const Message& message : history) {
        const Json* const cost = message.metadata().find("cubepi.cost");
        EXPECT_TRUE(cost || !message.assistant()) << message.text();
        if (cost) spent += cost->to_number<double>();
    }
    EXPECT_GT(spent, 1.0);
    // Another model continues, whose price says nothing about the answer.
    model.id = "other";
    model.cost->output = 0.0;
    limits.max_spend = spent;
    const std::size_t calls = faux.call_count();
    EXPECT_EQ(limit_of(run_process(0)), "max_spend");
    EXPECT_EQ(faux.call_count(), calls);
}

TEST_F(KilledRun, D222_RepeatedCalls_CountAfterKills) {
    limits.max_repeated_calls = 6;
    is_new = false;
    // The note for the model is not a part of the result that repeats.
    EXPECT_FALSE(run_process(4));
    EXPECT_EQ(limit_of(run_process(0)), "max_repeated_calls");
    EXPECT_EQ(works, 6u);
}

TEST_F(KilledRun, D222_Resume_CountsUntilTheRunHasEnded) {
    limits.max_turns = 3;
    EXPECT_FALSE(run_process(2));
    store->kill_after(0);
    Agent agent(options());
    EXPECT_EQ(limit_of(run(agent.resume())), "max_turns");
    EXPECT_EQ(answers(), 3u);
    // The caller continues a run that has reached its limit.
    EXPECT_EQ(limit_of(run(agent.resume())), "max_turns");
    EXPECT_EQ(answers(), 6u);
}

/// The call that the killed process has left is repeated, in the turn of its answer.
TEST_F(KilledRun, D222_RepeatedCall_CountsItsTurnOnce) {
    limits.max_turns = 3;
    AssistantMessage left = calling({echo_call("a")});
    preload(*store, "t", MessageList{user_message("go", "u"), Message(std::move(left))});
    AgentOptions made = options();
    AgentTool idempotent = work();
    idempotent.replay_policy = ReplayPolicy::idempotent;
    made.tools = {std::move(idempotent)};
    Agent agent(std::move(made));
    Message prompt = user_message("go", "u");
    EXPECT_EQ(limit_of(run(agent.prompt(std::move(prompt)))), "max_turns");
    EXPECT_EQ(faux.call_count(), 2u);
    EXPECT_EQ(works, 3u);
}

TEST_F(KilledRun, D222_DamagedCost_CountsAsUnknown) {
    const std::vector<Json> costs{Json(), Json("x"), Json(-1), Json(JsonArray())};
    for (const Json& damaged : costs) {
        store = std::make_shared<KilledStore>();
        AssistantMessage answer = calling({echo_call("a")});
        answer.metadata["cubepi.cost"] = damaged;
        ToolResultMessage done;
        done.tool_call_id = "c1";
        done.tool_name = "echo";
        preload(*store, "t",
                MessageList{user_message("go", "u"), Message(std::move(answer)), Message(done)});
        limits.max_spend = 0;
        limits.max_turns = 2;
        EXPECT_EQ(limit_of(run_process(0)), "max_turns");
        limits.max_spend = 5.0;
        EXPECT_EQ(limit_of(run_process(0, "u")), "max_turns") << "which is checked first";
        limits.max_turns = 9;
        EXPECT_EQ(limit_of(run_process(0)), "max_spend");
    }
}

}  // namespace
}  // namespace cubepi
