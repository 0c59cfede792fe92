// Renewing the claim of a run while the store fails: D50.

#include <stdexcept>

#include <cubepi/agent/agent_test_support.hpp>
#include <cubepi/agent/store_test_support.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace cubepi {
namespace {

using namespace agent_test;
using namespace std::chrono_literals;

/// Fails or delays renewals. `fails` determines the fate of the n-th renewal, from 1.
class UnreliableStore final : public ForwardingStore {
public:
    UnreliableStore(MemoryOptions options, std::shared_ptr<testing::ManualClock> clock)
        : ForwardingStore(std::move(options)), clock_(std::move(clock)) {}

    Task<void> renew_claim(std::string thread_id, std::string run_id,
                           std::string owner_id) override {
        times.push_back(clock_->now());
        if (fails(times.size())) throw std::runtime_error("the disk does not answer");
        if (delay.count() > 0) co_await clock_->sleep_for(delay);
        Task<void> renewal = ForwardingStore::renew_claim(std::move(thread_id), std::move(run_id),
                                                          std::move(owner_id));
        co_await std::move(renewal);
    }

    std::function<bool(std::size_t)> fails = [](std::size_t) { return false; };
    std::chrono::seconds delay{0};
    std::vector<Clock::time_point> times;

private:
    std::shared_ptr<testing::ManualClock> clock_;
};

/// An agent in a tool call of `length`, on a thread that another owner tries to claim every second.
struct LongRun {
    testing::MemoryLog log;
    explicit LongRun(std::chrono::seconds length) {
        MemoryOptions options;
        options.clock = clock;
        store = std::make_shared<UnreliableStore>(options, clock);
        faux.set_responses({calling({echo_call("a")}), "done"});
        auto sleeping =
            tool<EchoArgs>("echo", "Sleeps.", [this, length](EchoArgs) { return sleep(length); });
        sleeping.time_limit = 0ms;
        agent = std::make_unique<Agent>(
            AgentOptions{.model = faux.model(),
                         .tools = {sleeping},
                         .checkpointer = store,
                         .thread_id = "t",
                         .runtime = std::make_shared<const Runtime>(
                             Runtime().with_clock(clock).with_log(log.logger()))});
        recorder = std::make_unique<Recorder>(*agent);
    }

