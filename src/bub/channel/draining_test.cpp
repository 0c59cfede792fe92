// B27: the end of a manager without cutting off the running turns.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>

#include <bub/channel/delivery_test_support.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

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

TEST(Draining, B27_ARunningTurnEndsAndIsAnswered) {
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

TEST(Draining, B27_MessagesThatArriveAreDeliveredAtTheNextStart) {
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

TEST(Draining, B27_AMessageDoesNotSteerATurnThatIsEnding) {
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

TEST(Draining, B27_ATurnThatDoesNotEndIsCancelledAndComesAgain) {
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

TEST(Draining, B27_AMessageThatIsNotRecordedIsRejected) {
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

TEST(Draining, B27_ASecondRequestEndsTheWait) {
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

TEST(Draining, SessionsAreListedWithTheirMessages) {
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
