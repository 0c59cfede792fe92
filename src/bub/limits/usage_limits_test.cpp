// Limits by day in a channel manager: which messages get a turn, and what counts when turns fail, are stopped, or run again.

#include <bub/limits/usage_limits.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/limits/file_usage_store.hpp>
#include <bub/limits/usage_store_suite_test.hpp>
#include <bub/questions.hpp>
#include <bub/schedule/schedule.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/faux.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;
using usage_tests::limit_of;

const std::string today = "2026-01-01";

/// A store in a file that can fail, with a clock that stands still.
class TestStore final : public UsageStore {
public:
    TestStore() : inner_(directory_, runtime()) {}
    ~TestStore() override { std::filesystem::remove_all(directory_); }
    Task<std::int64_t> now() override { return inner_.now(); }
    Task<std::optional<ReachedLimit>> admit(UsageAdmission turn) override {
        fail();
        return inner_.admit(std::move(turn));
    }
    Task<> add(std::string day, UsageByCounter amounts) override {
        fail();
        ++adds;
        if (on_add) co_await on_add();
        co_await inner_.add(std::move(day), std::move(amounts));
    }
    Task<std::vector<std::pair<std::string, UsageAmounts>>> list(std::string day, std::size_t most,
                                                                 std::string search) override {
        return inner_.list(std::move(day), most, std::move(search));
    }

    int failures = 0;  ///< of the next calls
    int adds = 0;
    std::function<Task<>()> on_add;

private:
    static std::shared_ptr<const cubepi::Runtime> runtime() {
        return std::make_shared<const cubepi::Runtime>(
            cubepi::Runtime().with_clock(std::make_shared<ManualClock>()));
    }
    void fail() {
        if (failures == 0) return;
        --failures;
        throw cubepi::Error(cubepi::ErrorCode::storage, "the disk is gone");
    }

    const std::filesystem::path directory_ =
        std::filesystem::temp_directory_path() /
        ("cubepi-limits-" + cubepi::Runtime::standard()->ids->next());
    FileUsageStore inner_;
};

/// Limits that are created on the executor of the manager.
class LateLimits final : public TurnGate {
public:
    LateLimits(UsageLimitOptions options, std::shared_ptr<UsageStore> store)
        : options_(std::move(options)), store_(std::move(store)) {}
    Task<std::optional<std::string>> refuse(Envelope message) override {
        const std::shared_ptr<UsageLimits> limits = co_await get();
        Task<std::optional<std::string>> asking = limits->refuse(std::move(message));
        co_return co_await std::move(asking);
    }
    Task<> flush() override {
        // The clock of these tests advances while the thread of the store works, so that the limit of the manager would pass.
        if (!made_) co_return;
        co_await cubepi::shield();
        Task<> flushing = made_->flush();
        const cubepi::Outcome<> flushed = co_await cubepi::outcome_of(std::move(flushing));
        made_.reset();
        co_await cubepi::unshield();
        flushed.rethrow();
    }
    Task<std::shared_ptr<UsageLimits>> get() {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        if (!made_) make(executor);
        co_return made_;
    }

    std::shared_ptr<const cubepi::Runtime> runtime = cubepi::Runtime::standard();
    bool admits_outage = false;
    Texts warnings;

private:
    void make(const cubepi::Executor& executor) {
        made_ = std::make_shared<UsageLimits>(
            options_, store_, runtime, executor,
            [this](const std::string& text) { warnings.push_back(text); },
            [this] { return admits_outage; });
    }

    const UsageLimitOptions options_;
    const std::shared_ptr<UsageStore> store_;
    std::shared_ptr<UsageLimits> made_;
};

Envelope sent_by(const std::string& user, const std::string& chat, const std::string& text,
                 const std::string& id) {
    Envelope message = from("chat", chat, text);
    message.context["sender_id"] = user;
    message.inbound_id = id;
    return message;
}

