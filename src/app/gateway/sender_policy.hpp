#pragma once

#include <bub/builtin/builtin.hpp>

#include "../config/gateway_settings.hpp"

namespace cubepi::app {

/// Returns how the turns of the gateway ask their users: the rules for the senders (B26) and the approvers (B25). Throws
/// Error(invalid_argument) that names a rule that is not one.
bub::TurnQuestions sender_policy(const GatewaySettings& settings);

}  // namespace cubepi::app
