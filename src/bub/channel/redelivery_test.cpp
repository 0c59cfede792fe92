// B18 across processes: how the manager handles the log of an earlier process, also one that was interrupted between the outputs of a turn.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/questions.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

Envelope update(const std::string& chat, const std::string& text, const std::string& id) {
    Envelope message = from("chat", chat, text);
    message.inbound_id = id;
    return message;
}

Task<> wait_until_idle(Gateway& gateway) { return gateway.manager->idle(); }

/// Returns a log of a process that was killed when the turn of `message` had begun `times` times.
std::shared_ptr<MemoryDeliveryLog> killed_in_turn(Envelope message, int times) {
    auto log = std::make_shared<MemoryDeliveryLog>();
    const auto id = cubepi::run(log->receive(std::move(message)));
    for (int i = 0; i < times; ++i) cubepi::run(log->begin(Texts(1, *id)));
    return log;
}

TEST(Redelivery, B18_MessageOfUnfinishedTurn_ReturnsOnceAndMarked) {
    const auto log = killed_in_turn(update("1", "one", "u1"), 1);
    Gateway gateway;
    gateway.options.deliveries = log;
    std::vector<Envelope> seen;
    gateway.channel->admit = [&](const Envelope& message) -> std::optional<AdmitDecision> {
        seen.push_back(message);
        return std::nullopt;
    };
    gateway.run(wait_until_idle);
    EXPECT_EQ(gateway.done, Texts{"one"});
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen.front().context["redelivered"], true);
    EXPECT_EQ(seen.front().inbound_id, "u1");
    EXPECT_TRUE(seen.front().is_active);
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
    EXPECT_TRUE(gateway.warnings.empty());
}

TEST(Redelivery, B18_HeldBackMessage_IsStoredAtOnce) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    const auto send = [](Gateway& to, const std::string& text) -> Task<std::shared_ptr<HeldTurn>> {
        Envelope message = update("1", text, text);
        auto held = std::make_shared<HeldTurn>();
        message.held = held;
        co_await to.handler(std::move(message));
        EXPECT_TRUE(held->is_accepted());
        co_return held;
    };
    {
        Gateway gateway;
        gateway.options.deliveries = log;
        gateway.run([&](Gateway& h) -> Task<> {
            const std::shared_ptr<HeldTurn> first = co_await send(h, "first");
            const std::shared_ptr<HeldTurn> second = co_await send(h, "second");
            (void)co_await send(h, "third");
            co_await h.handler(update("1", "other", "u1"));
            co_await h.manager->idle();
            EXPECT_EQ(h.done, Texts{"other"});
            first->begin();
            co_await h.until_begun(2);
            co_await h.manager->idle();
            second->drop();
            for (std::size_t left = 2; left > 1;) {
                const std::vector<StoredInbound> unfinished = co_await log->unfinished();
                left = unfinished.size();
                co_await h.clock->sleep_for(std::chrono::milliseconds(1));
            }
        });
        EXPECT_EQ(gateway.done, (Texts{"other", "first"}));
    }
    Gateway next;
    next.options.deliveries = log;
    next.run(wait_until_idle);
    EXPECT_EQ(next.done, Texts{"third"});
}

