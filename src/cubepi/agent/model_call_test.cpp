// The calls of the model in a run: size of an answer, cost, fallback, the prefix of the prompt.

#include <cubepi/agent/agent_test_support.hpp>

#include <algorithm>

#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace cubepi {
namespace {

using cubepi::testing::ManualClock;
using namespace agent_test;
using testing::MemoryResponse;
using testing::MemoryTransport;

MemoryResponse stream() {
    return MemoryResponse(200).with_header("content-type", "text/event-stream");
}

/// Pieces of a text, or of a call's arguments, without an end.
MemoryResponse endless(const std::string& delta) {
    MemoryResponse answer = stream();
    for (int i = 0; i < 400; ++i) {
        answer =
            MemoryResponse(answer).with_event(R"({"choices":[{"index":0,"delta":)" + delta + "}]}");
    }
    return answer;
}

MemoryResponse response_with(const std::string& text) {
    return stream()
        .with_event(R"({"choices":[{"index":0,"delta":{"content":")" + text + R"("}}]})")
        .with_event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})")
        .with_event("[DONE]");
}

// The cost of runs and the spend limit. D24.

/// One dollar per call: Faux counts tokens by characters, so only the output has a price, which is set manually.
Model priced() {
    Model model;
    model.id = "priced";
    model.max_tokens = 2;
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

TEST(Spend, Run_ReportsItsCost) {
    auto till = std::make_shared<Till>(std::vector<AssistantMessage>{
        worth(2, calling({echo_call("a")})), worth(3, faux_assistant_message("done"))});
    Agent agent({.model = BoundModel(till, priced()), .tools = {echo_tool()}});
    const RunResult result = run(agent.prompt("hi"));
    ASSERT_TRUE(result);
    ASSERT_TRUE(result.cost);
    EXPECT_DOUBLE_EQ(*result.cost, 5.0);
}

TEST(Spend, D12_UnknownPrice_IsNotZero) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    EXPECT_FALSE(run(agent.prompt("hi")).cost);
}

TEST(Spend, D12_FailedCall_IsFreeAtKnownPrices) {
    const auto cost_at = [](Model model) {
        auto till = std::make_shared<Till>(
            std::vector<AssistantMessage>{faux_assistant_message("", stop_reason::error, "no")});
        Agent agent({.model = BoundModel(till, std::move(model))});
        return run(agent.prompt("hi")).cost;
    };
    EXPECT_EQ(cost_at(priced()), 0.0);
    EXPECT_EQ(cost_at(Model{.id = "unpriced", .provider_id = "mine"}), std::nullopt);
}

TEST(Spend, D24_SpendLimitReached_IsANamedOutcome) {
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
    EXPECT_EQ(till->calls, 2U) << "a third one could cost more than what is left";
    EXPECT_DOUBLE_EQ(*result.cost, 4.0);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1U);
    // The next run has its own budget.
    EXPECT_EQ(run(agent.prompt("on")).outcome, RunOutcome::limited);
    EXPECT_EQ(till->calls, 4U);
}

PriorSpending prior(std::size_t turns, std::optional<double> cost) {
    PriorSpending spending;
    spending.turns = turns;
    spending.usage.output_tokens = 4;
    spending.cost = cost;
    return spending;
}

TEST(Spend, D24_PriorSpending_CountsTowardLimitsAndResult) {
    auto till =
        std::make_shared<Till>(std::vector<AssistantMessage>{worth(2, calling({echo_call("a")}))});
    AgentLimits limits = spending(7.0);
    Agent agent({.model = BoundModel(till, priced()), .tools = {echo_tool()}, .limits = limits});
    const RunResult result = run(agent.prompt("hi", PromptOptions().prior_spending(prior(1, 4.0))));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_EQ(till->calls, 1U);
    EXPECT_DOUBLE_EQ(*result.cost, 6.0);
    EXPECT_EQ(result.usage.output_tokens, 6);
}

TEST(Spend, D24_PriorSpending_CountsForPulledEvents) {
    auto till = std::make_shared<Till>(
        std::vector<AssistantMessage>{worth(2, faux_assistant_message("done"))});
    Agent agent({.model = BoundModel(till, priced())});
    AgentRun pulled = agent.start("hi", PromptOptions().prior_spending(prior(1, 4.0)));
    const RunResult result = run(pulled.result());
    ASSERT_TRUE(result.cost);
    EXPECT_DOUBLE_EQ(*result.cost, 6.0);
}

