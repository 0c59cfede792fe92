#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>

// The record that a history has of a prompt, for the limits of runs that continue it after their process was killed (D204, D222).

namespace cubepi::detail {

/// Returns the index of the first message that belongs to the last prompt of a user: a run that continues another one, or that
/// receives results of sub-agents, has no such prompt of its own.
std::size_t begin_of_prompt(const MessageList& history);
/// Returns the index of the message with this id; begin_of_prompt() if there is none.
std::size_t begin_of_prompt(const MessageList& history, std::string_view message_id);

/// Returns the index after the message with this id; nothing if there is none.
std::optional<std::size_t> index_after(const MessageList& history, std::string_view message_id);

/// Returns the cost in USD that a message of a history stands for: the recorded one, else that of an answer of `model`; empty if it is
/// unknown.
std::optional<double> cost_in_history(const Message& message, const Model& model);
/// Returns the message with this cost as the recorded one: all that its run has spent since the message before. Empty: unknown.
Message with_recorded_cost(const Message& message, std::optional<double> usd);

/// The parts of the limits of a prompt that its runs have used.
struct PromptWork {
    std::uint32_t turns = 0;           ///< answers of the model
    std::optional<double> cost = 0.0;  ///< USD; absent: unknown
};

/// Returns what the history has from this index on. `model`: of answers without a recorded cost.
PromptWork work_since(const MessageList& history, std::size_t begin, const Model& model);

}  // namespace cubepi::detail
