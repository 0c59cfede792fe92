#pragma once

#include <memory>
#include <vector>

#include <bub/channel.hpp>
#include <bub/hooks.hpp>

#include "../config/gateway_settings.hpp"

namespace cubepi::app {

/// Makes the channels that are configured. Throws Error for a channel whose token is missing.
std::vector<std::shared_ptr<bub::Channel>> gateway_channels(const GatewaySettings& settings,
                                                            bub::ProvideChannelsCall& call);

}  // namespace cubepi::app
