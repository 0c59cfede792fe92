// The available channels: those provided by plugins, by precedence and by name.

#include <bub/channel/channel_manager.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/questions.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;
using Channels = std::vector<std::shared_ptr<Channel>>;

std::vector<std::string> enabled(Gateway& gateway, std::vector<std::string> words) {
    gateway.options.channels = std::move(words);
    gateway.furnish();
    Texts names;
    for (const auto& channel : cubepi::run(gateway.manager->enabled_channels()))
        names.push_back(channel->name());
    return names;
}

void many_channels(Gateway& gateway) {
    gateway.channels = {std::make_shared<TestChannel>("cli", ChannelRole::user_interface),
                        std::make_shared<TestChannel>("a"), std::make_shared<TestChannel>("b"),
                        std::make_shared<TestChannel>("off"),
                        std::make_shared<TestChannel>("cron", ChannelRole::lifecycle)};
    gateway.channels[3]->is_enabled = false;
}

TEST(EnabledChannels, AllChannels_AreTheConfiguredServices) {
    Gateway gateway;
    many_channels(gateway);
    EXPECT_EQ(enabled(gateway, {"all"}), (Texts{"a", "b", "cron"}));
}

TEST(EnabledChannels, NamesAndExclusions_SelectChannels) {
    const std::vector<std::pair<Texts, Texts>> cases{
        {{" cli "}, {"cli", "cron"}},   {{"b", "a"}, {"a", "b", "cron"}},
        {{"all", "!a"}, {"b", "cron"}}, {{"all", "!a", "!b"}, {}},
        {{"a", "!cron"}, {"a"}},        {{"cron"}, {"cron"}},
        {{"off", "unknown", ""}, {}},   {{"all", "cli"}, {"cli", "a", "b", "cron"}}};
    for (const auto& [words, names] : cases) {
        Gateway gateway;
        many_channels(gateway);
        EXPECT_EQ(enabled(gateway, words), names) << words.front();
    }
}

TEST(ChannelManager, Message_BecomesATurnWhoseAnswerGoesBack) {
    Gateway gateway;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "hello"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.channel->texts(), Texts{"re: hello"});
    EXPECT_EQ(gateway.channel->sent.front().session_id, "chat:1");
    EXPECT_EQ(gateway.framework->router(), nullptr) << "unbound at the end";
}

TEST(ChannelManager, B8_TurnsOfOneSession_RunInOrder) {
    Gateway gateway;
    gateway.hold("one");
    gateway.run([](Gateway& h) -> Task<> {
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
    EXPECT_EQ(gateway.done, (Texts{"other", "one", "two", "three"}));
}

TEST(ChannelManager, FailedTurn_DoesNotAffectTheNext) {
    Gateway gateway;
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "fail"));
        co_await h.handler(from("chat", "1", "next"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.channel->texts(), Texts{"re: next"});
    EXPECT_FALSE(gateway.errors.empty());
}

TEST(ChannelManager, B8_Admission_DropsQueuesAndSteers) {
    Gateway gateway;
    gateway.hold("one");
    gateway.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        const std::string& text = message.content_text();
        if (text.starts_with("drop")) decision.action = AdmitAction::drop;
        if (text.starts_with("later")) decision.action = AdmitAction::follow_up;
        if (text.starts_with("steer") || text.starts_with(","))
            decision.action = AdmitAction::steer;
        decision.reason = "sent meanwhile";
        return decision;
    };
    std::vector<Envelope> steered;
    gateway.run([&](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "steer into nothing"));
        co_await h.manager->idle();
        for (const char* text : {"one", "drop me", "later a", "steer b"})
            co_await h.handler(from("chat", "1", text));
        EXPECT_EQ(h.manager->snapshot("chat:1").steering_count, 1u);
        steered = h.inbox->drain("chat:1");
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"steer into nothing", "one", "later a"}));
    ASSERT_EQ(steered.size(), 1u);
    EXPECT_EQ(steered.front().content_text(), "steer b");
    EXPECT_EQ(steered.front().context["steering_reason"], "sent meanwhile");
}

