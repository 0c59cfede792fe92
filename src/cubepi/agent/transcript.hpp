#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message_list.hpp>

namespace cubepi {

/// Checks that a history is legal (D1): each assistant message with n tool calls is followed immediately by the n
/// results of its calls (as a multiset of ids), and there are no other results.
bool is_legal_transcript(const MessageList& messages, std::size_t from = 0) noexcept;

/// Returns the calls at the end of a thread that have no result yet: those of the last assistant message, if only
/// results of it follow. Such a thread was interrupted in its tools; storing the missing results makes it legal.
std::vector<ToolCall> open_tool_calls(const MessageList& messages);

/// The text of the result of a call that was interrupted.
inline constexpr std::string_view interrupted_call_text =
    "This call was interrupted; whether it took effect is unknown.";

/// Returns the result that replaces a missing one. `run_id` is that of the message with the call.
ToolResultMessage interrupted_tool_result(const ToolCall& call, SharedString run_id,
                                          double timestamp);

/// The number of tool results of a request that were repaired.
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
