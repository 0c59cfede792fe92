// The channel telegram against telegram-test-api, a Bot API that is not ours.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/run.hpp>

#include "../net/child_process.hpp"
#include "source_tree.hpp"

namespace bub {
namespace {

using cubepi::wire::ChildProcess;

std::string mocks_directory() {
    const char* given = std::getenv("CUBEPI_MOCKS_DIR");
    return given ? given : cubepi::testing::source_path("tools/mocks");
}

/// A bot that repeats what its user writes, in bold.
Plugin echo(Framework& framework, const std::string& url) {
    Plugin plugin;
    plugin.name = "echo";
    plugin.run_model = [](RunModelCall& call) {
        return "You wrote **" + call.message.content_text() + "**";
    };
    plugin.dispatch_outbound = [&framework](DispatchOutboundCall& call) -> Task<bool> {
        TurnOutput output = call.output();
        const auto router = framework.router();
        const bool sent = router && co_await router->dispatch_output(std::move(output));
        co_return sent;
    };
    plugin.provide_channels = [url](ProvideChannelsCall& call) {
        TelegramChannelOptions options;
        options.token = "42:token-of-the-test";
        options.api_url = url;
        options.users = {"1"};
        std::vector<std::shared_ptr<Channel>> channels;
        channels.push_back(std::make_shared<TelegramChannel>(std::move(options), call.handler));
        return channels;
    };
    return plugin;
}

TEST(TelegramTestApi, PrivateChat_GetsItsAnswers) {
    ChildProcess server({"node",
                         cubepi::testing::source_path("tests/wire/telegram/telegram_server.mjs"),
                         mocks_directory()});
    const std::string line = server.read_line();
    ASSERT_FALSE(line.empty())
        << "telegram-test-api did not start: run tools/setup, which installs it in tools/mocks";
    const std::string url(boost::json::parse(line).at("url").as_string());

    std::stop_source stop;
    std::thread gateway([&] {
        FrameworkOptions options;
        options.workspace = "/";
        Framework framework(std::move(options));
        framework.add(echo(framework, url));
        ChannelManagerOptions serving;
        serving.debounce.delay = std::chrono::milliseconds(1);
        ChannelManager manager(framework, std::move(serving));
        cubepi::run(manager.run(stop.get_token()));
    });
    for (const char* text : {"hello", "gr\u00FC\u00DFe \U0001F600"}) {
        server.write_line(boost::json::serialize(JsonObject{{"say", text}}));
        const Json answers = boost::json::parse(server.read_line());
        ASSERT_EQ(answers.as_array().size(), 1u);
        EXPECT_EQ(answers.at(0).at("text").as_string(), "You wrote " + std::string(text));
        EXPECT_EQ(answers.at(0).at("entities").at(0).at("type"), "bold");
        EXPECT_EQ(answers.at(0).at("entities").at(0).at("offset"), 10);
    }
    stop.request_stop();
    gateway.join();
    EXPECT_EQ(server.wait(), 0);
}

}  // namespace
}  // namespace bub