TEST(ChannelManager, B8_UnusedSteering_KeepsItsPlace) {
    for (const char* first : {"one", "fail one"}) {
        Gateway gateway;
        gateway.hold(first);
        gateway.channel->admit = [](const Envelope& message) -> std::optional<AdmitDecision> {
            AdmitDecision decision;
            decision.action = message.content_text().starts_with("steer") ? AdmitAction::steer
                                                                          : AdmitAction::follow_up;
            return decision;
        };
        gateway.run([&](Gateway& h) -> Task<> {
            co_await h.handler(from("chat", "1", first));
            for (const char* text : {"a", "steer b", "c", "steer d"})
                co_await h.handler(from("chat", "1", text));
            h.release(first);
            co_await h.manager->idle();
        });
        EXPECT_EQ(Texts(gateway.begun.begin() + 1, gateway.begun.end()),
                  (Texts{"a", "steer b", "c", "steer d"}))
            << first;
    }
}

TEST(ChannelManager, B14_FullSteeringInbox_MakesFollowUps) {
    Gateway gateway;
    gateway.inbox = std::make_shared<MemorySteeringInbox>(1);
    gateway.hold("one");
    gateway.channel->admit = [](const Envelope&) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        decision.action = AdmitAction::steer;
        return decision;
    };
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two", "three"})
            co_await h.handler(from("chat", "1", text));
        EXPECT_EQ(h.manager->snapshot("chat:1").pending_count, 1u);
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, (Texts{"one", "two", "three"}));
}

TEST(ChannelManager, B11_Command_IsNeverSteered) {
    Gateway gateway;
    gateway.hold("one");
    gateway.channel->admit = [](const Envelope&) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        decision.action = AdmitAction::steer;
        return decision;
    };
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        Envelope command = from("chat", "1", ",help");
        command.from_operator = true;
        co_await h.handler(std::move(command));
        EXPECT_EQ(h.manager->snapshot("chat:1").pending_count, 1u);
        EXPECT_EQ(h.inbox->count("chat:1"), 0u);
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, (Texts{"one", ",help"}));
}

TEST(ChannelManager, B14_Overflow_IsAnswered) {
    Gateway gateway;
    gateway.options.max_waiting = 2;
    gateway.hold("one");
    int refused = 0;
    gateway.run([&](Gateway& h) -> Task<> {
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
    EXPECT_EQ(gateway.done.size(), 4u);
    int answers = 0;
    for (const Envelope& message : gateway.channel->sent) {
        if (message.kind != envelope_kind::error) continue;
        ++answers;
        EXPECT_EQ(message.chat_id, "1");
        EXPECT_NE(message.content_text().find("Too many messages"), std::string::npos);
        EXPECT_EQ(message.context.at("rejected"), true);
    }
    EXPECT_EQ(answers, 2);
}

/// The user did not send it, and could not send it again.
TEST(ChannelManager, B14_ResultsOfTasks_AreNotRejected) {
    Gateway gateway;
    gateway.options.max_waiting = 1;
    gateway.hold("one");
    gateway.run([&](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two"}) co_await h.handler(from("chat", "1", text));
        Envelope results = from("chat", "1", "(results)");
        results.rest[task_results_key] = true;
        co_await h.handler(std::move(results));
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"one", "two", "(results)"}));
    EXPECT_TRUE(
        std::none_of(gateway.channel->sent.begin(), gateway.channel->sent.end(),
                     [](const Envelope& sent) { return sent.kind == envelope_kind::error; }));
}

TEST(ChannelManager, ChangedClock_DelaysNoMessage) {
    Gateway gateway;
    gateway.run([](Gateway& h) -> Task<> {
        const auto date = h.clock->wall();
        co_await h.handler(from("chat", "1", "one"));
        h.clock->set_wall(date - std::chrono::years(1));
        co_await h.handler(from("chat", "1", "two"));
        h.clock->set_wall(date + std::chrono::years(1));
        co_await h.handler(from("chat", "1", "three"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"one", "two", "three"}));
}

TEST(ChannelManager, B14_HangingNotice_DelaysNoMessage) {
    Gateway gateway;
    gateway.options.max_waiting = 1;
    gateway.hold("one");
    int refused = 0;
    gateway.run([&](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.until_begun(1);
        h.channel->on_send = Trouble::hangs;
        // One after the other, as a channel that polls does.
        for (const char* text : {"two", "three", "four", "five"}) {
            const cubepi::Outcome<> handled =
                co_await cubepi::outcome_of(h.handler(from("chat", "1", text)));
            refused += handled ? 0 : 1;
        }
        EXPECT_EQ(h.channel->sends, 1u) << "one notice at a time";
        h.channel->on_send = Trouble::none;
        co_await h.handler(from("chat", "2", "other"));
        h.release("one");
        co_await h.manager->idle();
    });
    EXPECT_EQ(refused, 3);
    EXPECT_EQ(gateway.done, (Texts{"other", "one", "two"}));
}

TEST(ChannelManager, B14_DebouncedMessages_AreMergedPerChat) {
    Gateway gateway;
    gateway.channel->debounced = true;
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* chat : {"1", "2", "1"})
            co_await h.handler(from("chat", chat, std::string("of ") + chat));
        co_await h.manager->idle();
        EXPECT_EQ(h.done, (Texts{"of 2", "of 1\nof 1"}));
        co_await h.clock->sleep_for(std::chrono::seconds(70));
        EXPECT_EQ(h.manager->busy_sessions(), 0u);
    });
    EXPECT_EQ(gateway.channel->texts().size(), 2u);
}

