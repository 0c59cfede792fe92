#pragma once

#include <memory>
#include <string>

#include <cubepi/agent/run/agent_impl.hpp>

namespace cubepi::detail {

/// Agent::rewind().
Task<void> run_rewind(std::shared_ptr<Agent::Impl> impl, std::string message_id,
                      std::string new_thread_id);

}  // namespace cubepi::detail
