#pragma once

#include <cubepi/agent/run/run_core.hpp>

// The hooks at the end of a turn and of a run. Each is called only if it is set. A failure throws HookFailed.

namespace cubepi::detail {

/// An answer after after_model_response.
struct ResponseReview {
    Message message = {};
    TurnDecision decision = TurnDecision::natural;
    MessageList inject_messages = {};
    bool cut_short = false;  ///< the run was aborted before the hook returned
};

/// Passes an answer to after_model_response. The hook's changes of an answer that is cut short are preserved, too.
Task<ResponseReview> review_answer(RunCore& core, Message message);

/// Calls should_stop_after_turn.
Task<bool> should_stop(RunCore& core, Message message, MessageList tool_results);

/// Calls on_run_end.
Task<MessageList> messages_at_run_end(RunCore& core);

}  // namespace cubepi::detail