TEST(ChannelManager, D7_CancelledTurn_LeavesTheRestAlone) {
    Gateway gateway;
    gateway.hold("one");
    gateway.hold("other");
    gateway.run([](Gateway& h) -> Task<> {
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
    EXPECT_EQ(gateway.done, (Texts{"two", "other"}));
}

/// The turn may have ended, and the next one begun, before the stop is carried out.
TEST(ChannelManager, D96_StopOfOneMessage_LeavesOtherTurnsAlone) {
    Gateway gateway;
    gateway.hold("b");
    gateway.run([](Gateway& gateway) -> Task<> {
        Envelope message = from("chat", "1", "b");
        message.inbound_id = "second";
        co_await gateway.handler(std::move(message));
        co_await gateway.until_begun(1);
        Envelope by = from("chat", "1", "/stop");
        by.from_operator = true;
        by.rest[only_message_key] = "first";
        StopOutcome outcome = co_await gateway.manager->stop_turn(by);
        EXPECT_EQ(outcome, StopOutcome::idle);
        gateway.release("b");
        co_await gateway.manager->idle();
        EXPECT_EQ(gateway.done, std::vector<std::string>{"b"});
        gateway.hold("c");
        message = from("chat", "1", "c");
        message.inbound_id = "third";
        co_await gateway.handler(std::move(message));
        co_await gateway.until_begun(2);
        by.rest[only_message_key] = "third";
        outcome = co_await gateway.manager->stop_turn(by);
        EXPECT_EQ(outcome, StopOutcome::stopped);
    });
    EXPECT_EQ(gateway.done, std::vector<std::string>{"b"});
}

TEST(ChannelManager, D265_StopAfterTheAnswer_IsAcknowledged) {
    Gateway gateway;
    Plugin stops;
    stops.name = "stops";
    stops.dispatch_outbound = [&gateway](DispatchOutboundCall&) -> Task<bool> {
        EXPECT_EQ(gateway.channel->texts(), Texts{"re: one"});
        Envelope by = from("chat", "1", "/stop");
        by.from_operator = true;
        const StopOutcome outcome = co_await gateway.manager->stop_turn(std::move(by));
        EXPECT_EQ(outcome, StopOutcome::stopped);
        co_return true;
    };
    gateway.framework->add(std::move(stops));
    gateway.furnish();
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.channel->texts(),
              (Texts{"re: one", "The turn was over before it could be stopped."}));
}

TEST(ChannelManager, D7_AbortedSession_DropsItsWaitingMessages) {
    Gateway gateway;
    gateway.hold("one");
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two", "three"})
            co_await h.handler(from("chat", "1", text));
        co_await h.manager->abort_session("chat:1");
        co_await h.manager->idle();
        co_await h.handler(from("chat", "1", "four"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.begun, (Texts{"one", "four"}));
    EXPECT_EQ(gateway.done, Texts{"four"});
}

TEST(ChannelManager, D7_AbortedSession_LeavesTheOthersAlone) {
    Gateway gateway;
    gateway.hold("one");
    gateway.hold("other");
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "2", "other"));
        co_await h.handler(from("chat", "2", "behind it"));
        co_await h.manager->abort_session("chat:1");
        h.release("other");
        co_await h.manager->idle();
    });
    EXPECT_EQ(gateway.done, (Texts{"other", "behind it"}));
}

