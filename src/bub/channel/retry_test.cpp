// D90: messages whose turns fail because of the infrastructure.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>

namespace bub::channel_tests {
namespace {

using cubepi::CheckpointerError;
using cubepi::ErrorCode;
using Texts = std::vector<std::string>;

Envelope update(const std::string& text) {
    Envelope message = from("chat", "1", text);
    message.inbound_id = text;
    return message;
}

/// A channel that notes how its turns end.
class FollowingChannel final : public TestChannel, public FollowsTurns {
public:
    using TestChannel::TestChannel;
    void begin_turn(const Envelope& message) noexcept override { note("begin", message); }
    void end_turn(const Envelope& message, std::exception_ptr failure) noexcept override {
        note(failure ? "fail" : "end", message);
        if (failure) reason = describe(failure);
    }
    void postpone_turn(const Envelope& message) noexcept override { note("postpone", message); }
    void drop(const Envelope& message) noexcept override { note("drop", message); }

    Texts turns;
    std::string reason;

private:
    void note(const std::string& what, const Envelope& message) noexcept {
        turns.push_back(what + " " + message.content_text());
    }
};

/// A pipeline whose turns on "one" fail.
class Retry : public ::testing::Test {
protected:
    Retry() {
        gateway.options.deliveries = log;
        gateway.channels = {channel};
        gateway.asks = [this](RunModelCall& call) {
            if (!call.prompt.text().ends_with("one") || failures == 0) return false;
            --failures;
            if (thrown) std::rethrow_exception(thrown);
            throw CheckpointerError(ErrorCode::connect, "the server at db.internal is down");
        };
    }
    std::vector<StoredInbound> unfinished() const { return cubepi::run(log->unfinished()); }

    Gateway gateway;
    std::shared_ptr<MemoryDeliveryLog> log = std::make_shared<MemoryDeliveryLog>();
    std::shared_ptr<FollowingChannel> channel = std::make_shared<FollowingChannel>("chat");
    std::size_t failures = 1'000'000;
    std::exception_ptr thrown;
};

TEST_F(Retry, D90_FailedMessage_StaysBeforeLaterOnes) {
    failures = 3;
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two"}) co_await h.handler(update(text));
        co_await h.until_begun(2);
        EXPECT_EQ(h.manager->problem(), "1 session waits, because storage or descriptors fail");
        co_await h.manager->idle();
        EXPECT_EQ(h.manager->problem(), "");
    });
    EXPECT_EQ(gateway.done, (Texts{"one", "two"}));
    EXPECT_EQ(channel->texts(), (Texts{"re: one", "re: two"})) << "the sender sees no failure";
    EXPECT_EQ(channel->turns,
              (Texts{"begin one", "postpone one", "begin one", "postpone one", "begin one",
                     "postpone one", "begin one", "end one", "begin two", "end two"}));
    EXPECT_TRUE(unfinished().empty());
    ASSERT_EQ(gateway.warnings.size(), 1u) << "once, not for each turn";
    EXPECT_NE(gateway.warnings.front().find("db.internal is down"), std::string::npos);
}

/// A log whose database is lost once: the answer is stored, but the call fails, and so does the next read.
class LostLog final : public MemoryDeliveryLog {
public:
    Task<> record(DeliveryNote note, std::vector<std::string> ids, std::string detail) override {
        if (note == DeliveryNote::put_back && std::exchange(put_back_fails, false))
            throw CheckpointerError(ErrorCode::storage_full, "the disk is full");
        co_await MemoryDeliveryLog::record(note, std::move(ids), std::move(detail));
        if (note != DeliveryNote::begun) co_return;
        const std::vector<StoredInbound> all = co_await MemoryDeliveryLog::unfinished();
        for (const StoredInbound& one : all) begun.push_back(one.begun);
    }
    Task<std::vector<StoredInbound>> unfinished() override {
        if (std::exchange(read_fails, false))
            throw CheckpointerError(ErrorCode::connect, "the server at db.internal is down");
        return MemoryDeliveryLog::unfinished();
    }
    Task<std::string> intend_output(TurnOutput output, std::vector<std::string> answers) override {
        const bool fails = !answers.empty() && !std::exchange(was_lost, true);
        std::string id =
            co_await MemoryDeliveryLog::intend_output(std::move(output), std::move(answers));
        if (!fails) co_return id;
        read_fails = true;
        throw CheckpointerError(ErrorCode::connect, "whether it was stored is not known");
    }

