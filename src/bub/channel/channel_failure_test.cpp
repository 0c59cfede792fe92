// Channels and hooks that throw or hang, and the shutdown of the manager.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>

#include <bub/channel/channel_test_support.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

Task<> nothing(House&) { co_return; }

/// Adds three channels whose starts and stops are recorded.
void line_up(House& house, Texts& log) {
    house.channels.clear();
    for (const char* name : {"a", "b", "c"}) {
        house.channels.push_back(std::make_shared<TestChannel>(name));
        house.channels.back()->log = &log;
    }
}

TEST(ChannelLife, StopsInReverseOrder) {
    House house;
    Texts log;
    line_up(house, log);
    house.run(nothing);
    EXPECT_EQ(log, (Texts{"start a", "start b", "start c", "stop c", "stop b", "stop a"}));
}

TEST(ChannelLife, AChannelThatFailsToStartStopsExactlyThoseAlreadyStarted) {
    for (const Trouble trouble : {Trouble::fails, Trouble::hangs}) {
        House house;
        Texts log;
        line_up(house, log);
        house.channels[1]->on_start = trouble;
        house.furnish();
        EXPECT_THROW(cubepi::testing::run_advancing(*house.clock, house.manager->run()),
                     std::exception);
        EXPECT_EQ(log, (Texts{"start a", "stop a"}));
        EXPECT_EQ(house.framework->router(), nullptr);
    }
}

TEST(ChannelLife, AChannelThatDoesNotStopHoldsUpNoOther) {
    for (const Trouble trouble : {Trouble::fails, Trouble::hangs}) {
        House house;
        Texts log;
        line_up(house, log);
        house.channels[1]->on_stop = trouble;
        house.run(nothing);
        EXPECT_EQ(log, (Texts{"start a", "start b", "start c", "stop c", "stop b", "stop a"}));
        ASSERT_EQ(house.warnings.size(), 1u);
        EXPECT_NE(house.warnings.front().find("channel b did not stop"), std::string::npos);
    }
}

/// Sends a message through the pipeline when it is stopped.
class Polite final : public Channel {
public:
    explicit Polite(House& house) : house_(house) {}
    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token stopping) override {
        stopping_ = std::move(stopping);
        co_return;
    }
    Task<> stop() override {
        EXPECT_TRUE(stopping_.stop_requested());
        auto goodbye = std::make_shared<Envelope>(from("polite", "1", "goodbye"));
        co_await house_.framework->dispatch_outbound(std::move(goodbye));
    }
    Task<> send(Envelope message) override {
        said.push_back(message.content_text());
        co_return;
    }

    std::vector<std::string> said;

private:
    House& house_;
    std::stop_token stopping_;
    const std::string name_ = "polite";
};

TEST(ChannelLife, WhatIsSaidAtTheEndCanStillBeShown) {
    House house;
    const auto polite = std::make_shared<Polite>(house);
    house.furnish();
    Plugin more;
    more.name = "more";
    more.provide_channels = [polite](ProvideChannelsCall&) {
        return std::vector<std::shared_ptr<Channel>>(1, polite);
    };
    house.framework->add(std::move(more));
    house.run(nothing);
    EXPECT_EQ(polite->said, Texts{"goodbye"});
}

TEST(ChannelLife, NoChannelIsAnError) {
    House house;
    house.options.channels = {"nobody"};
    house.furnish();
    EXPECT_THROW(cubepi::run(house.manager->run()), cubepi::Error);
}

TEST(ChannelLife, AManagerRunsOnce) {
    House house;
    house.run(nothing);
    EXPECT_THROW(cubepi::run(house.manager->run()), cubepi::Error);
}

TEST(ChannelLife, D7_TheEndCancelsTurnsAndSaysWhatStillWaited) {
    House house;
    house.hold("one");
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "1", "two"));
    });
    EXPECT_EQ(house.begun, Texts{"one"});
    EXPECT_TRUE(house.done.empty());
    ASSERT_EQ(house.warnings.size(), 1u);
    EXPECT_NE(house.warnings.front().find("messages dropped at shutdown: 1"), std::string::npos);
    EXPECT_EQ(house.warnings.front().find("two"), std::string::npos) << "B13: no bodies";
    EXPECT_THROW(cubepi::run(house.handler(from("chat", "1", "late"))), cubepi::Error);
}

