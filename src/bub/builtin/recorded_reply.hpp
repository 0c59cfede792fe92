#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <bub/tape/tape.hpp>

namespace bub {

/// RecordedReply::failure of a turn that its user or its process has ended.
inline constexpr std::string_view ended_turn_text = "the turn was ended before it was complete";

/// The answer to a message of a channel, as the tape of its session has it.
struct RecordedReply {
    std::string digest = {};   ///< of its request; empty: none is recorded
    std::string run_id = {};   ///< of the run that answers; empty for a command
    std::string text = {};     ///< texts of several steps are joined (B19)
    std::string finish = {};   ///< how an answer that is not complete ended; see finish_key
    std::string failure = {};  ///< empty: the newest step did not fail
    bool answered =
        false;  ///< the answer is whole; false also while the run waits for an answer to a question
    bool is_command = false;  ///< `text` is the output of a comma command
};

/// Returns the answer to the message with this id (input_id_of()); nothing if the tape does not have the message. Turns that have not ended
/// are not visible. An answer that follows after a question was answered belongs to the message whose run has asked.
Task<std::optional<RecordedReply>> find_reply(Tape tape, std::string input_id);

}  // namespace bub
