// The available channels: those provided by plugins, by precedence and by name.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;
using Channels = std::vector<std::shared_ptr<Channel>>;

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

TEST_F(ProvidedChannels, OfTwoWithOneNameThatOfThePluginWithPrecedenceIsTaken) {
    const Channels old = {channel("chat"), channel("mail")};
    const Channels fresh = {channel("chat"), channel("web")};
    framework->add(providing("old", old));
    framework->add(providing("fresh", fresh));
    EXPECT_EQ(found(), (Texts{"chat of fresh", "web of fresh", "mail of old"}));
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("chat of plugin old yields to that of plugin fresh"),
              std::string::npos);
}

TEST_F(ProvidedChannels, PriorityGoesBeforeTheOrderOfRegistration) {
    const Channels first = {channel("chat")};
    const Channels second = {channel("chat")};
    framework->add(providing("important", first, 1));
    framework->add(providing("later", second));
    EXPECT_EQ(found(), Texts{"chat of important"});
}

TEST_F(ProvidedChannels, AlsoWithinOnePluginANameIsTakenOnceAndNullsAreNone) {
    const Channels twice = {nullptr, channel("chat"), channel("chat")};
    framework->add(providing("careless", twice));
    EXPECT_EQ(found(), Texts{"chat of careless"});
}

TEST_F(ProvidedChannels, PluginsAreNotAskedBeforeAManagerNeedsChannels) {
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
