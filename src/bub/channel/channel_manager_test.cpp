#include <bub/channel/channel_manager.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

std::vector<std::string> enabled(House& house, std::vector<std::string> words) {
    house.options.channels = std::move(words);
    house.furnish();
    Texts names;
    for (const auto& channel : cubepi::run(house.manager->enabled_channels()))
        names.push_back(channel->name());
    return names;
}

void many_channels(House& house) {
    house.channels = {std::make_shared<TestChannel>("cli", ChannelRole::user_interface),
                      std::make_shared<TestChannel>("a"), std::make_shared<TestChannel>("b"),
                      std::make_shared<TestChannel>("off"),
                      std::make_shared<TestChannel>("cron", ChannelRole::lifecycle)};
    house.channels[3]->is_enabled = false;
}

TEST(EnabledChannels, AllAreTheServicesThatAreConfigured) {
    House house;
    many_channels(house);
    EXPECT_EQ(enabled(house, {"all"}), (Texts{"a", "b", "cron"}));
}

TEST(EnabledChannels, NamesAndExclusions) {
    const std::vector<std::pair<Texts, Texts>> cases{{{" cli "}, {"cli", "cron"}},
                                                     {{"b", "a"}, {"a", "b", "cron"}},
                                                     {{"all", "!a"}, {"b", "cron"}},
                                                     {{"a", "!cron"}, {"a"}},
                                                     {{"cron"}, {"cron"}},
                                                     {{"off", "nobody", ""}, {}},
                                                     {{"all", "cli"}, {"cli", "a", "b", "cron"}}};
    for (const auto& [words, names] : cases) {
        House house;
        many_channels(house);
        EXPECT_EQ(enabled(house, words), names) << words.front();
    }
}

TEST(ChannelManager, AMessageBecomesATurnAndItsAnswerGoesBack) {
    House house;
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "hello"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.channel->texts(), Texts{"re: hello"});
    EXPECT_EQ(house.channel->sent.front().session_id, "chat:1");
    EXPECT_EQ(house.framework->router(), nullptr) << "unbound at the end";
}

TEST(ChannelManager, B8_TurnsOfOneSessionRunOneAtATimeInOrder) {
    House house;
    house.hold("one");
    house.run([](House& h) -> Task<> {
        for (const char* text : {"one", "two", "three"})
            co_await h.handler(from("chat", "1", text));
        EXPECT_EQ(h.begun, Texts{"one"});
        const TurnSnapshot turn = h.manager->snapshot("chat:1");
        EXPECT_TRUE(turn.is_running);
        EXPECT_EQ(turn.pending_count, 2u);
        co_await h.handler(from("chat", "2", "other"));
        co_await h.until_begun(2);
        EXPECT_EQ(h.begun, (Texts{"one", "other"})) << "another session does not wait";
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.done, (Texts{"other", "one", "two", "three"}));
}

TEST(ChannelManager, AFailedTurnDoesNotConcernTheNext) {
    House house;
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "fail"));
        co_await h.handler(from("chat", "1", "next"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.channel->texts(), Texts{"re: next"});
    EXPECT_FALSE(house.errors.empty());
}

TEST(ChannelManager, B8_AdmissionDropsQueuesAndSteers) {
    House house;
    house.hold("one");
    house.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        const std::string& text = message.content_text();
        if (text.starts_with("drop")) decision.action = AdmitAction::drop;
        if (text.starts_with("later")) decision.action = AdmitAction::follow_up;
        if (text.starts_with("steer") || text.starts_with(","))
            decision.action = AdmitAction::steer;
        decision.reason = "said meanwhile";
        return decision;
    };
    std::vector<Envelope> steered;
    house.run([&](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "steer into nothing"));
        co_await h.manager->idle();
        for (const char* text : {"one", "drop me", "later a", "steer b"})
            co_await h.handler(from("chat", "1", text));
        EXPECT_EQ(h.manager->snapshot("chat:1").steering_count, 1u);
        steered = h.inbox->drain("chat:1");
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.done, (Texts{"steer into nothing", "one", "later a"}));
    ASSERT_EQ(steered.size(), 1u);
    EXPECT_EQ(steered.front().content_text(), "steer b");
    EXPECT_EQ(steered.front().context["steering_reason"], "said meanwhile");
}

TEST(ChannelManager, B8_SteeringThatWasNotTakenInKeepsItsPlace) {
    for (const char* first : {"one", "fail one"}) {
        House house;
        house.hold(first);
        house.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
            AdmitDecision decision;
            decision.action = message.content_text().starts_with("steer") ? AdmitAction::steer
                                                                          : AdmitAction::follow_up;
            return decision;
        };
        house.run([&](House& h) -> Task<> {
            co_await h.handler(from("chat", "1", first));
            for (const char* text : {"a", "steer b", "c", "steer d"})
                co_await h.handler(from("chat", "1", text));
            h.release(first);
            co_await h.manager->idle();
        });
        EXPECT_EQ(Texts(house.begun.begin() + 1, house.begun.end()),
                  (Texts{"a", "steer b", "c", "steer d"}))
            << first;
    }
}

TEST(ChannelManager, B14_AFullSteeringInboxMakesFollowUps) {
    House house;
    house.inbox = std::make_shared<MemorySteeringInbox>(1);
    house.hold("one");
    house.channel->admit = [](const Envelope&) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        decision.action = AdmitAction::steer;
        return decision;
    };
    house.run([](House& h) -> Task<> {
        for (const char* text : {"one", "two", "three"})
            co_await h.handler(from("chat", "1", text));
        EXPECT_EQ(h.manager->snapshot("chat:1").pending_count, 1u);
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.begun, (Texts{"one", "two", "three"}));
}

