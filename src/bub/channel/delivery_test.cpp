#include <bub/channel/delivery_log.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/delivery/delivery_records.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

TEST(Delivery, B18_Delivery_IsRecordedAsIntendedThenSent) {
    Gateway gateway;
    const auto log = std::make_shared<WatchedLog>();
    gateway.options.deliveries = log;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(log->order,
              (Texts{"receive one", "begin 1", "intend re: one", "sent 2", "finish 1"}));
    EXPECT_TRUE(cubepi::run(log->unsettled()).empty());
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

TEST(Delivery, D42_MessagesOfATurn_SurviveRewriteTogether) {
    constexpr std::size_t remembered = 10;
    detail::DeliveryRecords records(remembered);
    for (const char* text : {"a", "b", "c"})
        records.apply(records.received(from("chat", "1", text), "today"));
    records.apply(detail::DeliveryRecords::about("begun", {"1", "2"}));
    records.apply(detail::DeliveryRecords::about("back", {"1", "2"}));
    detail::DeliveryRecords again(remembered);
    for (const JsonObject& record : records.all()) again.apply(record);
    for (const auto& unfinished : {records.unfinished(), again.unfinished()}) {
        ASSERT_EQ(unfinished.size(), 3u);
        EXPECT_EQ(unfinished[0].turn, "1");
        EXPECT_EQ(unfinished[1].turn, "1") << "also when the turn was ended in good order";
        EXPECT_EQ(unfinished[2].turn, "");
    }
}

TEST(Delivery, B18_RefusedDelivery_IsSettledUnlikeCancelledOne) {
    for (const Trouble trouble : {Trouble::fails, Trouble::hangs}) {
        Gateway gateway;
        const auto log = std::make_shared<WatchedLog>();
        gateway.options.deliveries = log;
        gateway.channel->on_send = trouble;
        gateway.run([trouble](Gateway& h) -> Task<> {
            co_await h.handler(from("chat", "1", "one"));
            co_await h.until_begun(1);
            if (trouble == Trouble::hangs) h.manager->cancel_turn("chat:1");
            co_await h.manager->idle();
        });
        EXPECT_EQ(cubepi::run(log->unsettled()).size(), trouble == Trouble::hangs ? 1u : 0u);
    }
}

TEST(Delivery, B18_UnknownFate_FollowsTheChannelsPolicy) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    for (const char* channel : {"again", "held", "chat", "gone"})
        cubepi::run(log->intend(from(channel, "1", std::string("to ") + channel), {}));
    Gateway gateway;
    const auto again = std::make_shared<DecidedChannel>("again", UnsettledPolicy::resend);
    const auto held = std::make_shared<DecidedChannel>("held", UnsettledPolicy::hold);
    gateway.channels.push_back(again);
    gateway.channels.push_back(held);
    gateway.options.deliveries = log;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(again->texts(), Texts{"to again"});
    EXPECT_EQ(again->sent.front().context["resent"], true);
    EXPECT_TRUE(held->sent.empty());
    EXPECT_EQ(gateway.channel->texts(), Texts{"re: one"});
    EXPECT_EQ(cubepi::run(log->unsettled()).size(), 3u) << "held until the operator decides";
    ASSERT_EQ(gateway.warnings.size(), 1u);
    EXPECT_NE(gateway.operator_log.text(), "");
    EXPECT_NE(gateway.warnings.front().find(
                  "answers held for the operator, because they may or may not have been sent (3)"),
              std::string::npos);
}

/// A log of several processes that notes what it records about finished messages and sent answers. The first end of a message fails, together
/// with the answer that was to be recorded with it, which is known later.
class SharedLog final : public MemoryDeliveryLog {
public:
    Task<> record(DeliveryNote what, std::vector<std::string> ids, std::string detail) override {
        const bool is_end = what == DeliveryNote::finished;
        if (is_end && fails) {
            fails = false;
            throw std::runtime_error("no connection");
        }
        if (is_end) notes.push_back("finished" + detail);
        if (what == DeliveryNote::sent) notes.emplace_back("sent");
        Task<> recording = MemoryDeliveryLog::record(what, std::move(ids), std::move(detail));
        co_await std::move(recording);
    }
    Task<> sent_soon(std::string) override {
        co_await known.wait();
        throw std::runtime_error("no connection");
    }
    Task<UnfinishedRecords> take() override { co_return UnfinishedRecords(); }
    std::optional<std::chrono::nanoseconds> poll_interval() const override {
        return std::chrono::seconds(1);
    }

