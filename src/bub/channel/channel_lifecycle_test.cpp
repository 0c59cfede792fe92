// Start and end of the manager and its channels: those that throw or hang, its shutdown, and B27, its end without cutting off the running turns.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

Task<> nothing(Gateway&) { co_return; }

/// Adds three channels whose starts and stops are recorded.
void line_up(Gateway& gateway, Texts& log) {
    gateway.channels.clear();
    for (const char* name : {"a", "b", "c"}) {
        gateway.channels.push_back(std::make_shared<TestChannel>(name));
        gateway.channels.back()->log = &log;
    }
}

TEST(ChannelLife, Stop_RunsInReverseOrder) {
    Gateway gateway;
    Texts log;
    line_up(gateway, log);
    gateway.run(nothing);
    EXPECT_EQ(log, (Texts{"start a", "start b", "start c", "stop c", "stop b", "stop a"}));
}

TEST(ChannelLife, FailedStart_StopsExactlyTheStartedChannels) {
    for (const Trouble trouble : {Trouble::fails, Trouble::hangs}) {
        Gateway gateway;
        Texts log;
        line_up(gateway, log);
        gateway.channels[1]->on_start = trouble;
        gateway.furnish();
        EXPECT_THROW(cubepi::testing::run_advancing(*gateway.clock, gateway.manager->run()),
                     std::exception);
        EXPECT_EQ(log, (Texts{"start a", "stop a"}));
        EXPECT_EQ(gateway.framework->router(), nullptr);
    }
}

TEST(ChannelLife, UnstoppableChannel_HoldsUpNoOther) {
    for (const Trouble trouble : {Trouble::fails, Trouble::hangs}) {
        Gateway gateway;
        Texts log;
        line_up(gateway, log);
        gateway.channels[1]->on_stop = trouble;
        gateway.run(nothing);
        EXPECT_EQ(log, (Texts{"start a", "start b", "start c", "stop c", "stop b", "stop a"}));
        ASSERT_EQ(gateway.warnings.size(), 1u);
        EXPECT_NE(gateway.warnings.front().find("channel b did not stop"), std::string::npos);
        EXPECT_TRUE(gateway.operator_log.contains("<4>channel.stop_failed channel=b error="));
    }
}

/// Sends a message through the pipeline when it is stopped.
class Polite final : public Channel {
public:
    explicit Polite(Gateway& gateway) : gateway_(gateway) {}
    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token stopping) override {
        stopping_ = std::move(stopping);
        co_return;
    }
    Task<> stop() override {
        EXPECT_TRUE(stopping_.stop_requested());
        auto goodbye = std::make_shared<Envelope>(from("polite", "1", "goodbye"));
        co_await gateway_.framework->dispatch_outbound(std::move(goodbye));
    }
    Task<> send(Envelope message) override {
        shown.push_back(message.content_text());
        co_return;
    }

    std::vector<std::string> shown;

private:
    Gateway& gateway_;
    std::stop_token stopping_;
    const std::string name_ = "polite";
};

TEST(ChannelLife, MessagesDuringShutdown_AreShown) {
    Gateway gateway;
    const auto polite = std::make_shared<Polite>(gateway);
    gateway.furnish();
    Plugin more;
    more.name = "more";
    more.provide_channels = [polite](ProvideChannelsCall&) {
        return std::vector<std::shared_ptr<Channel>>(1, polite);
    };
    gateway.framework->add(std::move(more));
    gateway.run(nothing);
    EXPECT_EQ(polite->shown, Texts{"goodbye"});
}

TEST(ChannelLife, NoChannel_IsAnError) {
    Gateway gateway;
    gateway.options.channels = {"unknown"};
    gateway.furnish();
    EXPECT_THROW(cubepi::run(gateway.manager->run()), cubepi::Error);
}

TEST(ChannelLife, SecondRunOfManager_IsAnError) {
    Gateway gateway;
    gateway.run(nothing);
    EXPECT_THROW(cubepi::run(gateway.manager->run()), cubepi::Error);
}

TEST(ChannelLife, D7_Shutdown_CancelsTurnsAndReportsDroppedMessages) {
    Gateway gateway;
    gateway.hold("one");
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "1", "two"));
    });
    EXPECT_EQ(gateway.begun, Texts{"one"});
    EXPECT_TRUE(gateway.done.empty());
    ASSERT_EQ(gateway.warnings.size(), 1u);
    EXPECT_NE(gateway.warnings.front().find("messages dropped at shutdown: 1"), std::string::npos);
    EXPECT_EQ(gateway.warnings.front().find("two"), std::string::npos) << "B13: no bodies";
    EXPECT_TRUE(gateway.operator_log.contains("<4>channel.messages_dropped messages=1\n"));
    EXPECT_THROW(cubepi::run(gateway.handler(from("chat", "1", "late"))), cubepi::Error);
}

TEST(ChannelLife, StopToken_EndsTheRun) {
    Gateway gateway;
    gateway.furnish();
    std::stop_source stop;
    stop.request_stop();
    cubepi::run(gateway.manager->run(stop.get_token()));
    EXPECT_EQ(gateway.framework->router(), nullptr);
}

