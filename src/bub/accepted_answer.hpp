#pragma once

#include <string>
#include <string_view>

#include <bub/envelope.hpp>

namespace bub {

namespace event_kind {
/// Not a Bub event: {question_id, answer}. The run has accepted an answer, and continues.
inline constexpr std::string_view answered = "answered";
}  // namespace event_kind

/// The answer to a question that a turn was given and its run has accepted (B24), as a service of its TurnState.
struct AcceptedAnswer {
    std::string question_id = {};
    Json answer = {};  ///< as HitlChannel::answer() takes it
};

/// Optional interface of a channel that shows the outcome of a question, for example in the place of its buttons. Called on the manager's
/// executor, with or without ChannelManagerOptions::stream_output, when the turn of the answer has ended; must not throw.
class ShowsOutcomes {
public:
    virtual ~ShowsOutcomes() = default;
    /// `message` is the one that answered.
    virtual void show_outcome(const Envelope& message, const AcceptedAnswer& answer) noexcept = 0;
};

}  // namespace bub