TEST(Redelivery, B18_MessageCrashingProcessTwice_IsHeldForOperator) {
    const auto log = killed_in_turn(update("1", "poison", "u1"), 2);
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.manager->idle();
        EXPECT_TRUE(h.begun.empty());
        const HeldMessages held = co_await h.manager->held();
        EXPECT_EQ(held.inbounds.size(), 1u);
        EXPECT_TRUE(held.answers.empty());
        co_await h.handler(update("1", "poison", "u1"));
        co_await h.manager->idle();
        EXPECT_TRUE(h.begun.empty()) << "the platform brings it again";
        co_await h.manager->release_held("1");
        co_await h.manager->idle();
        EXPECT_EQ(h.done, Texts{"poison"});
        const HeldMessages none = co_await h.manager->held();
        EXPECT_TRUE(none.inbounds.empty());
    });
    ASSERT_EQ(gateway.warnings.size(), 1u);
    EXPECT_NE(gateway.warnings.front().find(
                  "messages held for the operator, because the process ended in their turns (1)"),
              std::string::npos);
    EXPECT_NE(gateway.warnings.front().find("1 (chat, chat 1)"), std::string::npos);
    EXPECT_EQ(gateway.warnings.front().find("poison"), std::string::npos) << "B13: no bodies";
    EXPECT_TRUE(gateway.operator_log.contains("<4>recovery.messages_held count=1\n"));
    EXPECT_FALSE(gateway.operator_log.contains("poison"));
}

TEST(Redelivery, B18_MessageDuringRecovery_IsRefused) {
    const auto log = std::make_shared<WatchedLog>();
    cubepi::AsyncEvent readable;
    log->readable = &readable;
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.run([&](Gateway& h) -> Task<> {
        EXPECT_THROW((void)h.manager->receive(update("1", "early", "u1")), SenderError);
        readable.set();
        co_await h.manager->started();
        co_await h.manager->receive(update("1", "later", "u2"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{"later"});
}

TEST(Redelivery, B18_BegunCommand_IsNotRunAgain) {
    for (const int times : {0, 1}) {
        Envelope command = update("1", ",deploy", "u1");
        command.from_operator = true;
        const auto log = killed_in_turn(std::move(command), times);
        Gateway gateway;
        gateway.options.deliveries = log;
        gateway.run(wait_until_idle);
        EXPECT_EQ(gateway.begun.size(), times == 0 ? 1u : 0u);
        EXPECT_EQ(cubepi::run(log->unfinished()).size(), times == 0 ? 0u : 1u);
    }
}

TEST(Redelivery, B18_MessageBeingAnswered_IsNotAnsweredTwice) {
    for (const bool arrived : {true, false}) {
        const auto log = killed_in_turn(update("1", "one", "u1"), 1);
        const std::string id =
            cubepi::run(log->intend(from("chat", "1", "re: one"), Texts(1, "1")));
        if (arrived) cubepi::run(log->sent(id));
        Gateway gateway;
        gateway.options.deliveries = log;
        gateway.run(wait_until_idle);
        EXPECT_TRUE(gateway.begun.empty());
        EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
        EXPECT_EQ(cubepi::run(log->unsettled()).size(), arrived ? 0u : 1u);
        ASSERT_FALSE(gateway.warnings.empty());
        EXPECT_NE(gateway.warnings.back().find("while these turns were being answered"),
                  std::string::npos);
    }
}

TEST(Redelivery, B18_ErrorMessage_IsNotAnAnswer) {
    const auto log = killed_in_turn(update("1", "one", "u1"), 1);
    Envelope error = from("chat", "1", "the model is slow");
    error.kind = std::string(envelope_kind::error);
    cubepi::run(log->sent(cubepi::run(log->intend(std::move(error), Texts(1, "1")))));
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.run(wait_until_idle);
    EXPECT_EQ(gateway.done, Texts{"one"});
}

TEST(Redelivery, B18_MessageRepeatedByPlatform_IsAcceptedOnce) {
    Gateway gateway;
    gateway.options.deliveries = std::make_shared<MemoryDeliveryLog>();
    gateway.channels.push_back(std::make_shared<TestChannel>("other"));
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "one", "u1"));
        co_await h.handler(update("1", "one", "u1"));
        co_await h.manager->idle();
        co_await h.handler(update("1", "one", "u1"));
        Envelope elsewhere = from("other", "1", "not the same");
        elsewhere.inbound_id = "u1";
        co_await h.handler(std::move(elsewhere));
        co_await h.handler(from("chat", "1", "no id"));
        co_await h.handler(from("chat", "1", "no id"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(std::count(gateway.done.begin(), gateway.done.end(), "one"), 1);
    EXPECT_EQ(std::count(gateway.done.begin(), gateway.done.end(), "not the same"), 1);
    EXPECT_EQ(std::count(gateway.done.begin(), gateway.done.end(), "no id"), 2);
}

TEST(Redelivery, B18_UnstorableMessage_IsNotAccepted) {
    Gateway gateway;
    const auto log = std::make_shared<WatchedLog>();
    log->dies_at = 1;
    gateway.options.deliveries = log;
    gateway.run([](Gateway& h) -> Task<> {
        EXPECT_THROW(co_await h.handler(update("1", "one", "u1")), std::runtime_error);
        co_await h.manager->idle();
    });
    EXPECT_TRUE(gateway.begun.empty());
}

TEST(Redelivery, B18_UnrecordableAnswer_IsNotSent) {
    Gateway gateway;
    const auto log = std::make_shared<WatchedLog>();
    log->dies_at = 5;  // receive, begin, intend
    gateway.options.deliveries = log;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "one", "u1"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{"one"});
    EXPECT_TRUE(gateway.channel->sent.empty());
    EXPECT_EQ(gateway.errors, Texts{"turn"});
}

TEST(Redelivery, B18_WaitingMessagesAndEndedTurn_ComeAgain) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway first;
    first.options.deliveries = log;
    first.hold("one");
    first.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two", "three"})
            co_await h.handler(update("1", text, text));
    });
    EXPECT_EQ(first.begun, Texts{"one"});
    EXPECT_EQ(first.warnings, Texts{"messages to be delivered at the next start: 2"});
    EXPECT_EQ(cubepi::run(log->unfinished()).front().begun, 0u) << "ended in good order";
    Gateway second;
    second.options.deliveries = log;
    second.run(wait_until_idle);
    EXPECT_EQ(second.done, (Texts{"one", "two", "three"}));
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

