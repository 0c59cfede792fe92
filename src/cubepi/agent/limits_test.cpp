// Limits of a run that depend on its calls: the budget of model calls (D120), repeated tool calls (D121).

#include <cubepi/agent/agent_test_support.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/run/spend_reservation.hpp>
#include <cubepi/provider/fallback.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

struct NoArgs {};

/// A dollar for each token of an answer.
Model priced(std::optional<std::int64_t> max_tokens) {
    Model model;
    model.id = "priced";
    model.max_tokens = max_tokens;
    ModelCost& cost = model.cost.emplace();
    cost.input = cost.cache_read = cost.cache_write = 0.0;
    cost.output = 1'000'000.0;
    return model;
}

/// A model whose answers have as many tokens as the request allows. Each waits until `together` calls are open.
class Spender final : public Provider {
public:
    explicit Spender(std::size_t together = 1) : together_(together) {}
    MessageStream stream(ModelRequest request) override {
        limits.push_back(request.model.max_tokens.value_or(0));
        on_call();
        if (limits.size() >= together_) all_.set();
        AssistantMessage answer = faux_assistant_message("done");
        answer.usage.emplace();
        answer.usage->output_tokens = limits.back();
        spent += static_cast<double>(limits.back());
        answer.model_id = request.model.id;
        return MessageStream(std::make_unique<Source>(std::move(answer), all_));
    }
    std::function<void()> on_call = [] {};
    std::vector<std::int64_t> limits;
    double spent = 0.0;

private:
    class Source final : public StreamSource {
    public:
        Source(AssistantMessage answer, AsyncEvent& all) : answer_(std::move(answer)), all_(all) {}
        std::optional<StreamEvent> ready() override { return std::nullopt; }
        Task<StreamEvent> next() override {
            co_await all_.wait();
            StreamEvent event;
            event.type = StreamEventType::done;
            event.partial = PartialMessage(Message(std::move(answer_)));
            co_return event;
        }

    private:
        AssistantMessage answer_;
        AsyncEvent& all_;
    };
    std::size_t together_;
    AsyncEvent all_;
};

AgentLimits spending(double usd) {
    AgentLimits limits;
    limits.max_spend = usd;
    return limits;
}

TEST(Budget, D120_AnswerThatDoesNotFit_GetsFewerTokens) {
    auto model = std::make_shared<Spender>();
    Agent agent({.model = BoundModel(model, priced(8000)), .limits = spending(3000.0)});
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::completed);
    EXPECT_EQ(model->limits, (std::vector<std::int64_t>{3000}));
    Agent roomy({.model = BoundModel(model, priced(2000)), .limits = spending(3000.0)});
    EXPECT_EQ(run(roomy.prompt("hi")).outcome, RunOutcome::completed);
    EXPECT_EQ(model->limits.back(), 2000);
}

TEST(Budget, D120_TooLittleForAnAnswer_IsNotCalled) {
    auto model = std::make_shared<Spender>();
    Agent agent({.model = BoundModel(model, priced(8000)), .limits = spending(1000.0)});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_NE(std::string(result.error().what()).find("max_spend"), std::string::npos);
    EXPECT_TRUE(model->limits.empty());
    EXPECT_EQ(result.cost, 0.0);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(Budget, D120_PromptThatIsTooLong_IsNotCalled) {
    auto model = std::make_shared<Spender>();
    Model dear = priced(1);
    dear.cost->input = 1'000'000.0;
    Agent agent({.model = BoundModel(model, dear), .limits = spending(100.0)});
    EXPECT_EQ(run(agent.prompt(std::string(400, 'w'))).outcome, RunOutcome::limited);
    EXPECT_TRUE(model->limits.empty());
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::limited) << "the history is the same";
    agent.reset();
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::completed);
}

/// An answer with a report of its endpoint.
Message reported_answer(std::int64_t prompt_tokens) {
    AssistantMessage answer = faux_assistant_message("earlier");
    answer.usage.emplace();
    answer.usage->input_tokens = prompt_tokens;
    answer.usage->output_tokens = 1;
    return Message(std::move(answer));
}

