#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/message_list.hpp>

namespace cubepi::crash_tests {

/// The update for which the model calls a tool.
inline constexpr const char* with_tool = "three";

/// The updates of a gateway that asks before it calls the tool: a message for which it asks, another message, and the answer.
inline const std::vector<std::string> updates_with_answer = {with_tool, "four", ",approve c1"};

/// The answer of the model to an update, in one line.
std::string answer_to(const std::string& update);

/// The messages of a chat of the platform ("short", "long"), including interrupted ones.
MessageList messages_of_chat(const std::filesystem::path& directory, const std::string& chat);

/// The number of times the tool took effect.
std::size_t times_looked(const std::filesystem::path& directory);

/// The number of answers to questions that the tape of the chat "long" has recorded.
std::size_t recorded_answers(const std::filesystem::path& directory);

/// In place of a step: it is killed when the tool has taken effect, before anything has recorded its result.
inline constexpr std::size_t after_effect = static_cast<std::size_t>(-1);

/// A gateway with the builtin agent on tapes. It receives unconfirmed updates, answers them, and exits. Kills itself at step
/// `kill_at`. With `asks`, it asks before it calls the tool, and the updates are updates_with_answer. `threads`: the number of
/// threads that run turns, in addition to that of the manager; 0: none. `replay`: whether the tool may run again.
int run_gateway_worker(const std::filesystem::path& directory, std::size_t kill_at,
                       bool asks = false, std::size_t threads = 0,
                       ReplayPolicy replay = ReplayPolicy::never);

}  // namespace cubepi::crash_tests