TEST(Redelivery, B18_AbortedMessage_IsNotRedelivered) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("one");
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two"}) co_await h.handler(update("1", text, text));
        co_await h.manager->abort_session("chat:1");
        co_await h.manager->idle();
    });
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

TEST(Redelivery, B18_DroppedRefusedOrSteeredMessages_AreSettled) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.options.max_waiting = 1;
    gateway.hold("one");
    gateway.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        if (message.content_text() == "drop") decision.action = AdmitAction::drop;
        if (message.content_text() == "steer") decision.action = AdmitAction::steer;
        if (message.content_text() == "bad") throw std::runtime_error("no opinion");
        return decision;
    };
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "drop", "steer", "two"})
            co_await h.handler(update("1", text, text));
        EXPECT_THROW(co_await h.handler(update("1", "three", "three")), cubepi::Error);
        EXPECT_THROW(co_await h.handler(update("1", "bad", "bad")), std::runtime_error);
        (void)h.inbox->drain("chat:1");
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"one", "two"}));
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

TEST(Redelivery, B18_ReceiptOfSteeredMessage_StaysWithIt) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("one");
    gateway.hold("steer a");
    gateway.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        if (message.content_text().starts_with("steer")) decision.action = AdmitAction::steer;
        return decision;
    };
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "steer a", "steer b"})
            co_await h.handler(update("1", text, text));
        // The turn takes only the second message, and a plugin adds one of its own.
        std::vector<Envelope> waiting = h.inbox->drain("chat:1");
        EXPECT_TRUE(h.inbox->enqueue("chat:1", from("chat", "1", "from a plugin")));
        EXPECT_TRUE(h.inbox->enqueue("chat:1", waiting.at(0)));
        h.release("one");
        co_await h.until_begun(2);
    });
    EXPECT_EQ(gateway.begun, (Texts{"one", "steer a"}));
    const std::vector<StoredInbound> left = cubepi::run(log->unfinished());
    ASSERT_EQ(left.size(), 1u) << "of the messages with a receipt, the turn of one did not end";
    EXPECT_EQ(left.front().message.content_text(), "steer a");
}