/// Prompts after this history, with a dollar for each token of the prompt.
RunOutcome outcome_after(MessageList history, double usd, std::vector<AgentTool> tools = {}) {
    Model dear = priced(1);
    dear.cost->input = 1'000'000.0;
    Agent agent({.model = BoundModel(std::make_shared<Spender>(), dear),
                 .tools = std::move(tools),
                 .limits = spending(usd)});
    agent.set_messages(std::move(history));
    return run(agent.prompt("hi")).outcome;
}

TEST(Budget, D120_HistoryRestoredAfterReport_IsReserved) {
    MessageList history;
    history.push_back(user_message(std::string(4000, 'w')));
    history.push_back(reported_answer(10));
    EXPECT_EQ(outcome_after(history, 1000.0), RunOutcome::limited) << "2,000 for the first message";
    EXPECT_EQ(outcome_after(history, 3000.0), RunOutcome::completed);
}

TEST(Budget, D120_ToolAddedAfterReport_IsReserved) {
    MessageList history;
    history.push_back(user_message("hi"));
    history.push_back(reported_answer(10));
    AgentTool added = echo_tool();
    added.description = std::string(4000, 'w');
    EXPECT_EQ(outcome_after(history, 1000.0), RunOutcome::completed);
    EXPECT_EQ(outcome_after(history, 1000.0, {added}), RunOutcome::limited);
}

TEST(Budget, D120_MoreReportedThanEstimated_ScalesWhatFollows) {
    MessageList history;
    history.push_back(user_message(std::string(200, 'w')));
    history.push_back(reported_answer(1200));
    EXPECT_EQ(outcome_after(history, 1900.0), RunOutcome::completed);
    history.push_back(user_message(std::string(200, 'w')));
    EXPECT_EQ(outcome_after(history, 1900.0), RunOutcome::limited);
    history.push_back(reported_answer(std::numeric_limits<std::int64_t>::max()));
    EXPECT_EQ(outcome_after(history, 1900.0), RunOutcome::limited);
}

/// A tool that asks a sub-agent of the calling run.
AgentTool asking(std::shared_ptr<Provider> model, std::vector<RunOutcome>& outcomes) {
    return tool<NoArgs>(
        "ask", "Asks.", [model, &outcomes](NoArgs, ToolContext& context) -> Task<std::string> {
            Agent child({.model = BoundModel(model, priced(8000))});
            PromptOptions options = PromptOptions().parent(context);
            const RunResult result = co_await child.prompt("go", std::move(options));
            outcomes.push_back(result.outcome);
            co_return std::string("asked");
        });
}

ToolCall ask(const char* id) { return faux_tool_call("ask", JsonObject(), id); }

