#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/envelope.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/agent/middleware.hpp>

namespace bub::detail {

/// The state of an input that is already on the tape because a process was killed during or after its turn.
struct EarlierTurn {
    std::string message_id =
        {};  ///< of the newest user message; a repeated input has another id, see next_message_id()
    std::string run_id = {};
    std::string digest = {};  ///< of its request (request_digest_key); empty: none is recorded
    std::vector<std::string> texts = {};  ///< the model's complete answers, oldest first
    std::optional<cubepi::AssistantMessage> last = {};  ///< of them, also without text
    bool answered = false;                              ///< the model had finished
    std::string problem = {};  ///< how the newest call of the model failed; empty: it did not fail
    bool joined = false;       ///< it was added to the turn of another input (steering)
    /// Another input, or an answer to an older one, has followed the newest message of this one, so that its run cannot continue at the
    /// end of the tape.
    bool superseded = false;
};

/// Returns true if the answer failed or was aborted.
bool is_broken_off(const cubepi::AssistantMessage& answer) noexcept;

/// Returns the value of request_digest_key of a message, which may be null; empty: none.
std::string request_digest(const Envelope* message);
/// Throws SenderError if the message, which may be null, has the id of the earlier one and the digest of another request (D262).
void require_same_request(const EarlierTurn& earlier, const Envelope* message);

/// Returns nothing if the input is not on the tape.
Task<std::optional<EarlierTurn>> find_earlier_turn(Tape tape, std::string input_id);

/// Returns the data of an event on the tape; null if there is none.
const JsonObject* data_of(const std::optional<TapeEntry>& event) noexcept;

/// The event that records an answer on the tape. Its data: `question_id`, `question` (its key), `user`, `channel`, `asker`, `input`,
/// the id of the message with the answer, request_digest_key of this message, and `expired`, true for the end of the time to answer.
inline constexpr std::string_view answer_event = "hitl.answer";

/// The state of an answer to a question that is already on the tape because a process was killed after it was received. The message is
/// that of the user whose run it continued.
struct EarlierAnswer : EarlierTurn {
    std::string question = {};  ///< question_name(); its id in the tapes of older versions
    JsonObject asker = {};      ///< of the question; see asker_key
};

/// Returns nothing if the newest answer on the tape is another one.
Task<std::optional<EarlierAnswer>> find_earlier_answer(Tape tape, std::string input_id);

/// The id of the prompt of a sub-agent that inherits the conversation begins so. It is not an input of its own.
inline constexpr std::string_view inherited_prefix = "inherited/";

/// Removes what sub-agents that inherited the conversation have appended to a run that is not finished. The run continues at the end of
/// the history, and has their results.
cubepi::MessageList without_inherited(cubepi::MessageList messages);

/// A middleware that hides interrupted answers from a model that continues a turn, so that it answers from scratch.
class WithoutInterrupted {
public:
    /// Omits interrupted answers after the message `after`.
    explicit WithoutInterrupted(std::string after) : after_(std::move(after)) {}
    cubepi::MessageList transform_context(cubepi::MessageList messages,
                                          cubepi::HookContext& context);

private:
    std::string after_;
};

}  // namespace bub::detail
