#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/shared_string.hpp>

namespace cubepi {

/// Facts about a prompt from its caller, for traces. A value that callers pass on, not a scope that is found by itself: a coroutine may
/// continue on another thread, between those of other runs (D124).
struct TraceContext {
    std::string traceparent =
        {};  ///< of the caller's span, in the form of W3C Trace Context; empty: none
    std::vector<std::string> tags = {};
    JsonObject metadata = {};

    bool empty() const noexcept { return traceparent.empty() && tags.empty() && metadata.empty(); }
    /// Returns this context with another one inside of it: the tags of both, without duplicates; metadata and traceparent of
    /// `inner` take precedence.
    TraceContext nested(TraceContext inner) const;
};

/// Where a run comes from.
struct RunOrigin {
    /// The run whose tool call, or hook, started this run: that of a sub-agent. Empty: none.
    std::string parent_run_id = {};
    std::string parent_tool_call_id = {};            ///< empty: a hook, or no parent
    std::shared_ptr<const TraceContext> trace = {};  ///< null: none
};

/// The identity of a run, the same for all its events.
struct RunInfo {
    SharedString run_id = {};
    SharedString attempt_id = {};
    SharedString thread_id = {};  ///< empty if the agent has none
    RunOrigin origin = {};
    /// The same moment on both clocks, when the run was created.
    std::chrono::steady_clock::time_point created = {};
    std::chrono::system_clock::time_point created_wall = {};

    /// Returns the date of a moment of the run.
    std::chrono::system_clock::time_point wall_time(
        std::chrono::steady_clock::time_point moment) const noexcept {
        return created_wall +
               std::chrono::duration_cast<std::chrono::system_clock::duration>(moment - created);
    }
};

/// The outcome of a run (D40).
enum class RunOutcome : std::uint8_t {
    completed,
    suspended,  ///< waiting for the user; respond() resumes it
    aborted,
    failed,   ///< the model, the network or a hook failed
    limited,  ///< a configured limit was reached
};
std::string_view to_string(RunOutcome outcome) noexcept;

}  // namespace cubepi