    Texts notes;
    cubepi::AsyncEvent known;
    bool fails = false;
};

/// A log of several processes whose second take() returns two answered messages, and another one. The end of the first is not recorded for
/// long.
class SlowEnds final : public MemoryDeliveryLog {
public:
    Task<> record(DeliveryNote what, std::vector<std::string> ids, std::string detail) override {
        if (ids.front() == first) co_return co_await recorded.wait();
        co_await MemoryDeliveryLog::record(what, std::move(ids), std::move(detail));
    }
    Task<UnfinishedRecords> take() override {
        UnfinishedRecords records;
        if (++takes != 2) co_return records;
        for (const char* text : {"one", "two", "next"}) {
            StoredInbound inbound;
            inbound.message = from("chat", text, text);
            const std::optional<std::string> id = co_await receive(inbound.message);
            inbound.id = *id;
            inbound.answered = inbound.all_sent = text != std::string("next");
            records.inbounds.push_back(std::move(inbound));
        }
        first = records.inbounds.front().id;
        co_return records;
    }
    std::optional<std::chrono::nanoseconds> poll_interval() const override {
        return std::chrono::seconds(1);
    }

    std::string first;
    cubepi::AsyncEvent recorded;
    int takes = 0;
};

TEST(Delivery, D258_SlowEnd_DelaysNothingElse) {
    Gateway gateway;
    const auto log = std::make_shared<SlowEnds>();
    gateway.options.deliveries = log;
    gateway.run([log](Gateway& h) -> Task<> {
        for (int waits = 0; waits < 20 && log->takes < 4; ++waits)
            co_await h.clock->sleep_for(std::chrono::seconds(1));
        EXPECT_EQ(h.channel->texts(), Texts{"re: next"});
        EXPECT_GE(log->takes, 4) << "they renew the lease";
        const std::vector<StoredInbound> left = co_await log->unfinished();
        EXPECT_EQ(left.size(), 1u) << "the other ends are recorded";
        log->recorded.set();
        co_await h.manager->idle();
    });
}

TEST(Delivery, D272_SentAnswer_IsRecordedBeforeLateEnd) {
    Gateway gateway;
    const auto log = std::make_shared<SharedLog>();
    log->fails = true;
    gateway.options.deliveries = log;
    gateway.run([log](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        while (log->notes.size() < 2) co_await h.clock->sleep_for(std::chrono::milliseconds(1));
        log->known.set();
        co_await h.manager->idle();
    });
    EXPECT_EQ(log->notes, (Texts{"sent", "finished"}));
    EXPECT_TRUE(cubepi::run(log->unsettled()).empty());
}

TEST(Delivery, D96_StoppedTurn_IsRecordedAsStopped) {
    Gateway gateway;
    const auto log = std::make_shared<SharedLog>();
    gateway.options.deliveries = log;
    gateway.hold("one");
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.until_begun(1);
        Envelope by = from("chat", "1", "/stop");
        by.from_operator = true;
        const StopOutcome outcome = co_await h.manager->stop_turn(by);
        EXPECT_EQ(outcome, StopOutcome::stopped);
        co_await h.manager->idle();
    });
    ASSERT_FALSE(log->notes.empty());
    EXPECT_EQ(log->notes.front(), "finishedstopped");
}

Task<> count_held(ChannelManager& manager, std::size_t& count) {
    const HeldMessages held = co_await manager.held();
    count = held.inbounds.size() + held.answers.size();
}

TEST(Delivery, ManagerDestroyedDuringReading_ReportsNoHeldMessages) {
    const auto log = std::make_shared<WatchedLog>();
    cubepi::AsyncEvent readable;
    log->readable = &readable;
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.furnish();
    std::size_t count = 99;
    const auto script = [&]() -> Task<> {
        cubepi::TaskScope scope(co_await cubepi::this_executor);
        scope.spawn(count_held(*gateway.manager, count));
        gateway.manager.reset();
        readable.set();
        co_await scope.join();
    };
    cubepi::run(script());
    EXPECT_EQ(count, 0u);
}

}  // namespace
}  // namespace bub::channel_tests
