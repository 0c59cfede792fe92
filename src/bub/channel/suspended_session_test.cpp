// Sessions whose run waits for an answer (B23, B24).

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/questions.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

/// A pipeline whose sessions wait for an answer from the message "ask" on.
class SuspendedSession : public ::testing::Test {
protected:
    SuspendedSession() {
        gateway.asks = [this](RunModelCall& call) {
            const bool answers = call.message.answer.has_value();
            if (call.message.content_text() == ",answer q wrong") {
                call.state.replace(std::make_shared<RefusedAnswer>());
                call.state.replace(std::make_shared<QuestionsRemain>());
                return false;
            }
            if (call.message.content_text() == ",help") return false;
            if (answers) waits = false;
            if (answers || (!waits && call.prompt.text() != "ask")) return false;
            OpenQuestions open;
            open.unread = std::exchange(waits, true);
            call.state.replace(std::make_shared<OpenQuestions>(std::move(open)));
            return true;
        };
        Plugin notices;
        notices.name = "notices";
        notices.render_outbound = [](RenderOutboundCall& call) {
            Envelope notice = Envelope("wait").on("chat", "1");
            notice.kind = envelope_kind::error;
            EnvelopeBatch none;
            return call.state.service<OpenQuestions>() ? EnvelopeBatch(std::move(notice)) : none;
        };
        gateway.framework->add(std::move(notices));
    }
    static Envelope update(const std::string& text) {
        Envelope message = from("chat", "1", text);
        message.inbound_id = text;
        return message;
    }

    Gateway gateway;
    bool waits = false;
};

TEST_F(SuspendedSession, B24_OtherMessages_AreReadAfterTheAnswer) {
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"ask", "two", "three"}) co_await h.handler(update(text));
        co_await h.manager->idle();
        EXPECT_TRUE(h.done.empty());
        EXPECT_EQ(h.manager->snapshot("chat:1").pending_count, 2u);
        co_await h.handler(update(",answer q yes"));
        co_await h.handler(update("four"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{",answer q yes", "two", "three", "four"}));
    EXPECT_EQ(gateway.manager->snapshot("chat:1").pending_count, 0u);
}

TEST_F(SuspendedSession, B24_UnreadMessages_AreRedeliveredAfterARestart) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    gateway.options.deliveries = log;
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"ask", "two"}) co_await h.handler(update(text));
        co_await h.manager->idle();
    });
    std::vector<StoredInbound> unfinished = cubepi::run(log->unfinished());
    ASSERT_EQ(unfinished.size(), 1u);
    EXPECT_EQ(unfinished.front().message.content_text(), "two");
    EXPECT_EQ(unfinished.front().begun, 0) << "no turn has processed it";
    const Json arrived = unfinished.front().message.context.at(arrived_key);
    Gateway next;
    next.options.deliveries = log;
    Json arrived_before;
    next.asks = [&](RunModelCall& call) {
        arrived_before = call.message.context.at(arrived_key);
        return false;
    };
    next.run([](Gateway& h) { return h.manager->idle(); });
    EXPECT_EQ(arrived_before, arrived) << "it is older than later questions";
    EXPECT_EQ(next.done, Texts{"two"});
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

TEST_F(SuspendedSession, B24_Answer_PassesByDebounceAndSteering) {
    gateway.channel->debounced = true;
    gateway.channel->admit = [](const Envelope&) {
        AdmitDecision decision;
        decision.action = AdmitAction::steer;
        return std::optional<AdmitDecision>(decision);
    };
    gateway.hold("busy");
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(update("busy"));
        co_await h.until_begun(1);
        // It is not collected with other messages, and does not become a message of the running turn.
        co_await h.handler(update(",answer q yes"));
        h.release("busy");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"busy", ",answer q yes"}));
}

TEST_F(SuspendedSession, B24_FullSession_StillAcceptsAnAnswer) {
    for (const bool in_all : {false, true}) {
        SCOPED_TRACE(in_all);
        Gateway other;
        std::swap(other.asks, gateway.asks);
        (in_all ? other.options.max_waiting_in_all : other.options.max_waiting) = 2;
        other.run([](Gateway& h) -> Task<> {
            for (const char* text : {"ask", "two", "three"}) {
                co_await h.handler(update(text));
                co_await h.manager->idle();
            }
            const cubepi::Outcome<> more = co_await cubepi::outcome_of(h.handler(update("four")));
            EXPECT_FALSE(more) << "the session is full";
            co_await h.handler(update(",answer q yes"));
            co_await h.manager->idle();
        });
        EXPECT_EQ(other.done, (Texts{",answer q yes", "two", "three"}));
        std::swap(other.asks, gateway.asks);
    }
}

TEST_F(SuspendedSession, WaitingAnswers_AreLimited) {
    gateway.hold("busy");
    std::size_t rejected = 0;
    gateway.run([&rejected](Gateway& h) -> Task<> {
        co_await h.handler(update("busy"));
        co_await h.until_begun(1);
        for (int i = 0; i < 10; ++i) {
            Envelope answer = update(",answer q yes");
            answer.inbound_id = std::to_string(i);
            const cubepi::Outcome<> taken =
                co_await cubepi::outcome_of(h.handler(std::move(answer)));
            if (!taken) ++rejected;
        }
        h.release("busy");
        co_await h.manager->idle();
    });
    EXPECT_EQ(rejected, 2u);
}

TEST_F(SuspendedSession, UnreadMessages_AreDroppedWithTheWaitingOnes) {
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"ask", "two"}) co_await h.handler(update(text));
        co_await h.manager->idle();
        co_await h.manager->abort_session("chat:1");
        co_await h.handler(update(",answer q yes"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{",answer q yes"});
}

TEST_F(SuspendedSession, B24_RefusedAnswerOrCommand_ReleasesNoOtherMessages) {
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"ask", "two", "three", ",answer q wrong"})
            co_await h.handler(update(text));
        Envelope command = update(",help");
        command.from_operator = true;
        co_await h.handler(std::move(command));
        co_await h.manager->idle();
        EXPECT_EQ(h.begun, (Texts{"ask", "two", "three", ",answer q wrong", ",help"}));
        co_await h.handler(update(",answer q yes"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{",answer q wrong", ",help", ",answer q yes", "two", "three"}));
}

TEST_F(SuspendedSession, FailedTurnOfAnswer_ReleasesTheOthers) {
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"ask", "two"}) co_await h.handler(update(text));
        co_await h.manager->idle();
        Envelope failing = update("fail");
        failing.answer.emplace().question = "q";
        co_await h.handler(std::move(failing));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, Texts{"two"});
}

/// A channel that shows outcomes.
class OutcomeChannel final : public TestChannel, public ShowsOutcomes {
public:
    using TestChannel::TestChannel;
    void show_outcome(const Envelope& message, const AcceptedAnswer& answer) noexcept override {
        outcomes.push_back(message.content_text() + ": " + answer.question);
    }
    Texts outcomes;
};

TEST(Outcomes, AcceptedAnswerWithoutStream_NotifiesTheChannel) {
    Gateway gateway;
    const auto channel = std::make_shared<OutcomeChannel>("chat");
    gateway.channels = {channel};
    gateway.asks = [](RunModelCall& call) {
        if (!call.message.answer) return false;
        AcceptedAnswer accepted;
        accepted.question = "c1";
        call.state.replace(std::make_shared<AcceptedAnswer>(std::move(accepted)));
        return false;
    };
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "1", ",approve c1"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(channel->outcomes, Texts{",approve c1: c1"});
}

}  // namespace
}  // namespace bub::channel_tests
