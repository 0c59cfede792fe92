#pragma once

#include <memory>
#include <string>

#include <bub/hooks.hpp>
#include <bub/schedule/schedule.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {

inline constexpr std::string_view schedule_tool_name = "schedule";

struct ScheduleToolOptions {
    std::shared_ptr<ScheduleStore> store = {};  ///< required
    std::string zone = {};  ///< the default time zone; empty: that of the system
    /// Schedules may be added in turns that no user has begun.
    bool may_reschedule = false;
    std::shared_ptr<const cubepi::Runtime> runtime = cubepi::Runtime::standard();
};

/// Returns the tool by which the model adds, lists and cancels the schedules of a session. Their firings have the channel, chat and sender
/// of `message`, which the turn answers. In a turn that a schedule or the result of a sub-agent has begun, it adds none unless the options
/// say so: else a model could call itself without end. Its risk is read_only, because it changes nothing but when the session receives
/// messages, within the limits of schedule.hpp.
cubepi::AgentTool schedule_tool(ScheduleToolOptions options, const std::string& session_id,
                                const Envelope& message);

/// Returns a plugin that ends the turn of a firing without an answer if its schedule was cancelled while the message was queued.
Plugin schedule_plugin(std::shared_ptr<ScheduleStore> store);

}  // namespace bub
