#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <bub/channel/http_channel.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::app {

/// The name of the agent of a gateway, as the `model` of clients.
inline constexpr const char* gateway_agent_name = "cubepi";

/// A token with which clients use the interface.
struct OpenAIKey {
    /// The user of all its messages, whose sessions are separate from those of other keys. Empty: the token of the channel, whose clients
    /// name users and sessions.
    std::string name = {};
    std::string token = {};
    std::size_t most_turns = 0;  ///< that are in progress at a time; 0: no limit of its own
};

/// Returns the authentication of these routes.
HttpAuthentication openai_authentication(const std::vector<OpenAIKey>& keys);

/// Adds the routes `/v1/models`, `/v1/chat/completions` and `/v1/responses` to those of the channel http, so that SDKs of OpenAI's
/// protocols can talk to the agent (docs/guides/bub/openai.md). Ids of responses are bound to their key.
void add_openai_interface(HttpRoutes& routes, bub::HttpChannel& channel,
                          std::vector<OpenAIKey> keys);

}  // namespace cubepi::app