TEST(Spend, D24_LimitReachedByPriorSpending_PreventsFirstCall) {
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

TEST(Spend, D24_UnknownPrice_FailsTheLimitClosed) {
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

TEST(Spend, D24_AnswerWithoutUsage_FailsTheLimitClosed) {
    AssistantMessage silent = calling({echo_call("a")});
    silent.usage.reset();
    auto till = std::make_shared<Till>(std::vector<AssistantMessage>{silent});
    Agent agent(
        {.model = BoundModel(till, priced()), .tools = {echo_tool()}, .limits = spending(2.0)});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_EQ(till->calls, 1U);
    EXPECT_FALSE(result.cost);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

// An agent whose model is a fallback chain. D1, D7, D15, D23, D38, D39, D55.

FauxStep down(ErrorCode code = ErrorCode::unavailable) {
    ErrorInfo info;
    info.code = code;
    return faux_failure("the endpoint is down", info);
}

struct Chain {
    explicit Chain(FallbackOptions options = {})
        : model({first.model("first"), second.model("second")}, std::move(options)) {}
    Requests requests;
    FauxProvider first{FauxOptions{.provider_id = "p1"}};
    FauxProvider second{FauxOptions{.provider_id = "p2"}};
    FallbackBoundModel model;
};

TEST(FallbackAgent, D55_FirstModelFails_SecondFinishesOnlyThisRun) {
    FallbackOptions options;
    options.cool_down = std::chrono::nanoseconds::zero();
    Chain chain(std::move(options));
    chain.first.set_responses({down(), chain.requests.answer("first again")});
    chain.second.set_responses({chain.requests.answer(calling({echo_call("x")})),
                                chain.requests.answer("from the second")});
    Agent agent({.model = chain.model, .tools = {echo_tool()}});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    ASSERT_TRUE(result) << result.error().what();
    EXPECT_EQ(result.text(), "from the second");
    EXPECT_EQ(recorder.notices(), (std::vector<std::string>{"failover"}));
    EXPECT_EQ(chain.first.call_count(), 1u);
    EXPECT_EQ(chain.second.call_count(), 2u);
    for (const Message& message : agent.state().messages) {
        if (message.role() != Role::assistant) continue;
        EXPECT_EQ(message.assistant()->model_id, "second");
        EXPECT_EQ(message.assistant()->provider_id, "p2");
    }
    EXPECT_TRUE(run(agent.prompt("more")));
    EXPECT_EQ(chain.first.call_count(), 2u);
    EXPECT_TRUE(is_legal_transcript(chain.requests.seen.back().messages));
}

TEST(FallbackAgent, HopDuringRun_KeepsTheHistory) {
    Chain chain;
    chain.first.set_responses(
        {chain.requests.answer(calling({echo_call("x")})), down(ErrorCode::rate_limited)});
    chain.second.set_responses({chain.requests.answer("done")});
    Agent agent({.model = chain.model, .tools = {echo_tool()}});
    EXPECT_EQ(run(agent.prompt("hi")).text(), "done");
    const MessageList& asked = chain.requests.seen.back().messages;
    EXPECT_EQ(roles(asked), (std::vector<Role>{Role::user, Role::assistant, Role::tool_result}));
    EXPECT_EQ(asked[1].assistant()->model_id, "first");
}

TEST(FallbackAgent, ExhaustedChain_FailsOnlyThisRun) {
    Chain chain;
    chain.first.set_responses({down()});
    chain.second.set_responses({down(ErrorCode::model_not_found)});
    Agent agent({.model = chain.model});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(result.error().code(), ErrorCode::unavailable);
    EXPECT_EQ(recorder.notices(), (std::vector<std::string>{"failover", "failover"}));
    EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1u);
    chain.first.set_responses({chain.requests.answer("back")});
    EXPECT_EQ(run(agent.prompt("again")).text(), "back");
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(FallbackAgent, D15_ShownContent_PreventsAHop) {
    Chain chain;
    AssistantMessage broken = faux_assistant_message("half an answ", "error", "the line broke");
    ErrorInfo info;
    info.code = ErrorCode::disconnected;
    broken.error = SharedValue<ErrorInfo>(info);
    chain.first.set_responses({broken});
    Agent agent({.model = chain.model});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(agent.state().messages.back().text(), "half an answ");
    EXPECT_EQ(chain.second.call_count(), 0u);
}

TEST(FallbackAgent, D7_AbortAtHop_EndsTheRun) {
    Chain chain;
    chain.first.set_responses({down()});
    chain.second.set_responses({"never"});
    Agent agent({.model = chain.model});
    agent.subscribe([&agent](const AgentEvent& event) {
        if (event.get_if<NoticeEvent>()) agent.abort();
    });
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::aborted);
    EXPECT_EQ(chain.second.call_count(), 0u);
    EXPECT_EQ(agent.state().messages.back().assistant()->stop_reason, "aborted");
}

/// Runs `end` while a callback of the run waits during a fallback, and returns the run's result.
RunResult end_mid_hop(std::unique_ptr<Agent>& agent, std::function<void()> end, AsyncEvent& reached,
                      bool& cancelled) {
    RunResult result;
    const auto parent = [&]() -> Task<void> {
        TaskScope scope(co_await this_executor);
        const auto prompting = [&]() -> Task<void> {
            std::exception_ptr failure;
            try {
                result = co_await agent->prompt("hi");
            } catch (...) {
                failure = std::current_exception();
            }
            cancelled = failure && is_cancellation(failure);
        };
        scope.spawn(prompting());
        co_await reached.wait();
        if (end) {
            end();
        } else {
            scope.cancel();
        }
        co_await scope.join_failure();
    };
    run(parent());
    return result;
}

struct MidHop {
    MidHop() {
        FallbackOptions options;
        options.on_failover = [this](const Failover&) -> Task<> {
            if (std::exchange(hopped, true)) co_return;
            reached.set();
            co_await clock->sleep_for(std::chrono::hours(1));
        };
        chain.emplace(std::move(options));
        chain->first.set_responses({down()});
        chain->second.set_responses({chain->requests.answer("later")});
        agent = std::make_unique<Agent>(AgentOptions{.model = chain->model});
    }
    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    AsyncEvent reached;
    std::optional<Chain> chain;
    std::unique_ptr<Agent> agent;
    bool hopped = false;
    bool cancelled = false;
};

TEST(FallbackAgent, D7_AbortDuringHop_EndsTheRun) {
    MidHop hop;
    const RunResult result =
        end_mid_hop(hop.agent, [&] { hop.agent->abort(); }, hop.reached, hop.cancelled);
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(run(hop.agent->prompt("again")).text(), "later");
    EXPECT_TRUE(is_legal_transcript(hop.agent->state().messages));
}

TEST(FallbackAgent, D7_AgentDestroyedDuringHop_AbortsTheRun) {
    MidHop hop;
    const RunResult result =
        end_mid_hop(hop.agent, [&] { hop.agent.reset(); }, hop.reached, hop.cancelled);
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(hop.chain->second.call_count(), 0u);
}

TEST(FallbackAgent, D38_PromptCancelledDuringHop_LeavesTheAgentUsable) {
    MidHop hop;
    (void)end_mid_hop(hop.agent, {}, hop.reached, hop.cancelled);
    EXPECT_TRUE(hop.cancelled);
    EXPECT_EQ(run(hop.agent->prompt("again")).text(), "later");
    EXPECT_TRUE(is_legal_transcript(hop.agent->state().messages));
}

// Answers that a failure cuts off. D7, D15, D24.

ErrorInfo lost(ErrorCode code = ErrorCode::disconnected) {
    ErrorInfo info;
    info.code = code;
    info.message = "the line broke";
    return info;
}

AssistantMessage cut(ContentList<AssistantContent> content, ErrorInfo info = lost()) {
    AssistantMessage message =
        faux_assistant_message(std::move(content), stop_reason::error, "the line broke");
    message.error = SharedValue<ErrorInfo>(std::move(info));
    return message;
}

AssistantMessage cut_text(std::string text, ErrorInfo info = lost()) {
    ContentList<AssistantContent> content;
    content.emplace_back(faux_text(std::move(text)));
    return cut(std::move(content), std::move(info));
}

/// Without text: thinking and a complete call.
AssistantMessage cut_call() {
    ContentList<AssistantContent> content;
    content.emplace_back(faux_thinking("I should call it"));
    content.emplace_back(echo_call("cut", "c0"));
    return cut(std::move(content));
}

AgentLimits repeating(std::size_t most, bool shown) {
    AgentLimits limits;
    limits.max_cut_answers = most;
    limits.repeats_shown_text = shown;
    return limits;
}

struct CutAnswers {
    explicit CutAnswers(std::vector<FauxStep> steps, const AgentLimits& limits) {
        faux.set_responses(std::move(steps));
        AgentOptions options;
        options.model = faux.model();
        options.tools = {echo_tool()};
        options.limits = limits;
        options.runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
        agent = std::make_unique<Agent>(std::move(options));
        recorder = std::make_unique<Recorder>(*agent);
    }
    RunResult prompt() { return testing::run_advancing(*clock, agent->prompt("hi")); }
    const MessageList& history() const { return std::as_const(*agent).state().messages; }

    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    FauxProvider faux;
    std::unique_ptr<Agent> agent;
    std::unique_ptr<Recorder> recorder;
};

TEST(CutAnswer, D15_CutAnswers_AreDiscardedAndRequestedAgain) {
    Requests requests;
    CutAnswers chat({requests.answer(cut_text("half an answ")), requests.answer(cut_call()),
                     requests.answer(calling({echo_call("whole")})), requests.answer("done")},
                    repeating(2, true));
    const RunResult result = chat.prompt();
    ASSERT_TRUE(result) << result.error().what();
    EXPECT_EQ(result.text(), "done");
    EXPECT_EQ(roles(chat.history()),
              (std::vector<Role>{Role::user, Role::assistant, Role::tool_result, Role::assistant}));
    EXPECT_EQ(result.new_messages.size(), 4u);
    ASSERT_EQ(requests.seen.size(), 4u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(requests.seen[i].messages.size(), 1u) << i;
    const Recorder& heard = *chat.recorder;
    EXPECT_EQ(heard.notices(), (std::vector<std::string>{"retry", "retry"}));
    EXPECT_EQ(heard.count(AgentEventType::tool_execution_start), 1u);
    EXPECT_EQ(heard.count(AgentEventType::turn_start), 2u);
    EXPECT_EQ(heard.count(AgentEventType::turn_end), 2u);
}

TEST(CutAnswer, D15_DiscardedAnswer_EndsWithItsError) {
    CutAnswers chat({cut_text("half an answ"), cut_call(), "done"}, repeating(2, true));
    const RunResult result = chat.prompt();
    ASSERT_TRUE(result);
    std::vector<std::string> named;
    std::vector<std::string> ended;
    std::int64_t tokens = 0;
    std::size_t open = 0;
    for (const AgentEvent& event : chat.recorder->events) {
        if (const auto* notice = event.get_if<NoticeEvent>()) {
            named.emplace_back(notice->notice.details.at("discarded").as_string());
            EXPECT_NE(notice->notice.text.find("the line broke"), std::string::npos);
            EXPECT_GT(notice->notice.details.at("delay_ms").to_number<int>(), 0);
        }
        if (event.get_if<MessageStartEvent>()) {
            EXPECT_EQ(++open, 1u);
        }
        const auto* end = event.get_if<MessageEndEvent>();
        if (!end) continue;
        EXPECT_EQ(--open, 0u);
        const AssistantMessage* answer = end->message.assistant();
        if (!answer) continue;
        tokens += answer->usage->output_tokens.value_or(0);
        if (answer->stop_reason != stop_reason::error) continue;
        ended.push_back(answer->id);
        EXPECT_FALSE(answer->has_tool_calls());
        EXPECT_EQ(answer->error_message, "the line broke");
    }
    EXPECT_EQ(named.size(), 2u);
    EXPECT_EQ(named, ended);
    EXPECT_EQ(result.usage.output_tokens, tokens) << "what was cut off counts, too";
}

TEST(CutAnswer, D15_OneCutTooMany_IsTheFailure) {
    CutAnswers chat({cut_text("one"), cut_text("two"), cut_text("three"), "never"},
                    repeating(2, true));
    const RunResult result = chat.prompt();
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(result.error().code(), ErrorCode::disconnected);
    EXPECT_EQ(chat.faux.call_count(), 3u);
    EXPECT_EQ(texts(chat.history()), (std::vector<std::string>{"hi", "three"}));
    EXPECT_EQ(chat.history().back().assistant()->stop_reason, stop_reason::error);
}

TEST(CutAnswer, D15_WholeAnswer_EndsTheCount) {
    CutAnswers chat({cut_text("one"), calling({echo_call("a")}), cut_text("two"), "done"},
                    repeating(1, true));
    EXPECT_EQ(chat.prompt().text(), "done");
}

TEST(CutAnswer, D15_ShownText_IsTakenBackOnRequestOnly) {
    CutAnswers shown({cut_text("half an answ"), "never"}, repeating(2, false));
    EXPECT_EQ(shown.prompt().outcome, RunOutcome::failed);
    EXPECT_EQ(shown.faux.call_count(), 1u);
    EXPECT_EQ(shown.history().back().text(), "half an answ");
    CutAnswers unseen({cut_call(), "done"}, repeating(2, false));
    EXPECT_EQ(unseen.prompt().text(), "done");
}

TEST(CutAnswer, D15_OtherFailures_EndTheRun) {
    ErrorInfo quota = lost(ErrorCode::rate_limited);
    quota.retry_after = 300;
    for (const ErrorInfo& info : {lost(ErrorCode::bad_request), lost(ErrorCode::protocol),
                                  lost(ErrorCode::timeout), quota}) {
        CutAnswers chat({cut_text("half", info), "never"}, repeating(2, true));
        EXPECT_EQ(chat.prompt().outcome, RunOutcome::failed);
        EXPECT_EQ(chat.faux.call_count(), 1u) << to_string(info.code);
    }
    // The provider has made such a call again itself.
    CutAnswers before({faux_failure("refused", lost(ErrorCode::unavailable)), "never"},
                      repeating(2, true));
    EXPECT_EQ(before.prompt().outcome, RunOutcome::failed);
    CutAnswers by_default({cut_text("half"), "never"}, AgentLimits());
    EXPECT_EQ(by_default.prompt().outcome, RunOutcome::failed);
}

TEST(CutAnswer, D7_AbortDuringWait_KeepsTheText) {
    CutAnswers chat({cut_text("half an answ"), "never"}, repeating(2, true));
    chat.agent->subscribe([&chat](const AgentEvent& event) {
        if (event.get_if<NoticeEvent>()) chat.agent->abort();
    });
    EXPECT_EQ(chat.prompt().outcome, RunOutcome::aborted);
    EXPECT_EQ(chat.faux.call_count(), 1u);
    EXPECT_EQ(texts(chat.history()), (std::vector<std::string>{"hi", "half an answ"}));
    EXPECT_EQ(chat.history().back().assistant()->stop_reason, stop_reason::aborted);
}

TEST(CutAnswer, D24_MaxDuration_EndsTheWait) {
    AgentLimits limits = repeating(2, true);
    limits.max_duration = std::chrono::milliseconds(100);
    CutAnswers chat({cut_call(), "never"}, limits);
    EXPECT_EQ(chat.prompt().outcome, RunOutcome::limited);
    EXPECT_EQ(chat.faux.call_count(), 1u);
    EXPECT_TRUE(is_legal_transcript(chat.history())) << "the complete call has a result";
}

// The prompt-prefix guard in a run. D56.

std::vector<std::string> breaks(const Recorder& recorder) {
    std::vector<std::string> blocks;
    for (const AgentEvent& event : recorder.events) {
        const NoticeEvent* told = std::get_if<NoticeEvent>(&event.body);
        if (told && told->notice.code == "cache_prefix_break")
            blocks.emplace_back(told->notice.details.at("block").as_string());
    }
    return blocks;
}

TEST(Prefix, D56_RunsThatOnlyAppend_KeepTheirPrefix) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "one", calling({echo_call("b", "c2")}), "two"});
    Agent agent({.model = faux.model(), .system_prompt = "Be brief.", .tools = {echo_tool()}});
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_TRUE(run(agent.prompt("again")));
    EXPECT_EQ(breaks(recorder), std::vector<std::string>());
}

