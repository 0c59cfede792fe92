#pragma once

#include <optional>
#include <string>
#include <vector>

#include <bub/tape/tape.hpp>
#include <cubepi/agent/middleware.hpp>

namespace bub::detail {

/// What a tape has of an input that came before: a process was killed in its turn, or behind it.
struct EarlierTurn {
    std::string message_id =
        {};  ///< of the user message; behind a hand-off it is there again, under another id
    std::string run_id = {};
    std::vector<std::string> texts = {};  ///< the model's whole answers, oldest first
    bool answered = false;                ///< the model had no more to say
    bool joined = false;                  ///< it came into the turn of another input (steering)
};

/// Nothing when the tape does not know the input.
Task<std::optional<EarlierTurn>> find_earlier_turn(Tape tape, std::string input_id);

/// The id under which the same input is said again behind a hand-off.
std::string next_message_id(const std::string& message_id);

/// A model that goes on with a turn does not see what it was interrupted in: the answer is given anew.
class WithoutInterrupted {
public:
    /// Answers that were broken off are left out behind the message `after`.
    explicit WithoutInterrupted(std::string after) : after_(std::move(after)) {}
    cubepi::MessageList transform_context(cubepi::MessageList messages,
                                          cubepi::HookContext& context);

private:
    std::string after_;
};

}  // namespace bub::detail
