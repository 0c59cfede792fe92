#pragma once

#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/message_list.hpp>

namespace cubepi::detail {

/// Returns the requests that an answer can reach: those of the run whose calls are open at the end of the history. All others are of a
/// run that was closed, or whose calls are not at the end any more. `run_id` is that of the run if its messages name none (old files),
/// as requests of old files name none.
std::vector<PendingRequest> requests_of_open_calls(std::vector<PendingRequest> pending,
                                                   const MessageList& messages,
                                                   std::string run_id = {});

/// Returns true if the time to answer is over, also if no process has noticed it (D65). `now`: Unix seconds.
bool is_expired(const PendingRequest& pending, double now);

}  // namespace cubepi::detail