class UsageLimitsTest : public ::testing::Test {
protected:
    UsageLimitsTest() { options.zone = "UTC"; }

    /// Runs a gateway with the limits, on the records of the last one.
    void run(std::function<Task<>(Gateway&)> script) {
        gateway = std::make_unique<Gateway>();
        gateway->options.deliveries = deliveries;
        limits = std::make_shared<LateLimits>(options, store);
        gateway->options.gate = limits;
        if (before) before(*gateway);
        gateway->run(std::move(script));
    }
    UsageAmounts used(const std::string& counter) const {
        return usage_tests::used(*store, counter, today);
    }
    Texts answers() const { return gateway->channel->texts(); }

    UsageLimitOptions options;
    const std::shared_ptr<TestStore> store = std::make_shared<TestStore>();
    const std::shared_ptr<MemoryDeliveryLog> deliveries = std::make_shared<MemoryDeliveryLog>();
    std::function<void(Gateway&)> before;
    std::unique_ptr<Gateway> gateway;
    std::shared_ptr<LateLimits> limits;
};

constexpr const char* refused_text =
    "The message was not processed: the limit of 1 messages a day for each user is reached. It is "
    "reset at 2026-01-02 00:00 (UTC).";

TEST_F(UsageLimitsTest, D255_UserAtLimit_IsToldAndOthersContinue) {
    options.per_user = limit_of(1);
    run([](Gateway& h) -> Task<> {
        co_await h.manager->receive(sent_by("ann", "1", "one", "u1"));
        co_await h.manager->idle();
        co_await h.manager->receive(sent_by("ann", "2", "two", "u2"));
        co_await h.manager->idle();
        co_await h.manager->receive(sent_by("bob", "1", "three", "u3"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway->begun, (Texts{"one", "three"}));
    EXPECT_EQ(answers(), (Texts{"re: one", refused_text, "re: three"}));
    EXPECT_TRUE(cubepi::run(deliveries->unfinished()).empty());
    EXPECT_TRUE(cubepi::run(deliveries->unsettled()).empty());
    EXPECT_TRUE(gateway->warnings.empty());
    EXPECT_EQ(used("user:chat:ann"), (UsageAmounts{1, 0, 0}));
}

TEST_F(UsageLimitsTest, D255_ChatAndTotal_AreLimitedToo) {
    options.per_chat = limit_of(2);
    options.total = limit_of(3);
    run([](Gateway& h) -> Task<> {
        for (const char* const id : {"u1", "u2", "u3", "u4", "u5"}) {
            const std::string chat = id <= std::string("u3") ? "1" : "2";
            co_await h.manager->receive(sent_by(id, chat, id, id));
            co_await h.manager->idle();
        }
    });
    EXPECT_EQ(gateway->begun, (Texts{"u1", "u2", "u4"}));
    ASSERT_EQ(answers().size(), 5u);
    EXPECT_NE(answers()[2].find("the limit of 2 messages a day for each chat"), std::string::npos);
    EXPECT_NE(answers()[4].find("the limit of 3 messages a day for this service"),
              std::string::npos);
}

TEST_F(UsageLimitsTest, D255_Operators_MayBeExempt) {
    options.per_user = limit_of(1);
    for (const bool exempts : {false, true}) {
        options.exempts_operators = exempts;
        run([](Gateway& h) -> Task<> {
            for (const char* const id : {"one", "two"}) {
                Envelope message = sent_by("olga", "1", id, std::string(id));
                message.from_operator = true;
                message.inbound_id.reset();
                co_await h.manager->receive(std::move(message));
                co_await h.manager->idle();
            }
        });
        EXPECT_EQ(gateway->begun.size(), exempts ? 2u : 1u);
    }
    EXPECT_EQ(used("user:chat:olga").messages, 3);
}

TEST_F(UsageLimitsTest, D255_SteeringMessage_CountsOrGetsReason) {
    options.per_user = limit_of(2);
    before = [](Gateway& h) {
        h.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
            if (message.content_text() == "one") return std::nullopt;
            AdmitDecision decision;
            decision.action = AdmitAction::steer;
            return decision;
        };
        h.hold("one");
    };
    run([](Gateway& h) -> Task<> {
        co_await h.manager->receive(sent_by("ann", "1", "one", "u1"));
        co_await h.until_begun(1);
        co_await h.manager->receive(sent_by("ann", "1", "two", "u2"));
        co_await h.manager->receive(sent_by("ann", "1", "three", "u3"));
        const TurnSnapshot turn = h.manager->sessions().front();
        EXPECT_EQ(turn.steering_count, 1u);
        EXPECT_EQ(turn.pending_count, 1u);
        h.release("one");
        co_await h.manager->idle();
    });
    // The model of the test takes no steering: the message gets a turn of its own, and is not counted again.
    EXPECT_EQ(gateway->begun, (Texts{"one", "two"}));
    EXPECT_EQ(used("user:chat:ann").messages, 2);
    EXPECT_NE(answers().back().find("limit of 2 messages"), std::string::npos);
}

TEST_F(UsageLimitsTest, D255_TurnAfterKill_CountsOnce) {
    options.per_user = limit_of(1);
    before = [](Gateway& h) { h.hold("one"); };
    run([](Gateway& h) -> Task<> {
        co_await h.manager->receive(sent_by("ann", "1", "one", "u1"));
        co_await h.until_begun(1);
    });
    EXPECT_TRUE(gateway->done.empty());
    before = {};
    run([](Gateway& h) -> Task<> { co_await h.manager->idle(); });
    EXPECT_EQ(gateway->done, Texts{"one"});
    EXPECT_EQ(used("user:chat:ann").messages, 1);
}

TEST_F(UsageLimitsTest, D255_StoreFails_TurnIsTriedAgain) {
    options.per_user = limit_of(1);
    store->failures = 2;
    run([](Gateway& h) -> Task<> {
        co_await h.manager->receive(sent_by("ann", "1", "one", "u1"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway->done, Texts{"one"});
    EXPECT_EQ(used("user:chat:ann").messages, 1);
}

TEST_F(UsageLimitsTest, D255_Firing_CountsAndTaskResultDoesNot) {
    options.per_user = limit_of(1);
    run([](Gateway& h) -> Task<> {
        Envelope result = sent_by("ann", "1", "result", "t1");
        result.rest[task_results_key] = true;
        co_await h.manager->receive(std::move(result));
        co_await h.manager->idle();
        Schedule schedule;
        schedule.id = "s1";
        schedule.text = "check";
        schedule.session = "chat:1";
        schedule.times.zone = "UTC";
        schedule.origin = schedule_origin(sent_by("ann", "1", "plan it", "u1"));
        co_await h.manager->receive(firing_message(schedule, 60, false));
        co_await h.manager->receive(firing_message(schedule, 120, false));
        co_await h.manager->idle();
    });
    ASSERT_EQ(gateway->begun.size(), 2u);
    EXPECT_EQ(used("user:chat:ann").messages, 1);
    EXPECT_EQ(answers().back(), refused_text);
}

TEST_F(UsageLimitsTest, D255_AnswersAndCommands_CountNoMessage) {
    options.per_user = limit_of(1, 100);
    run([](Gateway& h) -> Task<> {
        co_await h.manager->receive(sent_by("ann", "1", "one", "u1"));
        co_await h.manager->idle();
        Envelope command = sent_by("ann", "1", ",tape_info", "u2");
        command.from_operator = true;
        co_await h.manager->receive(std::move(command));
        Envelope answer = sent_by("ann", "1", "yes", "u3");
        answer.answer = Answer();
        co_await h.manager->receive(std::move(answer));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway->begun.size(), 3u);
    EXPECT_EQ(used("user:chat:ann").messages, 1);
    // An answer continues a turn, for which nothing may be left.
    const std::string day = today;
    cubepi::run(store->add(day, {{"user:chat:ann", {0, 100, 0}}}));
    run([](Gateway& h) -> Task<> {
        Envelope answer = sent_by("ann", "1", "yes", "u4");
        answer.answer = Answer();
        co_await h.manager->receive(std::move(answer));
        Envelope withdrawal = sent_by("ann", "1", ",abandon", "u5");
        withdrawal.answer = Answer();
        withdrawal.answer->action = AnswerAction::abandon;
        co_await h.manager->receive(std::move(withdrawal));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway->begun, Texts{",abandon"});
    EXPECT_NE(answers().front().find("limit of 100 tokens"), std::string::npos);
}

TEST_F(UsageLimitsTest, D255_AnswerAfterKill_Continues) {
    options.per_user = limit_of({}, 100);
    before = [](Gateway& h) { h.hold("yes"); };
    run([](Gateway& h) -> Task<> {
        Envelope answer = sent_by("ann", "1", "yes", "u1");
        answer.answer = Answer();
        co_await h.manager->receive(std::move(answer));
        co_await h.until_begun(1);
    });
    EXPECT_TRUE(gateway->done.empty());
    // The turn has used up the tokens when it is killed.
    const std::string day = today;
    cubepi::run(store->add(day, {{"user:chat:ann", {0, 100, 0}}}));
    before = {};
    run([](Gateway& h) -> Task<> { co_await h.manager->idle(); });
    EXPECT_EQ(gateway->done, Texts{"yes"});
    EXPECT_EQ(used("user:chat:ann").messages, 0);
}

/// A model whose calls cost 0.01 USD: 1,000 tokens, of which 900 are the prompt. The call number `fails_at` fails before usage is reported.
class DearModel final : public cubepi::Provider {
public:
    explicit DearModel(int fails_at = 0) : fails_at_(fails_at) {}
    cubepi::MessageStream stream(cubepi::ModelRequest) override {
        return cubepi::MessageStream(std::make_unique<Call>(++calls == fails_at_));
    }
    cubepi::BoundModel model() {
        cubepi::Model dear;
        dear.id = "dear";
        dear.cost.emplace();
        dear.cost->input = 10;
        dear.cost->output = 30;
        dear.cost->cache_read = 10.0 / 3;
        return cubepi::BoundModel(std::shared_ptr<Provider>(this, [](Provider*) {}), dear);
    }

    int calls = 0;

private:
    class Call final : public cubepi::StreamSource {
    public:
        explicit Call(bool fails) : fails_(fails) {}
        Task<cubepi::StreamEvent> next() override {
            cubepi::AssistantMessage answer = cubepi::faux_assistant_message("Hello");
            answer.model_id = "dear";
            if (fails_) answer.stop_reason = cubepi::stop_reason::error;
            cubepi::Usage usage;
            usage.input_tokens = 600;
            usage.cache_read_tokens = 300;
            usage.output_tokens = 100;
            if (!fails_) answer.usage = usage;
            cubepi::StreamEvent event;
            event.type = fails_ ? cubepi::StreamEventType::error : cubepi::StreamEventType::done;
            event.partial = cubepi::PartialMessage(cubepi::Message(std::move(answer)));
            co_return event;
        }

    private:
        const bool fails_;
    };

    const int fails_at_;
};

TEST_F(UsageLimitsTest, D255_CallOfModel_CountsTokensAndMoney) {
    options.per_user = limit_of({}, 1'500, 15'000);
    options.per_chat = limit_of({}, 2'000);
    DearModel dear;
    before = [&](Gateway& h) {
        Plugin model;
        model.name = "metered";
        model.priority = 1;
        model.run_model = [&, this](RunModelCall& call) -> Task<std::string> {
            const auto made = co_await limits->get();
            const JsonObject origin{{"channel", "chat"}, {"chat", "1"}, {"user", "ann"}};
            const cubepi::BoundModel metered = made->metered(dear.model(), origin);
            cubepi::MessageList messages;
            messages.push_back(cubepi::user_message(call.prompt.text()));
            const cubepi::AssistantMessage answer = co_await metered.generate(std::move(messages));
            // The use counts although the turn fails.
            throw TurnError(ErrorKind::provider, "it has failed after " + answer.text());
        };
        h.framework->add(std::move(model));
    };
    run([](Gateway& h) -> Task<> {
        for (const char* const id : {"u1", "u2", "u3"}) {
            co_await h.manager->receive(sent_by("ann", "1", id, id));
            co_await h.manager->idle();
        }
    });
    EXPECT_EQ(dear.calls, 2) << "the third message was refused";
    EXPECT_EQ(used("user:chat:ann"), (UsageAmounts{2, 2'000, 20'000}));
    EXPECT_EQ(used("chat:chat:1"), (UsageAmounts{2, 2'000, 20'000}));
    EXPECT_NE(answers().back().find("the limit of 1500 tokens a day"), std::string::npos);
}

TEST_F(UsageLimitsTest, D255_UnstoredUse_IsStoredLater) {
    options.total = limit_of({}, 1'000'000);
    DearModel dear;
    run([&](Gateway&) -> Task<> {
        const auto made = co_await limits->get();
        const cubepi::BoundModel metered = made->metered(dear.model(), JsonObject());
        store->failures = 1;
        cubepi::MessageList messages;
        messages.push_back(cubepi::user_message("Hello"));
        (void)co_await metered.generate(std::move(messages));
        const cubepi::Outcome<> flushed = co_await cubepi::outcome_of(made->flush());
        EXPECT_FALSE(flushed.ok());
        co_await made->flush();
        const UsageReport report = co_await made->report(10);
        EXPECT_EQ(report.day.date, today);
        EXPECT_EQ(report.used.size(), 1u);
        for (const CounterReport& one : report.used) EXPECT_EQ(one.limit, options.total);
    });
    EXPECT_EQ(used("total"), (UsageAmounts{0, 1'000, 10'000}));
}

TEST_F(UsageLimitsTest, D255_LaterCalls_DelayNoTurn) {
    options.total = limit_of({}, 1'000'000);
    DearModel dear;
    run([&](Gateway&) -> Task<> {
        const auto made = co_await limits->get();
        const cubepi::BoundModel metered = made->metered(dear.model(), JsonObject());
        const auto call = [&]() -> Task<> {
            cubepi::MessageList messages;
            messages.push_back(cubepi::user_message("Hello"));
            (void)co_await metered.generate(std::move(messages));
        };
        // While the use of one call is stored, another one is made.
        store->on_add = [&]() -> Task<> {
            if (store->adds < 20) co_await call();
        };
        co_await call();
        co_await made->flush();
        EXPECT_LE(store->adds, 3);
        while (store->adds < 20) co_await made->flush();
        store->on_add = nullptr;
    });
    EXPECT_EQ(used("total").tokens, 20'000);
}

TEST_F(UsageLimitsTest, D255_FailingStore_HasOneRetry) {
    options.total = limit_of({}, 1'000'000);
    DearModel dear;
    const auto clock = std::make_shared<ManualClock>();
    run([&](Gateway&) -> Task<> {
        limits->runtime =
            std::make_shared<const cubepi::Runtime>(cubepi::Runtime().with_clock(clock));
        const auto made = co_await limits->get();
        const cubepi::BoundModel metered = made->metered(dear.model(), JsonObject());
        store->failures = 1'000;
        for (int i = 0; i < 5; ++i) {
            cubepi::MessageList messages;
            messages.push_back(cubepi::user_message("Hello"));
            (void)co_await metered.generate(std::move(messages));
            const cubepi::Outcome<> flushed = co_await cubepi::outcome_of(made->flush());
            EXPECT_FALSE(flushed.ok());
            EXPECT_LE(clock->pending_sleepers(), 1u);
        }
        store->failures = 0;
    });
    EXPECT_EQ(used("total").tokens, 5'000);
}

TEST_F(UsageLimitsTest, D255_OutageOfOneDatabase_TurnsAreCountedLater) {
    options.per_user = limit_of(1);
    Texts warnings;
    run([&](Gateway& h) -> Task<> {
        limits->admits_outage = true;
        store->failures = 1'000;
        for (const char* const id : {"one", "two"}) {
            co_await h.manager->receive(sent_by("ann", "1", id, id));
            co_await h.manager->idle();
        }
        store->failures = 0;
        warnings = limits->warnings;
    });
    EXPECT_EQ(gateway->done, (Texts{"one", "two"}));
    EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(),
                            [](const std::string& text) {
                                return text.find("turns begin without limits") != text.npos;
                            }),
              1);
    EXPECT_EQ(used("user:chat:ann").messages, 2);
}

/// A store that does not answer.
class StuckGate final : public TurnGate {
public:
    Task<std::optional<std::string>> refuse(Envelope) override {
        std::optional<std::string> none;
        co_return none;
    }
    Task<> flush() override {
        cubepi::AsyncEvent never;
        co_await never.wait();
    }
};

TEST_F(UsageLimitsTest, D255_StoreThatDoesNotAnswer_ManagerEnds) {
    before = [](Gateway& h) { h.options.gate = std::make_shared<StuckGate>(); };
    run([](Gateway& h) -> Task<> {
        co_await h.manager->receive(sent_by("ann", "1", "one", "u1"));
        co_await h.manager->idle();
    });
    ASSERT_EQ(gateway->warnings.size(), 1u);
    EXPECT_NE(gateway->warnings[0].find("could not be counted"), std::string::npos);
}

TEST(MeteredModel, D255_DroppedCall_IsChargedOnce) {
    DearModel dear(3);
    std::vector<std::int64_t> charged;
    const cubepi::BoundModel metered =
        metered_model(dear.model(), [&](const cubepi::Usage& usage, const auto& cost) {
            charged.push_back(usage.output_tokens.value_or(0));
            EXPECT_DOUBLE_EQ(cost.value_or(0), 0.01);
        });
    cubepi::run([](cubepi::BoundModel model) -> Task<> {
        cubepi::MessageList messages;
        messages.push_back(cubepi::user_message("Hello"));
        {
            cubepi::MessageStream stream = model.stream(messages);
            (void)co_await stream.result();
            (void)co_await stream.next();
        }
        {
            const cubepi::MessageStream unread = model.stream(messages);
        }
        const cubepi::AssistantMessage failed = co_await model.generate(messages);
        EXPECT_EQ(failed.stop_reason, cubepi::stop_reason::error);
    }(metered));
    EXPECT_EQ(charged, std::vector<std::int64_t>{100});
}

TEST(MeteredModel, D255_PriceAndChain_AreThoseOfModel) {
    DearModel dear;
    const ChargeCall charge = [](const cubepi::Usage&, const auto&) {};
    const cubepi::BoundModel one = metered_model(dear.model(), charge);
    EXPECT_TRUE(cubepi::price_of(one.spec()));
    ASSERT_EQ(one.provider()->inner_models().size(), 1u);
    const std::vector<cubepi::BoundModel> chain{dear.model(), dear.model()};
    const cubepi::BoundModel both = metered_model(cubepi::FallbackBoundModel(chain), charge);
    EXPECT_EQ(both.provider()->inner_models().size(), 2u);
    EXPECT_EQ(cubepi::chain_providers(both).at(0).get(), &dear);
    EXPECT_FALSE(metered_model(cubepi::BoundModel(), charge));
}

}  // namespace
}  // namespace bub::channel_tests
