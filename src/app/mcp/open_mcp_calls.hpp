#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// Returns those of `servers` that the run of a tape calls first when it continues: the servers of its calls that have no result yet.
/// All of them if a sub-agent is called, because its calls are on a tape of its own.
std::vector<std::string> servers_of_open_calls(const MessageList& messages,
                                               const std::vector<std::string>& servers);

/// Returns the same for a tape, and nothing if no run of it is suspended.
Task<std::vector<std::string>> servers_of_suspended_run(std::shared_ptr<bub::TapeStore> tapes,
                                                        std::string tape,
                                                        std::vector<std::string> servers);

}  // namespace cubepi::app