TEST(ChannelLife, CancelledRun_StopsTheChannelsAndRethrows) {
    Gateway gateway;
    Texts log;
    line_up(gateway, log);
    gateway.furnish();
    std::stop_source stop;
    const auto ends = [](Gateway& h, std::stop_source source) -> Task<> {
        co_await h.clock->sleep_for(std::chrono::seconds(1));
        source.request_stop();
    };
    const auto both = [&]() -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor, cubepi::ScopePolicy::collect);
        scope.spawn(cubepi::cancel_on(stop.get_token(), gateway.manager->run()));
        scope.spawn(ends(gateway, stop));
        const std::exception_ptr failure = co_await scope.join_failure();
        EXPECT_TRUE(cubepi::is_cancellation(failure));
    };
    cubepi::testing::run_advancing(*gateway.clock, both());
    EXPECT_EQ(log, (Texts{"start a", "start b", "start c", "stop c", "stop b", "stop a"}));
}

TEST(Admission, B8_FailingHook_RefusesTheMessage) {
    Gateway gateway;
    gateway.on_admit = Trouble::fails;
    gateway.run([](Gateway& h) -> Task<> {
        EXPECT_THROW(co_await h.handler(from("chat", "1", "one")), std::runtime_error);
        co_await h.manager->idle();
    });
    EXPECT_TRUE(gateway.begun.empty());
    EXPECT_EQ(gateway.errors, Texts{"admit_message"});
}

TEST(Admission, B8_MessageWithoutSession_IsRefused) {
    Gateway gateway;
    gateway.on_resolve = Trouble::fails;
    gateway.run([](Gateway& h) -> Task<> {
        EXPECT_THROW(co_await h.handler(from("chat", "1", "lost")), std::runtime_error);
        co_await h.handler(from("chat", "1", "found"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, Texts{"found"});
    EXPECT_EQ(gateway.errors, Texts{"resolve_session"});
}

TEST(Admission, D7_HangingHook_HoldsUpOneSenderUntilAborted) {
    Gateway gateway;
    gateway.on_resolve = Trouble::hangs;
    gateway.run([](Gateway& h) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor, cubepi::ScopePolicy::collect);
        scope.spawn(h.handler(from("chat", "1", "lost")));
        scope.spawn(h.handler(from("chat", "1", "behind it")));
        co_await h.handler(from("chat", "2", "other"));
        co_await h.until_begun(1);
        EXPECT_EQ(h.begun, Texts{"other"});
        co_await h.manager->abort_session("chat:1");
        const std::exception_ptr refused = co_await scope.join_failure();
        EXPECT_TRUE(cubepi::is_cancellation(refused));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, (Texts{"other", "behind it"}));
}

TEST(Admission, MessageOfStoppedChannel_IsRefused) {
    Gateway gateway;
    gateway.run([](Gateway& h) -> Task<> {
        EXPECT_THROW(co_await h.handler(from("nowhere", "1", "x")), cubepi::Error);
        EXPECT_THROW(co_await h.handler(Envelope("x")), cubepi::Error);
    });
    EXPECT_TRUE(gateway.begun.empty());
}

TEST(Output, FailingOrHangingChannel_ConcernsItsTurnAlone) {
    for (const Trouble trouble : {Trouble::fails, Trouble::hangs}) {
        Gateway gateway;
        gateway.channels.push_back(std::make_shared<TestChannel>("bad"));
        gateway.channels.back()->on_send = trouble;
        gateway.run([trouble](Gateway& h) -> Task<> {
            co_await h.handler(from("bad", "1", "one"));
            co_await h.handler(from("chat", "1", "two"));
            co_await h.until_begun(2);
            if (trouble == Trouble::hangs) h.manager->cancel_turn("bad:1");
            co_await h.manager->idle();
        });
        EXPECT_EQ(gateway.channel->texts(), Texts{"re: two"});
        EXPECT_EQ(gateway.done, (Texts{"one", "two"}));
    }
}

Envelope update(const std::string& chat, const std::string& text, const std::string& id) {
    Envelope message = from("chat", chat, text);
    message.inbound_id = id;
    return message;
}

Texts unfinished(MemoryDeliveryLog& log) {
    Texts texts;
    for (const StoredInbound& one : cubepi::run(log.unfinished()))
        texts.push_back(one.message.content_text());
    return texts;
}

TEST(Draining, B27_RunningTurn_EndsAndIsAnswered) {
    Gateway gateway;
    gateway.hold("one");
    std::size_t cancelled = 99;
    gateway.run([&](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.until_begun(1);
        cubepi::TaskScope scope(co_await cubepi::this_executor);
        const auto drain = [&]() -> Task<> {
            cancelled = co_await h.manager->drain(std::chrono::seconds(30));
        };
        scope.spawn(drain());
        co_await cubepi::yield_now();
        h.release("one");
        co_await scope.join();
    });
    EXPECT_EQ(cancelled, 0u);
    EXPECT_EQ(gateway.channel->texts(), Texts{"re: one"});
}

TEST(Draining, B27_ArrivingMessages_AreDeliveredAtNextStart) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    {
        Gateway gateway;
        gateway.options.deliveries = log;
        gateway.hold("one");
        gateway.run([](Gateway& h) -> Task<> {
            co_await h.handler(update("1", "one", "u1"));
            co_await h.until_begun(1);
            co_await h.handler(update("1", "waits", "u2"));
            cubepi::TaskScope scope(co_await cubepi::this_executor);
            const auto drain = [&h]() -> Task<> {
                (void)co_await h.manager->drain(std::chrono::seconds(30));
            };
            scope.spawn(drain());
            co_await cubepi::yield_now();
            co_await h.handler(update("1", "same session", "u3"));
            co_await h.handler(update("2", "other session", "u4"));
            h.release("one");
            co_await scope.join();
        });
        EXPECT_EQ(gateway.begun, Texts{"one"});
    }
    EXPECT_EQ(unfinished(*log), (Texts{"waits", "same session", "other session"}));
    Gateway next;
    next.options.deliveries = log;
    next.run([](Gateway& h) -> Task<> { co_await h.manager->idle(); });
    EXPECT_EQ(next.done.size(), 3u);
    EXPECT_TRUE(unfinished(*log).empty());
}

TEST(Draining, B27_Message_DoesNotSteerAnEndingTurn) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("one");
    gateway.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        if (message.content_text() != "one") decision.action = AdmitAction::steer;
        return decision;
    };
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "one", "u1"));
        co_await h.until_begun(1);
        cubepi::TaskScope scope(co_await cubepi::this_executor);
        const auto drain = [&h]() -> Task<> {
            (void)co_await h.manager->drain(std::chrono::seconds(30));
        };
        scope.spawn(drain());
        co_await cubepi::yield_now();
        co_await h.handler(update("1", "also", "u2"));
        EXPECT_EQ(h.inbox->count("chat:1"), 0u);
        h.release("one");
        co_await scope.join();
    });
    EXPECT_EQ(unfinished(*log), Texts{"also"});
}

