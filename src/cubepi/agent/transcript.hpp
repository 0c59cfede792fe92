#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cubepi/core/message_list.hpp>

namespace cubepi {

/// Legal history (D1): each assistant message with n tool calls is followed at once by the n results of its
/// calls (as a multiset of ids), and there are no other results.
bool is_legal_transcript(const MessageList& messages, std::size_t from = 0) noexcept;

/// The calls at the end of a thread that have no result yet: of the last assistant message, if nothing but results of
/// it follow. Such a thread was cut off in its tools; storing their results makes it legal.
std::vector<ToolCall> open_tool_calls(const MessageList& messages);

/// The result that stands for one that never came. `run_id` is that of the message that called.
ToolResultMessage interrupted_tool_result(const ToolCall& call, SharedString run_id,
                                          double timestamp);

struct RepairedTranscript {
    MessageList messages = {};
    std::size_t added_results = 0;  ///< made up for calls without one
    std::size_t left_out = 0;       ///< results without their call
    bool changed() const noexcept { return added_results != 0 || left_out != 0; }
};

/// A legal request from any list: results are put right behind their calls, missing ones made up, strays left out.
/// What needs no repair comes back as it is.
RepairedTranscript repair_request(const MessageList& messages);

}  // namespace cubepi