    std::vector<std::uint64_t> begun;  // of the messages, after each beginning
    bool was_lost = false;
    bool read_fails = false;
    bool put_back_fails = false;
};

TEST_F(Retry, B18_D264_EndThatIsNotRecorded_DoesNotCount) {
    const auto lost = std::make_shared<LostLog>();
    lost->was_lost = true;
    lost->put_back_fails = true;
    gateway.options.deliveries = lost;
    failures = 1;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{"one"});
    EXPECT_EQ(lost->begun, (std::vector<std::uint64_t>{1, 1})) << "no process has ended";
}

TEST_F(Retry, D90_AnswerOfLostCall_IsNotMadeAgain) {
    const auto lost = std::make_shared<LostLog>();
    gateway.options.deliveries = lost;
    failures = 0;
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two"}) co_await h.handler(update(text));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, (Texts{"one", "two"})) << "the model is not asked twice";
    std::vector<Delivery> left = cubepi::run(lost->unsettled());
    ASSERT_EQ(left.size(), 1u) << "it is sent from its record";
    EXPECT_EQ(left[0].message.content_text(), "re: one");
    const Texts texts = channel->texts();
    EXPECT_EQ(std::count(texts.begin(), texts.end(), "re: one"), 0);
    EXPECT_EQ(std::count(texts.begin(), texts.end(), "re: two"), 1);
}

TEST_F(Retry, D229_ReleaseOfAnsweredMessage_RepeatsNoTurn) {
    const auto lost = std::make_shared<LostLog>();
    gateway.options.deliveries = lost;
    gateway.options.retry_limit = std::chrono::seconds(0);
    failures = 0;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("one"));
        co_await h.manager->idle();
        const HeldMessages held = co_await h.manager->held();
        EXPECT_EQ(held.inbounds.size(), 1u);
        for (const StoredInbound& one : held.inbounds) co_await h.manager->release_held(one.id);
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, Texts{"one"}) << "the model is not asked twice";
    EXPECT_TRUE(cubepi::run(lost->unfinished()).empty());
    EXPECT_EQ(cubepi::run(lost->unsettled()).size(), 1u) << "the answer is not lost";
}

TEST_F(Retry, D90_LongOutage_NotifiesTheSenderOnceAndHolds) {
    gateway.options.retry_limit = std::chrono::minutes(10);
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two"}) co_await h.handler(update(text));
        co_await h.manager->idle();
        const HeldMessages held = co_await h.manager->held();
        EXPECT_EQ(held.inbounds.size(), 1u);
        EXPECT_EQ(h.done, Texts{"two"});
    });
    ASSERT_EQ(channel->sent.size(), 3u);
    EXPECT_TRUE(channel->sent[0].context.contains("postponed"));
    EXPECT_TRUE(channel->sent[1].context.contains("held"));
    for (const Envelope& message : channel->sent)
        EXPECT_EQ(message.content_text().find("db.internal"), std::string::npos);
    EXPECT_EQ(channel->reason.find("db.internal"), std::string::npos) << channel->reason;
    EXPECT_GT(gateway.begun.size(), 15u);
    EXPECT_LT(gateway.begun.size(), 50u);
    EXPECT_EQ(unfinished().size(), 1u);
}