TEST(ChannelManager, B8_ChatsPutIntoOneSession_TakeTurns) {
    Gateway gateway;
    gateway.hold("one");
    gateway.furnish();
    Plugin family;
    family.name = "family";
    family.resolve_session = [](ResolveSessionCall&) { return "family"; };
    gateway.framework->add(std::move(family));
    gateway.run([](Gateway& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.handler(from("chat", "2", "two"));
        EXPECT_EQ(h.begun, Texts{"one"});
        EXPECT_EQ(h.manager->snapshot("family").pending_count, 1u);
        h.release("one");
        co_await h.manager->idle();
        EXPECT_EQ(h.manager->busy_sessions(), 0u);
    });
    EXPECT_EQ(gateway.done, (Texts{"one", "two"}));
    EXPECT_EQ(gateway.channel->sent.back().chat_id, "2") << "each is answered where it was asked";
}

TEST(ChannelManager, IdleSessions_UseNoMemory) {
    Gateway gateway;
    gateway.run([](Gateway& h) -> Task<> {
        for (int i = 0; i < 100; ++i) co_await h.handler(from("chat", std::to_string(i), "hello"));
        co_await h.manager->idle();
        EXPECT_EQ(h.manager->busy_sessions(), 0u);
    });
    EXPECT_EQ(gateway.done.size(), 100u);
}

TEST(ChannelManager, Admission_ShowsTheChannelWhatIsRunning) {
    Gateway gateway;
    gateway.hold("one");
    gateway.run([](Gateway& h) -> Task<> {
        for (const char* text : {"one", "two", "three"})
            co_await h.handler(from("chat", "1", text));
        h.release("one");
        co_await h.manager->idle();
    });
    ASSERT_EQ(gateway.channel->snapshots.size(), 3u);
    EXPECT_FALSE(gateway.channel->snapshots[0].is_running);
    EXPECT_TRUE(gateway.channel->snapshots[1].is_running);
    EXPECT_EQ(gateway.channel->snapshots[2].pending_count, 1u);
}

TEST(SteeringInbox, D183_ReturnedMessages_ComeFirstBeyondTheLimit) {
    MemorySteeringInbox inbox(2);
    for (const char* text : {"one", "two"}) EXPECT_TRUE(inbox.enqueue("s", Envelope(text)));
    std::vector<Envelope> drained = inbox.drain("s");
    for (const char* text : {"three", "four"}) EXPECT_TRUE(inbox.enqueue("s", Envelope(text)));
    inbox.put_back("s", std::move(drained));
    EXPECT_FALSE(inbox.enqueue("s", Envelope("five")));
    std::vector<std::string> texts;
    for (const Envelope& message : inbox.drain("s")) texts.push_back(message.content_text());
    EXPECT_EQ(texts, (std::vector<std::string>{"one", "two", "three", "four"}));
    inbox.put_back("s", {});
    EXPECT_EQ(inbox.count("s"), 0u);
}