TEST(Redelivery, B18_EqualSteeredMessages_HaveTheirOwnReceipts) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("one");
    gateway.hold("go");
    gateway.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        if (message.content_text() == "go") decision.action = AdmitAction::steer;
        return decision;
    };
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "one", "u1"));
        co_await h.handler(update("1", "go", "u2"));
        co_await h.handler(update("1", "go", "u3"));
        // The turn accepts the first of them and returns the second.
        std::vector<Envelope> steered = h.inbox->drain("chat:1");
        EXPECT_TRUE(h.inbox->enqueue("chat:1", steered.at(1)));
        h.release("one");
        co_await h.until_begun(2);
    });
    EXPECT_EQ(gateway.begun, (Texts{"one", "go"}));
    const std::vector<StoredInbound> left = cubepi::run(log->unfinished());
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left.front().message.inbound_id, "u3");
}

TEST(Redelivery, B18_CollectedMessages_AreMergedAgain) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway first;
    first.options.deliveries = log;
    first.channel->debounced = true;
    first.run([](Gateway& h) -> Task<> {
        for (const char* text : {"a", "b"}) co_await h.handler(update("1", text, text));
        co_await h.handler(update("2", "c", "c"));
        Envelope overheard = update("3", "overheard", "d");
        overheard.is_active = false;
        co_await h.handler(std::move(overheard));
    });
    EXPECT_EQ(first.warnings, Texts{"messages to be delivered at the next start: 3"});
    EXPECT_EQ(cubepi::run(log->unfinished()).size(), 3u) << "an overheard message is not stored";
    Gateway second;
    second.options.deliveries = log;
    second.channel->debounced = true;
    second.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "b", "b"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(second.done, (Texts{"a\nb", "c"}));
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

TEST(Redelivery, D42_MessagesOfOnePrompt_BecomeThatPromptAgain) {
    for (const int times : {1, 2}) {
        SCOPED_TRACE(times);
        const auto log = std::make_shared<MemoryDeliveryLog>();
        for (const char* text : {"a", "b", "c"})
            (void)cubepi::run(log->receive(update("1", text, text)));
        for (int i = 0; i < times; ++i) cubepi::run(log->begin(Texts({"1", "2"})));
        Gateway gateway;
        gateway.options.deliveries = log;
        gateway.channel->debounced = true;
        Texts ids;
        gateway.channel->admit = [&](const Envelope& message) -> std::optional<AdmitDecision> {
            ids.push_back(message.inbound_id.value_or(""));
            return std::nullopt;
        };
        gateway.run([times](Gateway& h) -> Task<> {
            co_await h.manager->idle();
            if (times == 1) co_return;
            EXPECT_EQ(h.done, Texts{"c"});
            co_await h.manager->release_held("1");
            co_await h.manager->idle();
        });
        EXPECT_EQ(gateway.done, times == 1 ? (Texts{"a\nb", "c"}) : (Texts{"c", "a\nb"}));
        EXPECT_EQ(ids, times == 1 ? (Texts{"b", "c"}) : (Texts{"c", "b"}));
    }
}

TEST(Redelivery, B26_RedeliveredMessages_AreMergedPerSenderOnly) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    for (const char* id : {"a42", "b42", "c43", "d42"}) {
        Envelope message = update("1", id, id);
        message.context["sender_id"] = std::string(id).substr(1);
        (void)cubepi::run(log->receive(std::move(message)));
    }
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.channel->debounced = true;
    gateway.run(wait_until_idle);
    EXPECT_EQ(gateway.done, (Texts{"a42\nb42", "c43", "d42"}));
}