TEST_F(Retry, D90_ReleasedMessage_IsTriedAgain) {
    gateway.options.retry_limit = std::chrono::seconds(0);
    failures = 1;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("one"));
        co_await h.manager->idle();
        co_await h.manager->release_held("1");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{"one"});
    EXPECT_TRUE(unfinished().empty());
}

TEST_F(Retry, D90_ConflictOrCommand_IsHeldAtOnce) {
    for (const bool is_command : {false, true}) {
        SCOPED_TRACE(is_command);
        Gateway other;
        const auto records = std::make_shared<MemoryDeliveryLog>();
        other.options.deliveries = records;
        other.asks = gateway.asks;
        if (!is_command)
            thrown = std::make_exception_ptr(cubepi::StaleAppendError(
                ErrorCode::stale_append, "another process has continued the session"));
        other.run([is_command](Gateway& h) -> Task<> {
            Envelope message = update(is_command ? ",tape one" : "one");
            message.from_operator = true;
            co_await h.handler(std::move(message));
            co_await h.manager->idle();
            EXPECT_EQ(h.begun.size(), 1u);
            const HeldMessages held = co_await h.manager->held();
            EXPECT_EQ(held.inbounds.size(), 1u);
        });
        const std::vector<StoredInbound> left = cubepi::run(records->unfinished());
        ASSERT_EQ(left.size(), 1u);
        EXPECT_EQ(left.front().begun, is_command ? 1u : 2u) << "it may have had its effect";
        thrown = nullptr;
    }
}

/// A log that processes share, of which another one takes each message when its turn has begun.
class TakenLog final : public MemoryDeliveryLog {
public:
    std::optional<std::chrono::nanoseconds> poll_interval() const override {
        return std::chrono::hours(1);
    }
    Task<std::vector<StoredInbound>> unfinished_of(std::vector<std::string> ids) override {
        (void)ids;
        co_return std::vector<StoredInbound>();
    }
};

class Taken : public Retry {
protected:
    void expect_silence(const std::exception_ptr& failure) {
        gateway.options.deliveries = std::make_shared<TakenLog>();
        thrown = failure;
        gateway.run([](Gateway& h) -> Task<> {
            co_await h.handler(update("one"));
            co_await h.until_begun(1);
            co_await h.manager->idle();
            const HeldMessages held = co_await h.manager->held();
            EXPECT_TRUE(held.inbounds.empty());
        });
        EXPECT_EQ(channel->turns, (Texts{"begin one", "fail one"}));
        EXPECT_EQ(channel->reason, "another gateway processes the message");
        EXPECT_TRUE(channel->texts().empty()) << "the other gateway answers";
        EXPECT_TRUE(gateway.warnings.empty());
        EXPECT_TRUE(gateway.operator_log.contains("<4>turn.taken"));
    }
};

TEST_F(Taken, D227_ConflictWithTaker_IsNotHeld) {
    expect_silence(std::make_exception_ptr(cubepi::StaleAppendError(
        ErrorCode::stale_append, "another process has continued the session")));
}

TEST_F(Taken, D227_RunThatTakerHasEnded_IsNotAnswered) {
    expect_silence(std::make_exception_ptr(
        CheckpointerError(ErrorCode::run_already_completed, "another process has ended the run")));
}