    Task<std::string> sleep(std::chrono::seconds length) {
        began = clock->now();
        for (std::chrono::seconds slept = 0s; slept < length; slept += 1s) {
            co_await clock->sleep_for(1s);
            if (intrudes && !superseded_after) co_await intrude();
        }
        co_return std::string("slept");
    }
    Task<void> intrude() {
        ClaimOwner other;
        other.owner_id = "other";
        other.host = "elsewhere";
        try {
            Task<ClaimResult> claiming =
                store->claim_run("t", "other-run", std::move(other), ClaimKind::new_run);
            co_await std::move(claiming);
            superseded_after =
                std::chrono::duration_cast<std::chrono::seconds>(clock->now() - began);
        } catch (const RunAlreadyClaimedError&) {
        }
    }
    RunResult prompt() { return testing::run_advancing(*clock, agent->prompt("hi")); }
    std::vector<std::int64_t> seconds() const {
        std::vector<std::int64_t> all;
        for (const Clock::time_point time : store->times) {
            all.push_back(std::chrono::duration_cast<std::chrono::seconds>(time - began).count());
        }
        return all;
    }

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<UnreliableStore> store;
    FauxProvider faux;
    std::unique_ptr<Agent> agent;
    std::unique_ptr<Recorder> recorder;
    Clock::time_point began = {};
    bool intrudes = true;
    std::optional<std::chrono::seconds> superseded_after;
};

TEST(Claim, D50_LastingRun_KeepsRenewingItsClaim) {
    LongRun it(190s);
    EXPECT_TRUE(it.prompt());
    EXPECT_FALSE(it.superseded_after);
    EXPECT_EQ(it.seconds(), (std::vector<std::int64_t>{20, 40, 60, 80, 100, 120, 140, 160, 180}));
    EXPECT_TRUE(it.recorder->notices().empty());
}

TEST(Claim, D50_FailedRenewal_IsRetriedWithinTheLease) {
    LongRun once(200s);
    once.store->fails = [](std::size_t n) { return n == 1; };
    EXPECT_TRUE(once.prompt());
    EXPECT_FALSE(once.superseded_after);
    EXPECT_EQ(once.seconds().at(1), 25);
    EXPECT_EQ(once.seconds().at(2), 45);
    EXPECT_TRUE(once.recorder->notices().empty());

    LongRun twice(200s);
    twice.store->fails = [](std::size_t n) { return n == 2 || n == 3; };
    EXPECT_TRUE(twice.prompt());
    EXPECT_FALSE(twice.superseded_after);
    EXPECT_EQ(twice.seconds().at(2), 45);
    EXPECT_EQ(twice.seconds().at(3), 50);
    EXPECT_TRUE(twice.recorder->notices().empty());
}

TEST(Claim, D50_EndedLease_IsReportedOnceAndAllowsFencing) {
    LongRun it(200s);
    it.store->fails = [](std::size_t) { return true; };
    EXPECT_THROW(it.prompt(), StaleAppendError);
    ASSERT_TRUE(it.superseded_after);
    EXPECT_GE(*it.superseded_after, 60s);
    EXPECT_LE(*it.superseded_after, 61s);
    EXPECT_EQ(it.recorder->notices(), std::vector<std::string>{"claim_lease_ended"});
    EXPECT_EQ(it.recorder->count(AgentEventType::agent_end), 1u);
    EXPECT_EQ(stored(*it.store, "t").size(), 2u);
}

TEST(Claim, D50_LateRenewal_RestoresAClaimNotSuperseded) {
    LongRun it(200s);
    it.intrudes = false;
    // The renewals at 20, 25, ..., 75 s fail.
    it.store->fails = [](std::size_t n) { return n <= 12; };
    EXPECT_TRUE(it.prompt());
    EXPECT_EQ(it.seconds().at(12), 80);
    EXPECT_EQ(it.seconds().at(13), 100);
    EXPECT_EQ(it.recorder->notices(), std::vector<std::string>{"claim_lease_ended"});
}

TEST(Claim, D50_LostClaim_IsReportedOnceWithoutRenewal) {
    LongRun it(200s);
    // The first renewals fail until another owner has superseded the claim; the next one finds the claim lost.
    it.store->fails = [&](std::size_t) { return !it.superseded_after; };
    EXPECT_THROW(it.prompt(), StaleAppendError);
    EXPECT_EQ(it.recorder->notices(),
              (std::vector<std::string>{"claim_lease_ended", "claim_lost"}));
    EXPECT_LE(it.seconds().back(), 66);
    EXPECT_TRUE(it.log.contains("<4>claim_lease_ended run_id=")) << it.log.text();
    EXPECT_TRUE(it.log.contains("<4>claim_lost run_id=")) << it.log.text();
}

TEST(Claim, D50_LeaseEndingWithoutStoreAnswer_IsReported) {
    LongRun it(200s);
    it.intrudes = false;
    it.store->delay = 90s;
    std::optional<Clock::time_point> told;
    it.agent->subscribe([&](const AgentEvent& event) {
        if (event.get_if<NoticeEvent>() && !told) told = it.clock->now();
    });
    EXPECT_TRUE(it.prompt());
    ASSERT_TRUE(told);
    EXPECT_EQ(*told - it.began, 60s);
}

TEST(Claim, D6_ListenerThrowingAtClaimNotice_FailsOnlyPrompt) {
    LongRun it(70s);
    it.intrudes = false;
    it.store->fails = [](std::size_t) { return true; };
    it.agent->subscribe([](const AgentEvent& event) {
        if (event.get_if<NoticeEvent>()) throw std::logic_error("listener");
    });
    EXPECT_THROW(it.prompt(), std::logic_error);
    EXPECT_EQ(it.recorder->count(AgentEventType::agent_end), 1u);
    it.faux.set_responses({"next"});
    EXPECT_TRUE(it.prompt());
}

}  // namespace
}  // namespace cubepi
