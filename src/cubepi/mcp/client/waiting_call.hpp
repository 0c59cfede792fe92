#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/client/call_input.hpp>

namespace cubepi::detail {

/// A question of the server to the user of a call, who may be asked in a later run.
struct McpWaitingQuestion {
    std::string method;
    JsonObject params;
    std::vector<std::string>
        tools;  ///< of the calls to which it may belong; empty: it belongs to this one
    McpInputAnswer slot;
    /// Stopped when the server does not wait for the answer any more.
    std::stop_source withdrawn;
};

/// A call of a server with sessions that belongs to the client and not to the run that has made it: the server waits on its
/// connection while the run is suspended (D130). A run attends to it: it asks the user and takes the result. Used on the executor of the
/// client.
struct McpWaitingCall {
    std::string id;
    std::deque<std::shared_ptr<McpWaitingQuestion>> questions;
    std::optional<Outcome<JsonObject>> ended;
    AsyncEvent changed;              ///< pulsed after a change of `questions` or `ended`
    McpProgressHandler on_progress;  ///< of the run that attends
    bool is_attended = false;
    Clock::time_point expires = Clock::time_point::max();  ///< unless a run attends
    std::stop_source expiry;  ///< ends the wait for `expires`: a run attends, or the call has ended
    std::stop_source stop;    ///< withdraws the call

    /// Queues a question and waits for its answer.
    static Task<JsonObject> ask(std::shared_ptr<McpWaitingCall> call, std::string method,
                                JsonObject params, std::vector<std::string> tools);
};

using McpWaitingCallPtr = std::shared_ptr<McpWaitingCall>;

}  // namespace cubepi::detail
