#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/core/message.hpp>

// How answers end (D87): which stop reasons of servers mean a complete answer, and descriptions of the others.

namespace cubepi {

enum class AnswerEnd : std::uint8_t {
    complete,
    cut_off,         ///< at the output limit
    context_window,  ///< cut off because the context window is full
    refused,         ///< by the model, or filtered
    incomplete,      ///< for another reason, which may be unknown
    empty            ///< the stop reason means a complete answer, which has no content
};
/// "complete", "cut_off", ...
std::string_view to_string(AnswerEnd end) noexcept;

/// Returns how an answer that did not fail ended. Only stop reasons that are known to mean so are `complete`. The tool calls of
/// other answers are not executed (D3).
AnswerEnd answer_end(const AssistantMessage& answer);
/// Describes an answer that is not complete, with its stop reason: "the answer was cut off ... (stop reason 'length')".
/// Returns an empty text for a complete one.
std::string answer_end_text(const AssistantMessage& answer);

/// Returns whether the answer waits for a request with itself as the last message, by which a run continues it: Anthropic's
/// `pause_turn`, after a server tool that takes long.
bool is_paused(const AssistantMessage& answer) noexcept;

namespace detail {
/// Returns the stop reason for the word of a server: at most 64 printable ASCII characters, and none of the words by which the
/// library marks answers that failed or were aborted here.
std::string server_stop_reason(std::string_view word);
}  // namespace detail

}  // namespace cubepi