TEST(Redelivery, B18_RedeliveredMessage_IsRestoredAndComesFirst) {
    const auto log = killed_in_turn(update("1", "old", "u1"), 1);
    Gateway gateway;
    gateway.options.deliveries = log;
    const auto channel = std::make_shared<DecidedChannel>("chat", UnsettledPolicy::resend);
    gateway.channels = {channel};
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "new", "u2"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(channel->restored, Texts{"old"});
    EXPECT_EQ(gateway.done, (Texts{"old", "new"}));
}

TEST(Redelivery, B18_UnrestorableMessage_ComesAllTheSame) {
    Gateway gateway;
    gateway.options.deliveries = killed_in_turn(update("1", "one", "u1"), 1);
    const auto channel = std::make_shared<DecidedChannel>("chat", UnsettledPolicy::resend);
    channel->on_restore = Trouble::fails;
    gateway.channels = {channel};
    gateway.run(wait_until_idle);
    EXPECT_EQ(gateway.done, Texts{"one"});
    EXPECT_EQ(gateway.warnings.size(), 1u);
}

TEST(Redelivery, B18_FullDisk_AnswerIsResentLater) {
    const auto log = std::make_shared<WatchedLog>(killed_in_turn(update("1", "one", "u1"), 1));
    (void)cubepi::run(log->intend(from("chat", "1", "re: one"), Texts(1, "1")));
    log->failing_resends = 3;
    Gateway gateway;
    gateway.options.deliveries = log;
    const auto channel = std::make_shared<DecidedChannel>("chat", UnsettledPolicy::resend);
    gateway.channels = {channel};
    gateway.run(wait_until_idle);
    EXPECT_EQ(channel->texts(), Texts{"re: one"});
    EXPECT_TRUE(cubepi::run(log->unsettled()).empty());
}

TEST(Redelivery, B18_MessagesOfStoppedChannel_WaitForIt) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    cubepi::run(log->receive(from("gone", "1", "one")));
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.run(wait_until_idle);
    EXPECT_EQ(cubepi::run(log->unfinished()).size(), 1u);
    ASSERT_EQ(gateway.warnings.size(), 1u);
    EXPECT_NE(gateway.warnings.front().find("channels that are not running"), std::string::npos);
}

TEST(Redelivery, B18_UserInterfaceMessages_AreNotRecorded) {
    const auto log = std::make_shared<WatchedLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.options.channels = {"cli"};
    gateway.channels = {std::make_shared<TestChannel>("cli", ChannelRole::user_interface)};
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("cli", "1", "one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.channels.front()->texts(), Texts{"re: one"});
    EXPECT_TRUE(log->order.empty());
}

TEST(Redelivery, B18_HeldAnswer_IsSentOrForgottenByOperator) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    cubepi::run(log->intend(from("chat", "1", "first"), {}));
    cubepi::run(log->intend(from("chat", "1", "second"), {}));
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.manager->idle();
        const HeldMessages held = co_await h.manager->held();
        EXPECT_EQ(held.answers.size(), 2u);
        co_await h.manager->release_held("1");
        co_await h.manager->discard_held("2");
        EXPECT_THROW(co_await h.manager->release_held("2"), cubepi::Error);
        EXPECT_THROW(co_await h.manager->discard_held("99"), cubepi::Error);
    });
    EXPECT_EQ(gateway.channel->texts(), Texts{"first"});
    EXPECT_EQ(gateway.channel->sent.front().context["resent"], true);
    EXPECT_TRUE(cubepi::run(log->unsettled()).empty());
}

TEST(Redelivery, B18_Answer_IsNotResentForever) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    const std::string id = cubepi::run(log->intend(from("chat", "1", "ends the process"), {}));
    for (int i = 0; i < 3; ++i) cubepi::run(log->resend(id));
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.channels = {std::make_shared<DecidedChannel>("chat", UnsettledPolicy::resend)};
    gateway.run(wait_until_idle);
    EXPECT_TRUE(gateway.channels.front()->sent.empty());
    EXPECT_EQ(cubepi::run(log->unsettled()).size(), 1u);
}