TEST(ChannelLife, TheStopTokenEndsIt) {
    House house;
    house.furnish();
    std::stop_source stop;
    stop.request_stop();
    cubepi::run(house.manager->run(stop.get_token()));
    EXPECT_EQ(house.framework->router(), nullptr);
}

TEST(ChannelLife, CancellingRunStopsTheChannelsAndIsRethrown) {
    House house;
    Texts log;
    line_up(house, log);
    house.furnish();
    std::stop_source stop;
    const auto ends = [](House& h, std::stop_source source) -> Task<> {
        co_await h.clock->sleep_for(std::chrono::seconds(1));
        source.request_stop();
    };
    const auto both = [&]() -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor, cubepi::ScopePolicy::collect);
        scope.spawn(cubepi::cancel_on(stop.get_token(), house.manager->run()));
        scope.spawn(ends(house, stop));
        const std::exception_ptr failure = co_await scope.settle();
        EXPECT_TRUE(cubepi::is_cancellation(failure));
    };
    cubepi::testing::run_advancing(*house.clock, both());
    EXPECT_EQ(log, (Texts{"start a", "start b", "start c", "stop c", "stop b", "stop a"}));
}

TEST(Admission, B8_FailsClosed) {
    House house;
    house.on_admit = Trouble::fails;
    house.run([](House& h) -> Task<> {
        EXPECT_THROW(co_await h.handler(from("chat", "1", "one")), std::runtime_error);
        co_await h.manager->idle();
    });
    EXPECT_TRUE(house.begun.empty());
    EXPECT_EQ(house.errors, Texts{"admit_message"});
}

TEST(Admission, B8_AMessageWithoutSessionIsRefused) {
    House house;
    house.on_resolve = Trouble::fails;
    house.run([](House& h) -> Task<> {
        EXPECT_THROW(co_await h.handler(from("chat", "1", "lost")), std::runtime_error);
        co_await h.handler(from("chat", "1", "found"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.begun, Texts{"found"});
    EXPECT_EQ(house.errors, Texts{"resolve_session"});
}

TEST(Admission, D7_AHookThatHangsHoldsUpOneSenderAndCanBeAborted) {
    House house;
    house.on_resolve = Trouble::hangs;
    house.run([](House& h) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor, cubepi::ScopePolicy::collect);
        scope.spawn(h.handler(from("chat", "1", "lost")));
        scope.spawn(h.handler(from("chat", "1", "behind it")));
        co_await h.handler(from("chat", "2", "other"));
        co_await h.until_begun(1);
        EXPECT_EQ(h.begun, Texts{"other"});
        co_await h.manager->abort_session("chat:1");
        const std::exception_ptr refused = co_await scope.settle();
        EXPECT_TRUE(cubepi::is_cancellation(refused));
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.begun, (Texts{"other", "behind it"}));
}

TEST(Admission, AChannelThatDoesNotRunIsRefused) {
    House house;
    house.run([](House& h) -> Task<> {
        EXPECT_THROW(co_await h.handler(from("nowhere", "1", "x")), cubepi::Error);
        EXPECT_THROW(co_await h.handler(Envelope("x")), cubepi::Error);
    });
    EXPECT_TRUE(house.begun.empty());
}

TEST(Output, AChannelThatFailsOrHangsConcernsItsTurnAlone) {
    for (const Trouble trouble : {Trouble::fails, Trouble::hangs}) {
        House house;
        house.channels.push_back(std::make_shared<TestChannel>("bad"));
        house.channels.back()->on_send = trouble;
        house.run([trouble](House& h) -> Task<> {
            co_await h.handler(from("bad", "1", "one"));
            co_await h.handler(from("chat", "1", "two"));
            co_await h.until_begun(2);
            if (trouble == Trouble::hangs) h.manager->cancel_turn("bad:1");
            co_await h.manager->idle();
        });
        EXPECT_EQ(house.channel->texts(), Texts{"re: two"});
        EXPECT_EQ(house.done, (Texts{"one", "two"}));
    }
}

}  // namespace
}  // namespace bub::channel_tests
