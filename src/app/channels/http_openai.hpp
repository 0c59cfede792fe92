#pragma once

#include <string>

#include <bub/channel/http_channel.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::app {

/// The name of the agent of a gateway, as the `model` of clients.
inline constexpr const char* gateway_agent_name = "cubepi";

/// Adds the routes `/v1/models`, `/v1/chat/completions` and `/v1/responses` to those of the channel http, so that SDKs of OpenAI's
/// protocols can talk to the agent (docs/guides/bub/openai.md). `token`: of the channel; ids of responses are bound to it.
void add_openai_interface(HttpRoutes& routes, bub::HttpChannel& channel, std::string token);

}  // namespace cubepi::app
