#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <cubepi/core/message_list.hpp>

namespace cubepi::crash_tests {

/// The update for which the model calls a tool.
inline constexpr const char* with_tool = "three";

/// The answer of the model to an update, in one line.
std::string answer_to(const std::string& update);

/// The messages of a chat of the platform ("short", "long"), including interrupted ones.
MessageList messages_of_chat(const std::filesystem::path& directory, const std::string& chat);

/// The number of times the tool took effect.
std::size_t times_looked(const std::filesystem::path& directory);

/// A gateway with the builtin agent on tapes. It receives unconfirmed updates, answers them, and exits. Kills itself at step
/// `kill_at`.
int run_gateway_worker(const std::filesystem::path& directory, std::size_t kill_at);

}  // namespace cubepi::crash_tests
