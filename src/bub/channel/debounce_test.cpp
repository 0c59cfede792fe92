#include <bub/channel/debounce.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

using namespace std::chrono_literals;
using cubepi::testing::ManualClock;

Envelope text_message(const std::string& text, bool active = true) {
    Envelope message(text);
    message.channel = "chat";
    message.is_active = active;
    return message;
}

/// Runs `script` with a debouncer whose output is collected. Time advances only where the script says so.
struct Desk {
    explicit Desk(DebounceOptions options = {}) {
        cubepi::Executor executor = cubepi::this_thread_context().get_executor();
        debouncer = std::make_unique<Debouncer>(
            clock, executor, options,
            [this](Envelope message) { out.push_back(message.content_text()); },
            [this] { ++idle; });
    }
    void wait(std::chrono::nanoseconds time) {
        clock.advance(time);
        cubepi::this_thread_context().restart();
        cubepi::this_thread_context().poll();
    }
    using Texts = std::vector<std::string>;
    ManualClock clock;
    Texts out;
    int idle = 0;
    std::unique_ptr<Debouncer> debouncer;
};

TEST(Debounce, B14_QuickMessages_BecomeOne) {
    Desk desk;
    desk.debouncer->add(text_message("one"));
    desk.wait(900ms);
    desk.debouncer->add(text_message("two"));
    desk.wait(900ms);
    EXPECT_EQ(desk.out, Desk::Texts{});
    desk.wait(200ms);
    EXPECT_EQ(desk.out, Desk::Texts{"one\ntwo"});
}

Envelope message_of(const std::string& user, const std::string& text) {
    Envelope message = text_message(text);
    message.context["sender_id"] = user;
    return message;
}

TEST(Debounce, B26_MessagesOfSeveralSenders_StaySeparate) {
    Desk desk;
    desk.debouncer->add(message_of("42", "one"));
    desk.debouncer->add(message_of("42", "two"));
    desk.debouncer->add(message_of("43", "three"));
    EXPECT_EQ(desk.out, Desk::Texts{"one\ntwo"}) << "the rules of a sender hold for one turn";
    desk.debouncer->add(message_of("43", "four"));
    desk.debouncer->add(message_of("42", "five"));
    desk.wait(1s);
    EXPECT_EQ(desk.out, (Desk::Texts{"one\ntwo", "three\nfour", "five"}));
}

TEST(Debounce, D119_GoalAfterText_BeginsItsMessage) {
    Desk desk;
    desk.debouncer->add(text_message("hello"));
    desk.debouncer->add(text_message("/goal write a file"));
    EXPECT_EQ(desk.out, Desk::Texts{"hello"});
    desk.debouncer->add(text_message("with tests"));
    desk.wait(1s);
    EXPECT_EQ(desk.out, (Desk::Texts{"hello", "/goal write a file\nwith tests"}));
}

TEST(Debounce, B14_MaxWait_LimitsTheDelay) {
    Desk desk;
    for (int i = 0; i < 20; ++i) {
        desk.debouncer->add(text_message("x"));
        desk.wait(600ms);
        if (!desk.out.empty()) break;
    }
    EXPECT_EQ(desk.out.size(), 1u) << "continuous traffic must not hold it up for ever";
    EXPECT_LE(desk.clock.now() - ManualClock().now(), 10s + 600ms);
}

TEST(Debounce, OverheardMessages_JoinOnlyARunningConversation) {
    Desk desk;
    desk.debouncer->add(text_message("not for us", false));
    desk.wait(30s);
    EXPECT_EQ(desk.out, Desk::Texts{});
    desk.debouncer->add(text_message("for us"));
    desk.wait(1s);
    desk.debouncer->add(text_message("and overheard", false));
    desk.wait(9s);
    EXPECT_EQ(desk.out, Desk::Texts{"for us"});
    desk.wait(1s);
    EXPECT_EQ(desk.out, (Desk::Texts{"for us", "and overheard"}));
    desk.wait(60s);
    desk.debouncer->add(text_message("much later", false));
    desk.wait(60s);
    EXPECT_EQ(desk.out.size(), 2u);
}

TEST(Debounce, OverheardMessage_JoinsTheCollectedOnes) {
    Desk desk;
    desk.debouncer->add(text_message("for us"));
    desk.wait(500ms);
    desk.debouncer->add(text_message("overheard", false));
    desk.wait(500ms);
    EXPECT_EQ(desk.out, Desk::Texts{"for us\noverheard"});
}

TEST(Debounce, B11_OperatorsCommand_IsTheOnlyImmediateMessage) {
    Desk desk;
    Envelope command = text_message(",help", false);
    command.from_operator = true;
    desk.debouncer->add(command);
    EXPECT_EQ(desk.out, Desk::Texts{",help"});
    desk.debouncer->add(text_message(",rm", true));
    EXPECT_EQ(desk.out, Desk::Texts{",help"}) << "others only write a text with a comma";
    desk.wait(1s);
    EXPECT_EQ(desk.out, (Desk::Texts{",help", ",rm"}));
}

