#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <bub/channel/http_channel.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::app {

/// The name of the agent of a gateway, as the `model` of clients.
inline constexpr const char* gateway_agent_name = "cubepi";

/// A token with which clients use these protocols.
struct OpenAIKey {
    /// The user of all its messages, whose sessions are separate from those of other keys. Empty: the token of the channel, whose clients
    /// name users and sessions.
    std::string name = {};
    std::string token = {};
    std::size_t most_turns = 0;  ///< that are in progress at a time; 0: no limit of its own
};

/// Returns the authentication of these routes.
HttpAuthentication openai_authentication(const std::vector<OpenAIKey>& keys);

/// The protocols that a gateway offers.
struct OpenAIRoutes {
    bool openai =
        false;  ///< `/v1/models`, `/v1/chat/completions`, `/v1/responses` (docs/guides/bub/openai.md)
    bool ag_ui = false;  ///< `/v1/ag-ui` (docs/guides/bub/ag-ui.md)
};

/// Adds the routes to those of the channel http, so that SDKs of these protocols can talk to the agent. Ids of responses are bound to
/// their key.
void add_openai_interface(HttpRoutes& routes, bub::HttpChannel& channel, OpenAIRoutes offered,
                          std::vector<OpenAIKey> keys);

}  // namespace cubepi::app
