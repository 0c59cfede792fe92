#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <cubepi/core/message_list.hpp>

namespace cubepi::crash_tests {

/// The update that the model looks something up for.
inline constexpr const char* with_tool = "three";

/// What the model makes of an update, in one line.
std::string answer_to(const std::string& update);

/// The messages of a chat of the platform ("short", "long"), those that were broken off too.
MessageList kept_of_chat(const std::filesystem::path& directory, const std::string& chat);

/// How often the tool took effect.
std::size_t times_looked(const std::filesystem::path& directory);

/// A gateway whose turns are those of the builtin agent, on tapes. It takes in what is not confirmed, answers what it has, and
/// ends. Kills itself at step `kill_at`.
int run_gateway_worker(const std::filesystem::path& directory, std::size_t kill_at);

}  // namespace cubepi::crash_tests