TEST(Redelivery, B18_UnsendableAnswer_DelaysNoOtherChannelAtStart) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    (void)cubepi::run(log->intend(from("dead", "1", "old"), {}));
    Gateway gateway;
    gateway.options.deliveries = log;
    const auto dead = std::make_shared<DecidedChannel>("dead", UnsettledPolicy::resend);
    dead->on_send = Trouble::hangs;
    gateway.channels.push_back(dead);
    gateway.run([&](Gateway& h) -> Task<> {
        co_await h.manager->started();
        while (dead->sends == 0) co_await cubepi::yield_now();
        co_await h.handler(update("1", "one", "u1"));
        while (h.channel->sent.empty()) co_await cubepi::yield_now();
        // The answers of a session stay in order.
        co_await h.handler(from("dead", "1", "new"));
        EXPECT_EQ(dead->sends, 1u);
        EXPECT_EQ(h.done, Texts{"one"});
    });
    EXPECT_EQ(gateway.channel->texts(), Texts{"re: one"});
    EXPECT_EQ(cubepi::run(log->unsettled()).size(), 1u);
}

/// A platform that delivers unconfirmed messages again.
struct Platform {
    std::vector<std::pair<std::string, std::string>> updates = {
        {"1", "one"}, {"2", "other"}, {"1", "steer it"}, {"1", "two"}};
    std::map<std::string, bool> confirmed;
    std::map<std::string, int> answers;
    std::map<std::string, int> marked;

    Task<> bring(Gateway& gateway) {
        for (const auto& [chat, text] : updates) {
            if (confirmed[text]) continue;
            try {
                co_await gateway.handler(update(chat, text, text));
                confirmed[text] = true;
            } catch (const std::exception&) {
                continue;
            }
        }
    }
    void read(const TestChannel& channel) {
        for (const Envelope& message : channel.sent) {
            ++answers[message.content_text()];
            if (message.context.contains("resent")) ++marked[message.content_text()];
        }
    }
};

TEST(Redelivery, B18_CrashAtAnyRecord_LosesAndDoublesNothing) {
    std::size_t marked = 0;
    for (std::size_t at = 1;; ++at) {
        SCOPED_TRACE("the process ends at step " + std::to_string(at));
        Platform platform;
        const auto stored = std::make_shared<MemoryDeliveryLog>();
        bool died = true;
        for (const bool dies : {true, false}) {
            Gateway gateway;
            const auto log = std::make_shared<WatchedLog>(stored);
            log->dies_at = dies ? at : 0;
            gateway.options.deliveries = log;
            const auto channel = std::make_shared<DecidedChannel>("chat", UnsettledPolicy::resend);
            channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
                AdmitDecision decision;
                if (message.content_text() == "steer it") decision.action = AdmitAction::steer;
                return decision;
            };
            gateway.channels = {channel};
            gateway.run([&platform](Gateway& h) -> Task<> {
                co_await platform.bring(h);
                co_await h.manager->idle();
            });
            platform.read(*channel);
            if (dies) died = log->dead();
        }
        for (const auto& [chat, text] : platform.updates) {
            const std::string answer = "re: " + text;
            EXPECT_GE(platform.answers[answer], 1) << text << " is lost";
            EXPECT_LE(platform.answers[answer] - platform.marked[answer], 1) << text;
            marked += static_cast<std::size_t>(platform.marked[answer]);
        }
        EXPECT_TRUE(cubepi::run(stored->unfinished()).empty());
        EXPECT_TRUE(cubepi::run(stored->unsettled()).empty());
        if (!died) break;
        ASSERT_LT(at, 200u);
    }
    EXPECT_GT(marked, 0u);
}

/// Returns a log with one received message.
std::shared_ptr<MemoryDeliveryLog> log_with_message() {
    auto log = std::make_shared<MemoryDeliveryLog>();
    Envelope message = from("chat", "1", "one");
    message.inbound_id = "u1";
    (void)cubepi::run(log->receive(std::move(message)));
    return log;
}

