#include <cubepi/agent/transcript.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>

// Faults while a run waits for the user, or before it continues. Each has a defined outcome and leaves a history that
// the next prompt can use.

namespace cubepi {
namespace {

using namespace hitl_test;
using namespace std::chrono_literals;

using Words = std::vector<std::string>;

struct SuspensionFaults : ::testing::Test {
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<MemoryCheckpointer> store =
        std::make_shared<MemoryCheckpointer>(MemoryOptions{.clock = clock});
    FauxProvider faux;
    Words effects;

    SuspensionFaults() { faux.set_responses({calling({rm_call("/a", "c1")}), "done"}); }

    RunResult suspend(
        std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> change = {}) {
        Process first(store, faux, effects, clock, std::move(change));
        return first.prompt_and_detach();
    }
    MessageList history() { return run(store->load("t"))->messages; }
    std::size_t stored_requests() { return run(store->load_pending_requests("t")).size(); }
    /// The thread has no open call and takes another prompt.
    void expect_usable() {
        EXPECT_EQ(stored_requests(), 0u);
        EXPECT_TRUE(open_tool_calls(history()).empty());
        faux.set_responses({"fresh"});
        Process next(store, faux, effects, clock);
        EXPECT_EQ(next.prompt().outcome, RunOutcome::completed);
        EXPECT_EQ(history().back().text(), "fresh");
    }
    ErrorCode code_of(const std::function<void()>& call) {
        try {
            call();
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::unknown;
    }
};

void with_timeout_of_a_minute(AgentOptions& options, const std::shared_ptr<HitlChannel>& channel) {
    ConfirmToolCallOptions confirm;
    confirm.timeout = 60s;
    options.middleware = {ConfirmToolCallMiddleware(channel, std::move(confirm))};
}

TEST_F(SuspensionFaults, AnAnswerWhileTheRunIsBeingAbortedHasNoEffect) {
    {
        Process first(store, faux, effects, clock);
        const RunResult result = first.prompt([&](const HitlRequest&) {
            first.agent->abort();
            first.answer("c1", approve());
        });
        EXPECT_EQ(result.outcome, RunOutcome::aborted);
        EXPECT_EQ(first.events.back(), "agent_end");
    }
    EXPECT_TRUE(effects.empty());
    expect_usable();
}

TEST_F(SuspensionFaults, AnAbortAfterTheAnswerWasAcceptedRunsNoTool) {
    {
        Process first(store, faux, effects, clock);
        const RunResult result = first.prompt([&](const HitlRequest&) {
            first.answer("c1", approve());
            first.agent->abort();
        });
        EXPECT_EQ(result.outcome, RunOutcome::aborted);
    }
    EXPECT_TRUE(effects.empty());
    expect_usable();
}

struct TargetArgs {
    std::string target;
};

TEST_F(SuspensionFaults, AToolWithAnotherSchemaAfterTheRestartGetsAnErrorResult) {
    (void)suspend();
    const auto changed = [this](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tools = {tool<TargetArgs>("rm", "Removes a file.", [this](TargetArgs args) {
            effects.push_back(args.target);
            return "removed";
        })};
    };
    {
        Process second(store, faux, effects, clock, changed);
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
    }
    EXPECT_TRUE(effects.empty());
    EXPECT_TRUE(history()[2].tool_result()->is_error);
    EXPECT_NE(history()[2].text().find("target"), std::string::npos) << history()[2].text();
    expect_usable();
}

/// Fails when it is asked.
class BrokenChannel final : public HitlChannel {
public:
    Task<Json> request(HitlPayload, HitlOptions) override {
        throw std::runtime_error("the display is gone");
    }
    std::vector<HitlRequest> pending() const override { return {}; }
    HitlRequestStream subscribe() override { return feed_.subscribe(); }
    Task<> answer(std::string, Json, AnswerOrigin) override { co_return; }
    Task<> cancel(std::string, std::string) override { co_return; }

private:
    HitlRequestFeed feed_;
};

TEST_F(SuspensionFaults, AChannelThatThrowsRefusesTheCall) {
    const auto broken = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        const auto channel = std::make_shared<BrokenChannel>();
        options.channel = channel;
        options.middleware = {ConfirmToolCallMiddleware(channel, ConfirmToolCallOptions())};
    };
    {
        Process first(store, faux, effects, clock, broken);
        EXPECT_EQ(first.prompt().outcome, RunOutcome::completed);
    }
    EXPECT_TRUE(effects.empty());
    EXPECT_EQ(history()[2].text(), "the display is gone");
    expect_usable();
}

TEST_F(SuspensionFaults, D65_AClockThatIsSetBackDoesNotExpireARequest) {
    ASSERT_EQ(suspend(with_timeout_of_a_minute).outcome, RunOutcome::suspended);
    clock->set_wall(clock->wall() - 24h);
    {
        Process second(store, faux, effects, clock, with_timeout_of_a_minute);
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
    }
    EXPECT_EQ(effects, Words{"/a"});
    expect_usable();
}

TEST_F(SuspensionFaults, D65_AClockThatJumpsAheadExpiresARequestThatWaits) {
    {
        Process first(store, faux, effects, clock, with_timeout_of_a_minute);
        const RunResult result = first.prompt([&](const HitlRequest&) { clock->advance(24h); });
        EXPECT_EQ(result.outcome, RunOutcome::completed);
    }
    EXPECT_TRUE(effects.empty());
    EXPECT_EQ(history()[2].tool_result()->details.at("hitl").at("decision"), "timed_out");
    expect_usable();
}

TEST_F(SuspensionFaults, ALateAnswerToAClosedRunIsRefused) {
    (void)suspend();
    {
        Process second(store, faux, effects, clock);
        run(second.agent->abort_pending("too late"));
        EXPECT_EQ(code_of([&] { (void)second.respond("c1", approve()); }),
                  ErrorCode::no_pending_request);
    }
    EXPECT_TRUE(effects.empty());
    expect_usable();
}

TEST_F(SuspensionFaults, D62_AForgedAnswerOfAnotherRunIsRefused) {
    const RunResult suspended = suspend();
    AnswerRecord forged;
    forged.run_id = "another run";
    forged.question_id = "c1";
    forged.answer = approve();
    EXPECT_EQ(code_of([&] { run(store->answer_request("t", std::move(forged))); }),
              ErrorCode::stale_answer);
    EXPECT_EQ(stored_requests(), 1u);
    // An answer that was stored without the checks is dropped, and the question is asked again (D17).
    HitlAnswer written;
    written.run_id = suspended.run_id;
    written.question_id = "c1";
    written.answer = "yes";
    run(store->save_hitl_answer("t", std::move(written)));
    {
        Process second(store, faux, effects, clock);
        bool asked = false;
        const RunResult result = second.run_with(second.agent->resume(), [&](const HitlRequest&) {
            asked = true;
            second.answer("c1", deny("not this one"));
        });
        EXPECT_EQ(result.outcome, RunOutcome::completed);
        EXPECT_TRUE(asked);
    }
    EXPECT_TRUE(effects.empty());
    expect_usable();
}

}  // namespace
}  // namespace cubepi