/// A log that processes share, which stores the first answer by a call that fails: its message is left to the process that takes it next.
/// This one does, while it records the receipt of another answer, whose first calls fail.
class RetakingLog final : public MemoryDeliveryLog {
public:
    std::optional<std::chrono::nanoseconds> poll_interval() const override {
        return std::chrono::seconds(1);
    }
    Task<UnfinishedRecords> take() override {
        UnfinishedRecords records;
        if (takes > 0) co_await both_failed.wait();
        ++takes;
        if (takes == 3) records.inbounds = co_await MemoryDeliveryLog::unfinished();
        // The manager knows then that it was taken.
        if (takes == 4) retaken.set();
        co_return records;
    }
    Task<std::string> intend_output(TurnOutput output, std::vector<std::string> answers) override {
        const bool fails = !std::exchange(was_lost, true);
        std::string id =
            co_await MemoryDeliveryLog::intend_output(std::move(output), std::move(answers));
        if (fails) throw CheckpointerError(ErrorCode::connect, "whether it was stored is unknown");
        co_return id;
    }
    Task<> record(DeliveryNote note, std::vector<std::string> ids, std::string detail) override {
        if (note == DeliveryNote::left) left.insert(left.end(), ids.begin(), ids.end());
        if (note == DeliveryNote::sent) {
            if (both_failed.is_set()) co_await retaken.wait();
            if (sent_fails > 0) {
                --sent_fails;
                throw CheckpointerError(ErrorCode::connect, "the server is down");
            }
        }
        co_await MemoryDeliveryLog::record(note, std::move(ids), std::move(detail));
    }

    cubepi::AsyncEvent both_failed;
    cubepi::AsyncEvent retaken;
    int takes = 0;
    int sent_fails = 0;
    Texts left;

private:
    bool was_lost = false;
};

TEST_F(Retry, D90_MessageTakenAgain_IsNotLeft) {
    for (const int failing_calls : {1, 2}) {
        SCOPED_TRACE(failing_calls);
        const auto shared = std::make_shared<RetakingLog>();
        shared->sent_fails = failing_calls;
        Gateway other;
        other.options.deliveries = shared;
        other.run([shared, failing_calls](Gateway& h) -> Task<> {
            co_await h.handler(update("one"));
            co_await h.manager->idle();
            Envelope elsewhere = from("chat", "2", "two");
            co_await h.handler(std::move(elsewhere));
            while (shared->sent_fails == failing_calls)
                co_await h.clock->sleep_for(std::chrono::milliseconds(1));
            co_await h.manager->idle();
            shared->both_failed.set();
            while (shared->takes < 8) co_await h.clock->sleep_for(std::chrono::seconds(1));
        });
        EXPECT_EQ(other.begun, (Texts{"one", "two"}));
        EXPECT_EQ(shared->left, Texts()) << "it is processed here";
        EXPECT_TRUE(cubepi::run(shared->unfinished()).empty());
    }
}

TEST_F(Retry, D90_OtherFailures_AreAnsweredAsBefore) {
    for (const std::exception_ptr& failure :
         {std::make_exception_ptr(cubepi::Error(ErrorCode::connect, "the model is down")),
          std::make_exception_ptr(std::system_error(ENOENT, std::generic_category())),
          std::make_exception_ptr(CheckpointerError(ErrorCode::invalid_argument, "too deep"))}) {
        EXPECT_EQ(cause_of(failure), FailureCause::turn) << describe(failure);
        Gateway other;
        other.options.deliveries = std::make_shared<MemoryDeliveryLog>();
        other.asks = gateway.asks;
        thrown = failure;
        other.run([](Gateway& h) -> Task<> {
            co_await h.handler(update("one"));
            co_await h.manager->idle();
        });
        EXPECT_EQ(other.begun.size(), 1u);
        EXPECT_TRUE(cubepi::run(other.options.deliveries->unfinished()).empty());
    }
    for (const int number : {EMFILE, ENFILE, ENOSPC})
        EXPECT_EQ(
            cause_of(std::make_exception_ptr(std::system_error(number, std::generic_category()))),
            FailureCause::outage);
}

TEST_F(Retry, D90_UnrecordedMessage_IsNotTriedAgain) {
    gateway.options.deliveries = nullptr;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun.size(), 1u);
    EXPECT_EQ(channel->turns, (Texts{"begin one", "fail one"}));
}