/// Sends each answer in three parts.
Plugin in_parts() {
    Plugin plugin;
    plugin.name = "in parts";
    plugin.render_outbound = [](RenderOutboundCall& call) {
        std::vector<Envelope> parts;
        for (const char* which : {"a", "b", "c"}) {
            Envelope part = from("chat", "1", call.model_output + " " + which);
            part.session_id = call.session_id;
            parts.push_back(std::move(part));
        }
        return EnvelopeBatch(std::move(parts));
    };
    return plugin;
}

TEST(Redelivery, D42_InterruptedAnswerOfSeveralOutputs_IsCompletedOnce) {
    std::size_t marked = 0;
    std::size_t completed = 0;
    for (std::size_t at = 1;; ++at) {
        SCOPED_TRACE("the process ends at step " + std::to_string(at));
        const auto stored = log_with_message();
        std::map<std::string, int> plain;
        std::map<std::string, int> again;
        bool died = true;
        std::size_t turns = 0;
        for (const bool dies : {true, false}) {
            Gateway gateway;
            const auto log = std::make_shared<WatchedLog>(stored);
            log->dies_at = dies ? at : 0;
            gateway.options.deliveries = log;
            const auto channel = std::make_shared<DecidedChannel>("chat", UnsettledPolicy::resend);
            gateway.channels = {channel};
            gateway.framework->add(in_parts());
            gateway.run(wait_until_idle);
            for (const Envelope& message : channel->sent)
                ++(message.context.contains("resent") ? again : plain)[message.content_text()];
            turns += gateway.done.size();
            if (!dies) {
                EXPECT_TRUE(gateway.warnings.empty());
            }
            if (dies) died = log->dead();
        }
        for (const char* part : {"re: one a", "re: one b", "re: one c"}) {
            EXPECT_GE(plain[part] + again[part], 1) << part << " is lost";
            EXPECT_LE(plain[part], 1) << part << " was sent twice";
            marked += static_cast<std::size_t>(again[part]);
        }
        if (died && turns == 1) ++completed;
        EXPECT_TRUE(cubepi::run(stored->unfinished()).empty());
        EXPECT_TRUE(cubepi::run(stored->unsettled()).empty());
        if (!died) break;
        ASSERT_LT(at, 100u);
    }
    EXPECT_GE(marked, 3u);
    EXPECT_GE(completed, 6u) << "the model is not asked again once the answer is known";
}

TEST(Redelivery, B18_RemainingOutputs_WaitForTheirChannel) {
    const auto log = log_with_message();
    cubepi::run(log->begin(Texts(1, "1")));
    std::vector<TurnOutput> outputs;
    for (const char* text : {"first", "second"}) {
        outputs.emplace_back(from("chat", "1", text), outputs.size(), 2).message.session_id =
            "chat:1";
    }
    cubepi::run(log->plan(outputs, Texts(1, "1")));
    for (const bool served : {false, true}) {
        Gateway gateway;
        gateway.options.deliveries = log;
        const auto other = std::make_shared<TestChannel>("other");
        if (!served) gateway.channels = {other};
        gateway.run(wait_until_idle);
        EXPECT_TRUE(gateway.begun.empty()) << "the model has answered already";
        EXPECT_EQ(gateway.warnings.size(), served ? 0u : 1u);
        EXPECT_EQ(gateway.channel->texts(), served ? Texts({"first", "second"}) : Texts());
    }
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

Envelope stop_request(const std::string& id) {
    Envelope by = update("1", "/stop", id);
    by.from_operator = true;
    return by;
}

TEST(Redelivery, D265_RefusedStop_IsRecordedAsRefused) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("one");
    (void)cubepi::run(log->receive(update("1", "one", "u1")));
    // The turn on it begins first, and then the request is found, which another gateway has stored.
    cubepi::run(log->begin({"1"}));
    Envelope other = update("1", "/stop", "k1");
    other.context["sender_id"] = "bob";
    (void)cubepi::run(log->receive(withdrawal_of(other)));
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.until_begun(1);
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{"one"});
    const std::optional<KnownInbound> known = cubepi::run(log->find("chat", "k1"));
    ASSERT_TRUE(known);
    EXPECT_EQ(known->id, "");
    EXPECT_EQ(known->message.rest.at(stop_key), "refused");
}

