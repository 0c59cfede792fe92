#include "gateway_channels.hpp"

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <bub/channel/http_channel.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>

#include "../config/paths.hpp"

namespace cubepi::app {

namespace {

/// Returns the value of the variable with a channel's token. Throws Error(invalid_argument) if it is not set.
std::string token_in(const std::string& variable, const std::string& channel,
                     const std::string& advice) {
    const char* const value = std::getenv(variable.c_str());
    if (value && *value) return value;
    throw Error(ErrorCode::invalid_argument, "the channel " + channel + " has no token, since " +
                                                 variable + " is not set. " + advice);
}

std::shared_ptr<bub::Channel> http_channel(const HttpChannelSettings& settings,
                                           const bub::MessageHandler& handler) {
    bub::HttpChannelOptions options;
    options.server.host = settings.listen.host;
    options.server.port = settings.listen.port;
    options.server.certificate_file = settings.certificate.string();
    options.server.key_file = settings.key.string();
    options.operators = settings.operators;
    options.token =
        token_in(settings.token_env, "http",
                 "To make one: export " + settings.token_env + "=$(openssl rand -hex 16)");
    return std::make_shared<bub::HttpChannel>(std::move(options), handler);
}

std::shared_ptr<bub::Channel> telegram_channel(const TelegramChannelSettings& settings,
                                               bub::ProvideChannelsCall& call) {
    bub::TelegramChannelOptions options;
    options.token = settings.token;
    if (options.token.empty()) {
        options.token =
            token_in(settings.token_env, "telegram", "To set it up: cubepi onboard telegram");
    }
    options.users = settings.users;
    options.chats = settings.chats;
    options.operators = settings.operators;
    options.shows_progress = settings.progress;
    options.api_url = settings.api_url;
    options.runtime = call.framework.runtime();
    options.on_warning = call.framework.options().on_warning;
    if (const std::optional<TelegramWebhookSettings>& webhook = settings.webhook) {
        options.webhook.emplace();
        options.webhook->url = webhook->url;
        options.webhook->path = webhook->path;
        options.webhook->server.host = webhook->listen.host;
        options.webhook->server.port = webhook->listen.port;
        options.webhook->secret =
            token_in(webhook->secret_env, "telegram",
                     "To make one: export " + webhook->secret_env + "=$(openssl rand -hex 32)");
    }
    return std::make_shared<bub::TelegramChannel>(std::move(options), call.handler);
}

}  // namespace

std::vector<std::shared_ptr<bub::Channel>> gateway_channels(const GatewaySettings& settings,
                                                            bub::ProvideChannelsCall& call) {
    std::vector<std::shared_ptr<bub::Channel>> channels;
    if (settings.http) channels.push_back(http_channel(*settings.http, call.handler));
    if (settings.telegram) channels.push_back(telegram_channel(*settings.telegram, call));
    return channels;
}

}  // namespace cubepi::app