TEST(Budget, D120_ParallelSubagents_StayWithinTheRuns) {
    FauxProvider faux;
    faux.set_responses({calling({ask("a"), ask("b"), ask("c")}), "done"});
    auto model = std::make_shared<Spender>(3);
    std::vector<RunOutcome> outcomes;
    Model free = priced(100);
    free.cost->output = 0.0;
    Agent agent({.model = faux.model(free),
                 .tools = {asking(model, outcomes)},
                 .limits = spending(16'000.0)});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(model->limits, (std::vector<std::int64_t>{8000, 4000, 2000}));
    EXPECT_EQ(result.cost, model->spent);
    EXPECT_EQ(outcomes, std::vector<RunOutcome>(3, RunOutcome::completed));
}

TEST(Budget, D120_SubagentOfUnknownPrice_IsNotCalled) {
    FauxProvider faux;
    faux.set_responses({calling({ask("a")}), "done"});
    FauxProvider mystery;
    mystery.set_responses({"never sent"});
    RunOutcome outcome = RunOutcome::completed;
    AgentTool asks =
        tool<NoArgs>("ask", "Asks.", [&](NoArgs, ToolContext& context) -> Task<std::string> {
            Agent child({.model = mystery.model("unknown")});
            PromptOptions options = PromptOptions().parent(context);
            const RunResult result = co_await child.prompt("go", std::move(options));
            outcome = result.outcome;
            co_return std::string("asked");
        });
    Model free = priced(100);
    free.cost->output = 0.0;
    Agent agent({.model = faux.model(free), .tools = {asks}, .limits = spending(10.0)});
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(outcome, RunOutcome::limited);
    EXPECT_EQ(mystery.call_count(), 0u);
}

TEST(Budget, D120_RunsOfSeveralAgents_ShareAnAccount) {
    auto account = std::make_shared<RunAccount>();
    account->set_max_spend(20'000.0);
    auto model = std::make_shared<Spender>();
    RunOutcome last = RunOutcome::completed;
    std::size_t runs = 0;
    while (last == RunOutcome::completed && runs < 20) {
        Agent agent({.model = BoundModel(model, priced(8000))});
        last = run(agent.prompt("hi", PromptOptions().budget(account))).outcome;
        ++runs;
    }
    EXPECT_EQ(last, RunOutcome::limited);
    EXPECT_LE(model->spent, 20'000.0);
    EXPECT_GE(model->spent, 17'000.0);
}

/// A call of the run that cost `usd`.
void spend(RunAccount& account, double usd) {
    EXPECT_EQ(account.reserve(usd, usd), usd);
    account.count(Usage(), usd);
    account.end_reservation(usd, usd);
}

/// Returns what is left of the account's own limit.
double left_of(RunAccount& account) {
    const std::optional<double> left = account.reserve(0.0, 1e9);
    if (left) account.end_reservation(*left, 0.0);
    return left.value_or(-1.0);
}

TEST(Budget, D120_SubagentWithHookCalls_IsChargedOnce) {
    auto parent = std::make_shared<RunAccount>();
    parent->set_max_spend(20.0);
    RunAccount first(RunInfo(), parent);
    RunAccount second(RunInfo(), parent);
    spend(first, 2.0);
    first.charge(Usage(), 3.0);
    spend(second, 1.0);
    EXPECT_EQ(left_of(*parent), 14.0);
    parent->charge(Usage(), 4.0);
    EXPECT_EQ(left_of(*parent), 10.0) << "a call of a hook is none of a sub-agent";
    for (int i = 0; i < 2; ++i) first.charge_to_budget();
    EXPECT_EQ(parent->spending().cost, 9.0);
    EXPECT_EQ(left_of(*parent), 10.0);
}

TEST(Budget, D141_CompactedHistory_IsNotReserved) {
    ModelRequest request;
    request.model.provider_id = "p";
    request.messages.push_back(user_message(std::string(2'000'000, 'w')));
    AssistantMessage answer;
    answer.provider_id = "p";
    answer.usage.emplace();
    answer.usage->input_tokens = 900'000;
    JsonObject item{{"type", "compaction"}};
    answer.extra["server_items"] = JsonArray{JsonObject{{"at", 0}, {"item", std::move(item)}}};
    request.messages.push_back(Message(answer));
    EXPECT_LT(detail::most_prompt_tokens(request), 100'000);
    EXPECT_GT(detail::most_prompt_tokens(request, false), 900'000) << "another model may answer";
    request.model.provider_id = "other";
    EXPECT_GT(detail::most_prompt_tokens(request), 900'000);
}

TEST(Budget, D120_UnknownCost_StaysInTheBudgetsAbove) {
    auto host = std::make_shared<RunAccount>();
    host->set_max_spend(10.0);
    auto parent = std::make_shared<RunAccount>(RunInfo(), host);
    RunAccount child(RunInfo(), parent);
    spend(child, 4.0);
    // Without usage: all that was reserved counts.
    EXPECT_EQ(child.reserve(1.0, 1.0), 1.0);
    child.count(Usage(), std::nullopt);
    child.end_reservation(1.0, 1.0);
    EXPECT_EQ(left_of(*host), 5.0);
    child.charge_to_budget();
    EXPECT_FALSE(parent->spending().cost);
    EXPECT_EQ(left_of(*host), 5.0);
    RunAccount receiver(RunInfo(), host);
    parent->charge_to(receiver);
    EXPECT_EQ(left_of(*host), 5.0);
}

TEST(Budget, D120_TaskOfAnEarlierRun_ChargesReceiver) {
    auto host = std::make_shared<RunAccount>();
    host->set_max_spend(20.0);
    auto starter = std::make_shared<RunAccount>(RunInfo(), host);
    auto task = std::make_shared<RunAccount>(RunInfo(), starter);
    RunAccount receiver(RunInfo(), host);
    RunAccount run(RunInfo(), task);
    spend(run, 2.0);
    run.charge_to_budget();
    starter->charge_to_budget();
    EXPECT_EQ(host->spending().cost, 0.0);
    EXPECT_EQ(left_of(*host), 18.0);
    task->charge_to(receiver);
    EXPECT_EQ(receiver.spending().cost, 2.0);
    EXPECT_EQ(starter->spending().cost, 0.0);
    EXPECT_EQ(left_of(*host), 18.0);
    receiver.charge_to_budget();
    EXPECT_EQ(host->spending().cost, 2.0);
    EXPECT_EQ(left_of(*host), 18.0);
}

TEST(Budget, D120_AbortedCallWithoutUsage_CountsInFull) {
    auto account = std::make_shared<RunAccount>();
    account->set_max_spend(5000.0);
    auto model = std::make_shared<Spender>(2);
    Agent agent({.model = BoundModel(model, priced(2000))});
    model->on_call = [&agent] { agent.abort(); };
    EXPECT_EQ(run(agent.prompt("hi", PromptOptions().budget(account))).outcome,
              RunOutcome::aborted);
    EXPECT_FALSE(account->reserve(3001.0, 5000.0)) << "it may have been billed";
    EXPECT_EQ(account->reserve(3000.0, 5000.0), 3000.0);
}

/// A run that asks two sub-agents, of which the first is aborted, in its call or before it.
struct AbortedFirst {
    FauxProvider faux;
    std::shared_ptr<Spender> model = std::make_shared<Spender>();
    std::vector<RunOutcome> outcomes;

    RunResult prompt(bool in_call) {
        faux.set_responses({calling({ask("a")}), calling({ask("b")}), "done"});
        Model free = priced(100);
        free.cost->output = 0.0;
        AgentTool asks = tool<NoArgs>("ask", "Asks.", [=, this](NoArgs, ToolContext& context) {
            return asked(in_call, &context);
        });
        Agent agent({.model = faux.model(free), .tools = {asks}, .limits = spending(9000.0)});
        return run(agent.prompt("hi"));
    }
    Task<std::string> asked(bool in_call, ToolContext* context) {
        Agent child({.model = BoundModel(model, priced(2000))});
        const bool aborts = outcomes.empty();
        model->on_call = [&child, aborts] {
            if (aborts) child.abort();
        };
        (void)child.subscribe([&child, aborts, in_call](const AgentEvent& event) {
            if (aborts && !in_call && event.get_if<TurnStartEvent>()) child.abort();
        });
        PromptOptions options = PromptOptions().parent(*context);
        const RunResult result = co_await child.prompt("go", std::move(options));
        outcomes.push_back(result.outcome);
        co_return std::string("asked");
    }
};

TEST(Budget, D120_AbortedSubagents_DoNotEndTheRun) {
    for (const bool in_call : {false, true}) {
        AbortedFirst run;
        const RunResult result = run.prompt(in_call);
        EXPECT_EQ(result.outcome, RunOutcome::completed) << in_call;
        EXPECT_EQ(run.outcomes,
                  (std::vector<RunOutcome>{RunOutcome::aborted, RunOutcome::completed}));
        EXPECT_EQ(result.cost, in_call ? 4000.0 : 2000.0) << "a call may be billed";
    }
}

// A chain of models, of which the second costs a dollar for each token.

struct CheapFirst {
    FauxProvider cheap;
    std::shared_ptr<Spender> dear = std::make_shared<Spender>();

    FallbackBoundModel model(Model second) const {
        Model first = priced(8000);
        first.cost->output = 0.0;
        return FallbackBoundModel({cheap.model(first), BoundModel(dear, std::move(second))});
    }
};

TEST(Budget, D120_DearerModelOfAChain_IsReserved) {
    CheapFirst chain;
    ErrorInfo down;
    down.code = ErrorCode::unavailable;
    chain.cheap.set_responses({faux_failure("down", down)});
    Agent agent({.model = chain.model(priced(16'000)), .limits = spending(2000.0)});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(chain.dear->limits, std::vector<std::int64_t>{2000});
    Agent poor({.model = chain.model(priced(16'000)), .limits = spending(1000.0)});
    EXPECT_EQ(run(poor.prompt("hi")).outcome, RunOutcome::limited);
    EXPECT_EQ(chain.dear->limits.size(), 1u);
}

TEST(Budget, D120_UnknownPriceInAChain_IsNotCalled) {
    CheapFirst chain;
    chain.cheap.set_responses({"never sent"});
    Model mystery;
    mystery.id = "mystery";
    Agent agent({.model = chain.model(mystery), .limits = spending(10.0)});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_EQ(chain.cheap.call_count(), 0u);
}

TEST(Budget, D120_FailedCall_ReleasesItsReservation) {
    auto account = std::make_shared<RunAccount>();
    account->set_max_spend(5000.0);
    FauxProvider faux;
    faux.set_responses({faux_failure("down")});
    Agent agent({.model = faux.model(priced(2000))});
    EXPECT_EQ(run(agent.prompt("hi", PromptOptions().budget(account))).outcome, RunOutcome::failed);
    EXPECT_EQ(account->reserve(5000.0, 5000.0), 5000.0);
}

// Repeated calls.

/// A model that makes these calls in turns, one in each answer.
FauxProvider calling_in_turns(const std::vector<std::string>& values, std::size_t answers) {
    FauxProvider faux;
    std::vector<FauxStep> steps;
    for (std::size_t i = 0; i < answers; ++i)
        steps.emplace_back(
            calling({echo_call(values[i % values.size()], "c" + std::to_string(i))}));
    steps.emplace_back("done");
    faux.set_responses(std::move(steps));
    return faux;
}

struct Repeated {
    explicit Repeated(FauxProvider& faux, AgentTool tool = echo_tool(), std::size_t limit = 6)
        : agent({.model = faux.model(), .tools = {std::move(tool)}, .limits = limited(limit)}),
          recorder(agent) {}
    static AgentLimits limited(std::size_t limit) {
        AgentLimits limits;
        limits.max_repeated_calls = limit;
        return limits;
    }
    std::size_t notes() const {
        const std::vector<std::string> all = texts(agent.state().messages);
        return static_cast<std::size_t>(
            std::count_if(all.begin(), all.end(), [](const std::string& text) {
                return text.find("with the same arguments and the same result") !=
                       std::string::npos;
            }));
    }
    Agent agent;
    Recorder recorder;
};

TEST(Repeats, D121_IdenticalCalls_EndTheRun) {
    FauxProvider faux = calling_in_turns({"a"}, 250);
    Repeated it(faux);
    const RunResult result = run(it.agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    const auto* reached = dynamic_cast<const LimitReachedError*>(&result.error());
    ASSERT_TRUE(reached);
    EXPECT_EQ(reached->limit(), "max_repeated_calls");
    EXPECT_NE(std::string(reached->what()).find("'echo'"), std::string::npos);
    EXPECT_EQ(faux.call_count(), 6u);
    EXPECT_EQ(it.notes(), 1u);
    EXPECT_NE(it.agent.state().messages[6].text().find("This call was made 3 times"),
              std::string::npos);
    EXPECT_TRUE(is_legal_transcript(it.agent.state().messages));
    EXPECT_TRUE(it.recorder.notices().empty()) << "the prefix of the requests stays";
    EXPECT_EQ(run(it.agent.prompt("on")).outcome, RunOutcome::limited) << "counted per prompt";
    EXPECT_EQ(faux.call_count(), 12u);
}

TEST(Repeats, D121_CallsInTurns_Count) {
    for (const std::vector<std::string>& values :
         {std::vector<std::string>{"a", "b"}, std::vector<std::string>{"a", "b", "c", "d", "e"}}) {
        FauxProvider faux = calling_in_turns(values, 250);
        Repeated it(faux);
        EXPECT_EQ(run(it.agent.prompt("hi")).outcome, RunOutcome::limited);
        EXPECT_EQ(faux.call_count(), 5 * values.size() + 1);
        EXPECT_EQ(it.notes(), values.size());
    }
}

TEST(Repeats, D121_ModelThatStopsAfterTheNote_Completes) {
    FauxProvider faux = calling_in_turns({"a"}, 5);
    Repeated it(faux);
    EXPECT_EQ(run(it.agent.prompt("hi")).outcome, RunOutcome::completed);
}

TEST(Repeats, D121_NewCallOrResult_StartsAgain) {
    // The same check after each of many changes.
    std::vector<std::string> values;
    for (int i = 0; i < 40; ++i) values.push_back(i % 2 == 0 ? "check" : std::to_string(i));
    FauxProvider faux = calling_in_turns(values, values.size());
    Repeated it(faux);
    EXPECT_EQ(run(it.agent.prompt("hi")).outcome, RunOutcome::completed);
    EXPECT_EQ(it.notes(), 0u);
    // A poll whose result changes.
    FauxProvider polling = calling_in_turns({"a"}, 40);
    int polls = 0;
    AgentTool poll = tool<EchoArgs>(
        "echo", "Polls.", [&polls](EchoArgs) { return "after " + std::to_string(++polls) + " s"; });
    Repeated other(polling, std::move(poll));
    EXPECT_EQ(run(other.agent.prompt("hi")).outcome, RunOutcome::completed);
}

TEST(Repeats, D121_SameErrorsInOneAnswer_Count) {
    FauxProvider faux;
    std::vector<ToolCall> calls;
    for (int i = 0; i < 6; ++i)
        calls.push_back(faux_tool_call("missing", {{"x", 1}, {"y", 2}}, "c" + std::to_string(i)));
    calls[3].arguments = JsonObject{{"y", 2}, {"x", 1}};
    faux.set_responses({calling(std::move(calls)), "never sent"});
    Repeated it(faux);
    EXPECT_EQ(run(it.agent.prompt("hi")).outcome, RunOutcome::limited);
    EXPECT_EQ(faux.call_count(), 1u);
    EXPECT_EQ(it.notes(), 1u);
}

TEST(Repeats, D121_ResultsThatAreCut_CompareWhole) {
    FauxProvider faux = calling_in_turns({"a"}, 20);
    int calls = 0;
    AgentTool tool_of = tool<EchoArgs>("echo", "Long.", [&calls](EchoArgs) {
        return std::string(100, 'x') + std::to_string(++calls);
    });
    AgentLimits limits = Repeated::limited(6);
    limits.tool_result_chars = 10;
    Agent agent({.model = faux.model(), .tools = {std::move(tool_of)}, .limits = limits});
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::completed);
}

TEST(Repeats, D121_WithoutLimit_AreNotCounted) {
    FauxProvider faux = calling_in_turns({"a"}, 40);
    Repeated it(faux, echo_tool(), 0);
    EXPECT_EQ(run(it.agent.prompt("hi")).outcome, RunOutcome::completed);
    EXPECT_EQ(it.notes(), 0u);
}

}  // namespace
}  // namespace cubepi