TEST(Draining, B27_UnendingTurn_IsCancelledAndComesAgain) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    std::size_t cancelled = 0;
    {
        Gateway gateway;
        gateway.options.deliveries = log;
        gateway.hold("one");
        gateway.run([&](Gateway& h) -> Task<> {
            co_await h.handler(update("1", "one", "u1"));
            co_await h.until_begun(1);
            cancelled = co_await h.manager->drain(std::chrono::seconds(30));
        });
        EXPECT_EQ(cancelled, 1u);
        EXPECT_TRUE(gateway.channel->sent.empty());
    }
    Gateway next;
    next.options.deliveries = log;
    next.run([](Gateway& h) -> Task<> { co_await h.manager->idle(); });
    EXPECT_EQ(next.done, Texts{"one"});
    EXPECT_EQ(next.channel->texts(), Texts{"re: one"});
}

TEST(Draining, B27_UnrecordedMessage_IsRejected) {
    Gateway gateway;
    gateway.hold("one");
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.until_begun(1);
        cubepi::TaskScope scope(co_await cubepi::this_executor);
        const auto drain = [&h]() -> Task<> {
            (void)co_await h.manager->drain(std::chrono::seconds(30));
        };
        scope.spawn(drain());
        co_await cubepi::yield_now();
        Task<> sending = h.handler(from("chat", "2", "late"));
        const cubepi::Outcome<> late = co_await cubepi::outcome_of(std::move(sending));
        EXPECT_FALSE(late);
        h.release("one");
        co_await scope.join();
    });
    EXPECT_EQ(gateway.begun, Texts{"one"});
}

TEST(Draining, B27_SecondRequest_EndsTheWait) {
    Gateway gateway;
    gateway.hold("one");
    std::size_t cancelled = 0;
    gateway.run([&](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.until_begun(1);
        cubepi::TaskScope scope(co_await cubepi::this_executor);
        const auto drain = [&]() -> Task<> {
            cancelled = co_await h.manager->drain(std::chrono::hours(1));
        };
        scope.spawn(drain());
        co_await cubepi::yield_now();
        h.manager->request_stop();
        co_await scope.join();
    });
    EXPECT_LE(gateway.clock->now().time_since_epoch(), std::chrono::hours(1));
    EXPECT_TRUE(gateway.channel->sent.empty());
}

TEST(Draining, Sessions_AreListedWithTheirMessages) {
    Gateway gateway;
    gateway.hold("one");
    gateway.run([](Gateway& h) -> Task<> {
        EXPECT_TRUE(h.manager->sessions().empty());
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "1", "two"));
        co_await h.until_begun(1);
        const std::vector<TurnSnapshot> sessions = h.manager->sessions();
        EXPECT_EQ(sessions.size(), 1u);
        EXPECT_EQ(sessions.front().session_id, "chat:1");
        EXPECT_TRUE(sessions.front().is_running);
        EXPECT_EQ(sessions.front().pending_count, 1u);
        h.release("one");
        co_await h.manager->idle();
    });
}

}  // namespace
}  // namespace bub::channel_tests