TEST_F(Retry, D90_DroppedSession_WaitsNoLonger) {
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two"}) co_await h.handler(update(text));
        co_await h.until_begun(2);
        while (h.manager->snapshot("chat:1").is_running)
            co_await h.clock->sleep_for(std::chrono::milliseconds(1));
        co_await h.manager->abort_session("chat:1");
        co_await h.manager->idle();
        co_await h.handler(update("three"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{"three"});
    EXPECT_TRUE(unfinished().empty());
}

TEST_F(Retry, D90_EndOfManager_LeavesTheMessage) {
    for (const bool drains : {false, true}) {
        SCOPED_TRACE(drains);
        Gateway first;
        const auto records = std::make_shared<MemoryDeliveryLog>();
        first.options.deliveries = records;
        first.asks = gateway.asks;
        first.run([drains](Gateway& h) -> Task<> {
            for (const char* text : {"one", "two"}) co_await h.handler(update(text));
            co_await h.until_begun(2);
            while (h.manager->snapshot("chat:1").is_running)
                co_await h.clock->sleep_for(std::chrono::milliseconds(1));
            if (drains) {
                const std::size_t cancelled = co_await h.manager->drain(std::chrono::seconds(5));
                EXPECT_EQ(cancelled, 0u);
            }
        });
        Gateway second;
        second.options.deliveries = records;
        second.run([](Gateway& h) { return h.manager->idle(); });
        EXPECT_EQ(second.done, (Texts{"one", "two"}));
    }
}

TEST_F(Retry, D90_MessagesThatSteeredIt_FollowTheFailedTurn) {
    failures = 1;
    gateway.hold("one");
    channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        if (message.content_text().starts_with("steer")) decision.action = AdmitAction::steer;
        return decision;
    };
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two", "steer a", "steer b"})
            co_await h.handler(update(text));
        co_await h.until_begun(1);
        // The turn accepts the first of them.
        std::vector<Envelope> steered = h.inbox->drain("chat:1");
        EXPECT_EQ(steered.size(), 2u);
        EXPECT_TRUE(h.inbox->enqueue("chat:1", steered.at(1)));
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"one", "two", "steer a", "steer b"}));
    EXPECT_TRUE(unfinished().empty());
}

TEST_F(Retry, D90_AnswerSentInPart_IsCompletedLater) {
    Plugin parts;
    parts.name = "parts";
    parts.priority = 1;
    parts.render_outbound = [](RenderOutboundCall&) {
        std::vector<Envelope> outputs;
        for (const char* text : {"first", "second"}) {
            outputs.push_back(from("chat", "1", text));
            outputs.back().session_id = "chat:1";
        }
        return EnvelopeBatch(std::move(outputs));
    };
    parts.dispatch_outbound = [](DispatchOutboundCall& call) -> std::optional<bool> {
        if (call.message.content_text() == "second")
            throw cubepi::Error(ErrorCode::storage_full, "no space left");
        return std::nullopt;
    };
    failures = 0;
    gateway.framework->add(std::move(parts));
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, Texts{"one"});
    ASSERT_EQ(channel->sent.size(), 2u);
    EXPECT_EQ(channel->sent[0].content_text(), "first");
    EXPECT_TRUE(channel->sent[1].context.contains("cut_off"));
    Gateway next;
    next.options.deliveries = log;
    next.run([](Gateway& h) { return h.manager->idle(); });
    EXPECT_TRUE(next.begun.empty());
    EXPECT_EQ(next.channel->texts(), Texts{"second"});
    EXPECT_TRUE(unfinished().empty());
}

TEST_F(Retry, UnstorableMessage_IsAProblem) {
    const auto watched = std::make_shared<WatchedLog>(log);
    watched->dies_at = 1;
    gateway.options.deliveries = watched;
    gateway.run([](Gateway& h) -> Task<> {
        const cubepi::Outcome<> stored = co_await cubepi::outcome_of(h.handler(update("two")));
        EXPECT_FALSE(stored);
        EXPECT_EQ(h.manager->problem(), "messages cannot be stored");
        co_await h.clock->sleep_for(std::chrono::minutes(1));
        EXPECT_EQ(h.manager->problem(), "");
    });
}

}  // namespace
}  // namespace bub::channel_tests