TEST(SteeringInbox, B14_Inbox_IsBoundedAndReturnsOldestFirst) {
    MemorySteeringInbox inbox(2);
    EXPECT_TRUE(inbox.enqueue("a", Envelope("1")));
    EXPECT_TRUE(inbox.enqueue("a", Envelope("2")));
    EXPECT_FALSE(inbox.enqueue("a", Envelope("3")));
    EXPECT_TRUE(inbox.enqueue("b", Envelope("4")));
    EXPECT_EQ(inbox.count("a"), 2u);
    const std::vector<Envelope> drained = inbox.drain("a");
    ASSERT_EQ(drained.size(), 2u);
    EXPECT_EQ(drained.front().content_text(), "1");
    EXPECT_EQ(inbox.count("a"), 0u);
    EXPECT_TRUE(inbox.drain("unknown").empty());
    EXPECT_EQ(inbox.count("b"), 1u);
}

Plugin providing(std::string name, Channels channels, int priority = 0) {
    Plugin plugin;
    plugin.name = std::move(name);
    plugin.priority = priority;
    plugin.provide_channels = [channels = std::move(channels)](ProvideChannelsCall&) {
        return channels;
    };
    return plugin;
}

std::shared_ptr<Channel> channel(const char* name) { return std::make_shared<TestChannel>(name); }

class ProvidedChannels : public testing::Test {
protected:
    ProvidedChannels() {
        FrameworkOptions options;
        options.workspace = "/";
        options.on_warning = [this](std::string text) { warnings.push_back(std::move(text)); };
        framework = std::make_unique<Framework>(std::move(options));
    }

    /// "channel of plugin", in the order in which they are found.
    Texts found() {
        Texts all;
        MessageHandler ignore = [](Envelope) -> Task<> { co_return; };
        for (const ProvidedChannel& one : cubepi::run(framework->collect_channels(ignore)))
            all.push_back(one.channel->name() + " of " + one.plugin);
        return all;
    }

    Texts warnings;
    std::unique_ptr<Framework> framework;
};

TEST_F(ProvidedChannels, SharedChannelName_SelectsPluginWithPrecedence) {
    const Channels old = {channel("chat"), channel("mail")};
    const Channels fresh = {channel("chat"), channel("web")};
    framework->add(providing("old", old));
    framework->add(providing("fresh", fresh));
    EXPECT_EQ(found(), (Texts{"chat of fresh", "web of fresh", "mail of old"}));
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("chat of plugin old yields to that of plugin fresh"),
              std::string::npos);
}

TEST_F(ProvidedChannels, Priority_PrecedesTheOrderOfRegistration) {
    const Channels first = {channel("chat")};
    const Channels second = {channel("chat")};
    framework->add(providing("important", first, 1));
    framework->add(providing("later", second));
    EXPECT_EQ(found(), Texts{"chat of important"});
}

TEST_F(ProvidedChannels, RepeatedNamesAndNulls_AreIgnoredWithinPlugin) {
    const Channels twice = {nullptr, channel("chat"), channel("chat")};
    framework->add(providing("careless", twice));
    EXPECT_EQ(found(), Texts{"chat of careless"});
}

TEST_F(ProvidedChannels, Plugins_AreAskedOnlyWhenManagerNeedsChannels) {
    int asked = 0;
    Plugin plugin;
    plugin.name = "costly";
    plugin.run_model = [](RunModelCall&) { return "done"; };
    plugin.provide_channels = [&asked](ProvideChannelsCall&) {
        ++asked;
        return Channels(1, channel("chat"));
    };
    framework->add(std::move(plugin));
    (void)cubepi::run(framework->process_inbound(Envelope("hello")));
    ChannelManager manager(*framework);
    EXPECT_EQ(asked, 0);
    EXPECT_EQ(cubepi::run(manager.enabled_channels()).size(), 1u);
    EXPECT_EQ(cubepi::run(manager.enabled_channels()).size(), 1u);
    EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace bub::channel_tests