/// Waits until this many messages wait behind the turn of the session.
Task<> until_waiting(Gateway& gateway, std::size_t count) {
    while (gateway.manager->snapshot("chat:1").pending_count < count)
        co_await gateway.clock->sleep_for(std::chrono::milliseconds(1));
}

TEST(Redelivery, D253_LateStop_LeavesMessagesThatWaited) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    (void)cubepi::run(log->receive(update("1", "two", "u2")));
    (void)cubepi::run(log->receive(withdrawal_of(stop_request("k1"))));
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("two");
    gateway.run([](Gateway& h) -> Task<> {
        co_await until_waiting(h, 1);
        h.release("two");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, (Texts{"two", ",abandon"}));
    EXPECT_EQ(gateway.done.front(), "two");
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

TEST(Redelivery, D253_StoredStop_StopsTheTurnOnce) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("one");
    gateway.hold("two");
    gateway.run([log](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "one", "u1"));
        co_await h.handler(update("1", "two", "u2"));
        co_await h.until_begun(1);
        // As another gateway stores it, which does not process the session.
        (void)co_await log->receive(withdrawal_of(stop_request("k1")));
        StopOutcome outcome = co_await h.manager->stop_turn(stop_request("k1"));
        EXPECT_EQ(outcome, StopOutcome::stopped);
        co_await h.until_begun(2);
        outcome = co_await h.manager->stop_turn(stop_request("k1"));
        EXPECT_EQ(outcome, StopOutcome::stopped);
        h.release("two");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{"two"});
}

/// A log that lets the test act while a request to stop is being stored.
class StopLog final : public MemoryDeliveryLog {
public:
    Task<std::optional<std::string>> receive(Envelope message) override {
        const bool is_stop = message.rest.contains(stop_key);
        Task<std::optional<std::string>> storing = MemoryDeliveryLog::receive(std::move(message));
        std::optional<std::string> id = co_await std::move(storing);
        if (is_stop && on_stop) co_await on_stop();
        co_return id;
    }

    std::function<Task<>()> on_stop;
};

Task<> end_turn(Gateway& gateway) {
    gateway.release("one");
    while (gateway.manager->snapshot("chat:1").is_running)
        co_await gateway.clock->sleep_for(std::chrono::milliseconds(1));
}

TEST(Redelivery, D253_TurnBeginningWhileStopIsStored_Continues) {
    const auto log = std::make_shared<StopLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("one");
    gateway.hold("two");
    log->on_stop = [&gateway] {
        gateway.release("one");
        return gateway.until_begun(2);
    };
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "one", "u1"));
        co_await h.handler(update("1", "two", "u2"));
        co_await h.until_begun(1);
        const StopOutcome outcome = co_await h.manager->stop_turn(stop_request("k1"));
        EXPECT_EQ(outcome, StopOutcome::idle);
        h.release("two");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"one", "two", ",abandon"}));
}

TEST(Redelivery, D253_TurnEndsWhileStopIsStored_StopWithdraws) {
    const auto log = std::make_shared<StopLog>();
    Gateway gateway;
    gateway.options.deliveries = log;
    gateway.hold("one");
    log->on_stop = [&gateway] { return end_turn(gateway); };
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("1", "one", "u1"));
        co_await h.until_begun(1);
        const StopOutcome outcome = co_await h.manager->stop_turn(stop_request("k1"));
        EXPECT_EQ(outcome, StopOutcome::idle);
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"one", ",abandon"}));
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

}  // namespace
}  // namespace bub::channel_tests
