#pragma once

#include <string>

#include <cubepi/agent/run/run_core.hpp>

// The state of a turn with open calls, besides its messages and requests: the messages of after_model_response that follow
// the results, and the digest of the prompt (D56). It is stored in the thread's `extra` while calls of the turn are open,
// so that another process can continue the turn.

namespace cubepi::detail {

/// Stores the state of the turn whose answer has this id.
Task<> save_turn(const RunCore& core, const std::string& answer_id,
                 const MessageList& inject_messages);

/// Returns the stored messages of the turn whose answer has this id, and lets the prefix guard compare the next request with
/// the one before the suspension. Returns no messages if no state of this turn is stored.
MessageList restore_turn(const RunCore& core, const std::string& answer_id);

/// Removes the state of any turn. The caller saves `extra`.
void forget_turn(AgentState& state);

}  // namespace cubepi::detail