TEST(Prefix, D56_ReloadedThread_KeepsItsPrefix) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    agent.reset();
    EXPECT_TRUE(run(agent.prompt("again")));
    EXPECT_EQ(breaks(recorder), std::vector<std::string>());
}

TEST(Prefix, D56_HookRewritesThePast_IsReported) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    int calls = 0;
    AgentOptions options;
    options.model = faux.model();
    options.tools = {echo_tool()};
    options.transform_system_prompt = [&](std::string prompt,
                                          const HookContext&) -> Task<std::string> {
        co_return prompt + "It is " + std::to_string(++calls) + " o'clock.";
    };
    Agent agent(std::move(options));
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(breaks(recorder), std::vector<std::string>{"system_prompt"});
}

TEST(Prefix, D56_ChangedTool_IsReported) {
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    agent.set_tools({});
    EXPECT_TRUE(run(agent.prompt("again")));
    EXPECT_EQ(breaks(recorder), std::vector<std::string>{"tools/0"});
}

TEST(AnswerLimit, D74_LargeAnswer_EndsOnlyThisRun) {
    const std::string piece(10'000, 'x');
    const std::vector<std::string> deltas{
        R"({"content":")" + piece + R"("})",
        R"({"reasoning_content":")" + piece + R"("})",
        R"({"refusal":")" + piece + R"("})",
        R"({"tool_calls":[{"index":0,"id":"c1","function":{"name":"echo","arguments":")" + piece +
            R"("}}]})",
    };
    for (const std::string& delta : deltas) {
        const auto transport = std::make_shared<MemoryTransport>(
            std::vector<MemoryResponse>{endless(delta), response_with("fine")});
        AgentOptions options;
        options.model = OpenAIProvider({.api_key = "k"}).model("m");
        options.tools = {echo_tool()};
        options.limits.max_answer_bytes = 1'000'000;
        options.runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
        options.checkpointer = std::make_shared<MemoryCheckpointer>();
        options.thread_id = "t";
        Agent agent(std::move(options));
        const RunResult result = run(agent.prompt("hi"));
        EXPECT_EQ(result.outcome, RunOutcome::limited) << delta.substr(0, 20);
        const auto* reached = dynamic_cast<const LimitReachedError*>(&result.error());
        ASSERT_NE(reached, nullptr);
        EXPECT_EQ(reached->limit(), "max_answer_bytes");
        std::size_t bytes = 0;
        for (const Message& message : agent.state().messages) bytes += message.text().size();
        EXPECT_LE(bytes, std::size_t{65} << 10U);
        EXPECT_TRUE(repair_request(agent.state().messages).repairs == TranscriptRepairs());
        const RunResult next = run(agent.prompt("and now?"));
        EXPECT_EQ(next.outcome, RunOutcome::completed) << delta.substr(0, 20);
        EXPECT_EQ(next.text(), "fine");
        const std::vector<HttpRequest> requests = transport->requests();
        ASSERT_EQ(requests.size(), 2U) << "an answer that was too large is not asked for again";
        EXPECT_LE(requests.back().body.size(), std::size_t{70} << 10U);
    }
}

// A model and a tool that never wait: other coroutines of the same loop run all the same, and can stop the run.
TEST(AnswerLimit, ModelThatNeverWaits_CanBeAborted) {
    FauxProvider faux;
    std::vector<FauxStep> steps;
    for (int i = 0; i < 500; ++i)
        steps.emplace_back(calling({echo_call("a", "c" + std::to_string(i))}));
    faux.set_responses(std::move(steps));
    AgentOptions options;
    options.model = faux.model();
    options.tools = {echo_tool()};
    options.limits.max_turns = 0;
    Agent agent(std::move(options));
    RunResult result;
    run([](Agent& agent, RunResult& result) -> Task<> {
        Task<RunResult> prompted = agent.prompt("hi");
        BackgroundScope others(co_await this_executor);
        others.spawn([](Agent& agent) -> Task<> {
            while (!agent.state().is_streaming) co_await yield_now();
            agent.abort();
        }(agent));
        result = co_await std::move(prompted);
        co_await others.close();
    }(agent, result));
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_LT(agent.state().messages.size(), 200U);
}

}  // namespace
}  // namespace cubepi
