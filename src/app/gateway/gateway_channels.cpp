#include "gateway_channels.hpp"

#include <cstdlib>
#include <string>
#include <utility>

#include <bub/channel/http_channel.hpp>
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

}  // namespace

std::vector<std::shared_ptr<bub::Channel>> gateway_channels(const GatewaySettings& settings,
                                                            bub::ProvideChannelsCall& call) {
    std::vector<std::shared_ptr<bub::Channel>> channels;
    if (settings.http) channels.push_back(http_channel(*settings.http, call.handler));
    return channels;
}

}  // namespace cubepi::app