TEST(ChannelManager, B11_ACommandIsNeverSteered) {
    House house;
    house.hold("one");
    house.channel->admit = [](const Envelope&) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        decision.action = AdmitAction::steer;
        return decision;
    };
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        Envelope command = from("chat", "1", ",help");
        command.from_operator = true;
        co_await h.handler(std::move(command));
        EXPECT_EQ(h.manager->snapshot("chat:1").pending_count, 1u);
        EXPECT_EQ(h.inbox->count("chat:1"), 0u);
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.begun, (Texts{"one", ",help"}));
}

TEST(ChannelManager, B14_OverflowIsAnswered) {
    House house;
    house.options.max_waiting = 2;
    house.hold("one");
    int refused = 0;
    house.run([&](House& h) -> Task<> {
        for (const char* text : {"one", "two", "three", "four", "five"}) {
            try {
                co_await h.handler(from("chat", "1", text));
            } catch (const cubepi::Error& error) {
                EXPECT_EQ(error.code(), cubepi::ErrorCode::limit);
                ++refused;
            }
        }
        co_await h.handler(from("chat", "2", "other"));
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(refused, 2);
    EXPECT_EQ(house.done.size(), 4u);
    int answers = 0;
    for (const Envelope& message : house.channel->sent) {
        if (message.kind != envelope_kind::error) continue;
        ++answers;
        EXPECT_EQ(message.chat_id, "1");
        EXPECT_NE(message.content_text().find("Too many messages"), std::string::npos);
    }
    EXPECT_EQ(answers, 2);
}

TEST(ChannelManager, B14_DebouncedChannelsAreMergedPerChat) {
    House house;
    house.channel->debounced = true;
    house.run([](House& h) -> Task<> {
        for (const char* chat : {"1", "2", "1"})
            co_await h.handler(from("chat", chat, std::string("of ") + chat));
        co_await h.manager->idle();
        EXPECT_EQ(h.done, (Texts{"of 2", "of 1\nof 1"}));
        co_await h.clock->sleep_for(std::chrono::seconds(70));
        EXPECT_EQ(h.manager->busy_sessions(), 0u);
    });
    EXPECT_EQ(house.channel->texts().size(), 2u);
}

TEST(ChannelManager, D7_CancellingATurnLeavesTheRestAlone) {
    House house;
    house.hold("one");
    house.hold("other");
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "1", "two"));
        co_await h.handler(from("chat", "2", "other"));
        co_await h.until_begun(2);
        EXPECT_TRUE(h.manager->cancel_turn("chat:1"));
        EXPECT_FALSE(h.manager->cancel_turn("chat:9"));
        co_await h.until_begun(3);
        EXPECT_EQ(h.begun.back(), "two") << "what waits comes next";
        EXPECT_TRUE(h.manager->snapshot("chat:2").is_running);
        h.release("other");
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.done, (Texts{"two", "other"}));
}

TEST(ChannelManager, D7_AbortingASessionDropsWhatWaitsThere) {
    House house;
    house.hold("one");
    house.run([](House& h) -> Task<> {
        for (const char* text : {"one", "two", "three"})
            co_await h.handler(from("chat", "1", text));
        co_await h.manager->abort_session("chat:1");
        co_await h.manager->idle();
        co_await h.handler(from("chat", "1", "four"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.begun, (Texts{"one", "four"}));
    EXPECT_EQ(house.done, Texts{"four"});
}

TEST(ChannelManager, D7_AbortingASessionLeavesTheOthersAlone) {
    House house;
    house.hold("one");
    house.hold("other");
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "2", "other"));
        co_await h.handler(from("chat", "2", "behind it"));
        co_await h.manager->abort_session("chat:1");
        h.release("other");
        co_await h.manager->idle();
    });
    EXPECT_EQ(house.done, (Texts{"other", "behind it"}));
}

TEST(ChannelManager, B8_ChatsThatAHookPutsIntoOneSessionTakeTurns) {
    House house;
    house.hold("one");
    house.furnish();
    Plugin family;
    family.name = "family";
    family.resolve_session = [](ResolveSessionCall&) { return "family"; };
    house.framework->add(std::move(family));
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "2", "two"));
        EXPECT_EQ(h.begun, Texts{"one"});
        EXPECT_EQ(h.manager->snapshot("family").pending_count, 1u);
        h.release("one");
        co_await h.manager->idle();
        EXPECT_EQ(h.manager->busy_sessions(), 0u);
    });
    EXPECT_EQ(house.done, (Texts{"one", "two"}));
    EXPECT_EQ(house.channel->sent.back().chat_id, "2") << "each is answered where it was asked";
}

TEST(ChannelManager, NothingIsKeptOfIdleSessions) {
    House house;
    house.run([](House& h) -> Task<> {
        for (int i = 0; i < 100; ++i) co_await h.handler(from("chat", std::to_string(i), "hello"));
        co_await h.manager->idle();
        EXPECT_EQ(h.manager->busy_sessions(), 0u);
    });
    EXPECT_EQ(house.done.size(), 100u);
}

TEST(ChannelManager, ChannelsSeeWhatRunsWhenTheyAreAsked) {
    House house;
    house.hold("one");
    house.run([](House& h) -> Task<> {
        for (const char* text : {"one", "two", "three"})
            co_await h.handler(from("chat", "1", text));
        h.release("one");
        co_await h.manager->idle();
    });
    ASSERT_EQ(house.channel->snapshots.size(), 3u);
    EXPECT_FALSE(house.channel->snapshots[0].is_running);
    EXPECT_TRUE(house.channel->snapshots[1].is_running);
    EXPECT_EQ(house.channel->snapshots[2].pending_count, 1u);
}

}  // namespace
}  // namespace bub::channel_tests
