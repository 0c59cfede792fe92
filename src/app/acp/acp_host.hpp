#pragma once

#include <memory>

#include <cubepi/acp/agent.hpp>

#include "../command_line.hpp"

namespace cubepi::app {

/// Returns the host of `cubepi acp`: its sessions are conversations of the program with these flags, saved for the user's other
/// commands. All of them work in one directory, that of the first one, because the process does (D190). `protocol`: the newest version.
std::shared_ptr<AcpHost> editor_host(ConversationFlags flags, int protocol);

}  // namespace cubepi::app
