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

/// How many tool results of a request were repaired.
struct TranscriptRepairs {
    std::size_t added_results = 0;  ///< created for calls without a result
    std::size_t moved_results = 0;  ///< moved directly after their calls
    std::size_t left_out = 0;       ///< results without a call
    bool any() const noexcept { return *this != TranscriptRepairs(); }
    friend bool operator==(const TranscriptRepairs&, const TranscriptRepairs&) = default;
};

/// A request made legal by repair_request().
struct RepairedTranscript {
    MessageList messages = {};
    TranscriptRepairs repairs = {};
    bool changed() const noexcept { return repairs.any(); }
};

/// Makes a legal request from any list: moves results directly after their calls, adds error results for calls without
/// one, and leaves out results without a call. A result belongs to the last preceding call with its id. Returns a legal
/// list unchanged. Linear in the number of messages.
RepairedTranscript repair_request(const MessageList& messages);

}  // namespace cubepi