TEST(Debounce, B14_Buffer_IsBounded) {
    DebounceOptions options;
    options.max_messages = 3;
    Desk desk(options);
    for (const char* text : {"1", "2", "3", "4"}) desk.debouncer->add(text_message(text));
    EXPECT_EQ(desk.out, Desk::Texts{"1\n2\n3"});
    EXPECT_EQ(desk.debouncer->waiting(), 1u);
    EXPECT_EQ(desk.debouncer->drain().size(), 1u);
    desk.wait(100s);
    EXPECT_EQ(desk.out.size(), 1u);
}

TEST(Debounce, ForgottenConversation_IsReportedAsIdle) {
    Desk desk;
    desk.debouncer->add(text_message("for us"));
    desk.wait(1s);
    EXPECT_EQ(desk.idle, 0);
    desk.wait(60s);
    EXPECT_EQ(desk.idle, 1);
    desk.debouncer->add(text_message("overheard", false));
    desk.wait(1ns);
    EXPECT_EQ(desk.idle, 2);
}

struct Span final : Lifespan {
    Span(std::string name, std::vector<std::string>& log) : name_(std::move(name)), log_(log) {}
    Task<> open() override {
        log_.push_back("open " + name_);
        if (name_ == "bad") throw std::runtime_error("bad");
        co_return;
    }
    Task<> close(std::exception_ptr error) override {
        log_.push_back("close " + name_ + (error ? " with error" : ""));
        co_return;
    }
    std::string name_;
    std::vector<std::string>& log_;
};

TEST(Merge, Merge_KeepsTheDataOfEachMessage) {
    std::vector<std::string> log;
    Envelope first = text_message("one", false);
    first.context["sender"] = "ann";
    first.rest["id"] = 1;
    first.lifespan = std::make_shared<Span>("a", log);
    first.media.emplace_back();
    Envelope second = text_message("two");
    second.context["sender"] = "bob";
    second.context["thread"] = 7;
    second.lifespan = std::make_shared<Span>("b", log);
    second.media.emplace_back();
    std::vector<Envelope> both;
    both.push_back(std::move(first));
    both.push_back(std::move(second));
    const Envelope merged = merge_messages(std::move(both));
    EXPECT_EQ(merged.content_text(), "one\ntwo");
    EXPECT_EQ(merged.context, (JsonObject{{"sender", "bob"}, {"thread", 7}}));
    EXPECT_EQ(merged.rest, (JsonObject{{"id", 1}}));
    EXPECT_EQ(merged.media.size(), 2u);
    EXPECT_TRUE(merged.is_active);
    cubepi::run(merged.lifespan->open());
    cubepi::run(merged.lifespan->close(nullptr));
    EXPECT_EQ(log, (std::vector<std::string>{"open a", "open b", "close b", "close a"}));
}

TEST(Merge, B24_MergedMessage_ArrivedWithItsFirst) {
    std::vector<Envelope> both;
    for (const int second : {7, 9}) {
        both.push_back(text_message("text"));
        const std::chrono::system_clock::time_point time{std::chrono::seconds(second)};
        both.back().note_arrival(time);
    }
    EXPECT_EQ(merge_messages(std::move(both)).context.at(arrived_key), 7.0);
}

TEST(Merge, LifespanThatFailsToOpen_ClosesTheOthers) {
    std::vector<std::string> log;
    std::vector<Envelope> all;
    for (const char* name : {"a", "bad", "c"}) {
        Envelope message = text_message(name);
        message.lifespan = std::make_shared<Span>(name, log);
        all.push_back(std::move(message));
    }
    const Envelope merged = merge_messages(std::move(all));
    std::exception_ptr failure;
    try {
        cubepi::run(merged.lifespan->open());
    } catch (...) {
        failure = std::current_exception();
    }
    ASSERT_TRUE(failure);
    cubepi::run(merged.lifespan->close(failure));
    EXPECT_EQ(log, (std::vector<std::string>{"open a", "open bad", "close bad with error",
                                             "close a with error"}));
}

TEST(Merge, B26_MergedMessagesOfSeveralSenders_HaveNoSender) {
    std::vector<Envelope> same;
    for (const char* text : {"a", "b"}) same.push_back(message_of("42", text));
    EXPECT_EQ(merge_messages(std::move(same)).context.at("sender_id"), "42");
    std::vector<Envelope> different;
    for (const char* user : {"42", "43", "42"}) different.push_back(message_of(user, "x"));
    EXPECT_FALSE(merge_messages(std::move(different)).context.contains("sender_id"));
    std::vector<Envelope> unknown;
    unknown.push_back(message_of("42", "x"));
    unknown.push_back(text_message("x"));
    EXPECT_FALSE(merge_messages(std::move(unknown)).context.contains("sender_id"));
}

TEST(Merge, B11_MessageMergedWithNonOperators_LosesOperatorRights) {
    std::vector<Envelope> both;
    both.push_back(text_message("x"));
    both.push_back(text_message("y"));
    both.back().from_operator = true;
    EXPECT_FALSE(merge_messages(std::move(both)).is_operator());
    EXPECT_THROW(merge_messages({}), cubepi::Error);
}

}  // namespace
}  // namespace bub
