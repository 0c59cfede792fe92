#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

namespace cubepi::crash_tests {

inline constexpr const char* thread_id = "t";
inline constexpr const char* input_id = "input-1";

/// Called at each step of a run.
using StepHook = std::function<void()>;

/// The files of one run, in a directory of its own.
struct Places {
    std::filesystem::path directory;
    /// Not synchronised: that protects against a power failure and makes no difference to a killed process.
    SQLiteOptions database() const {
        SQLiteOptions options;
        options.path = (directory / "t.db").string();
        options.synchronous = SQLiteSynchronous::off;
        return options;
    }
    std::filesystem::path effects() const { return directory / "effects"; }
};

/// The calls that took effect, in order.
std::vector<std::string> effects_of(const Places& places);

/// A tool that appends a line to the file of effects for each call. A step before and one after.
AgentTool lasting_tool(Places places, StepHook step);

/// Runs a prompt with three calls in two turns on the database, and kills itself at step `kill_at` (with SIGKILL; nothing is
/// cleaned up). Returns the exit status if there are fewer steps.
int run_tool_turns(const Places& places, std::size_t kill_at);

}  // namespace cubepi::crash_tests
