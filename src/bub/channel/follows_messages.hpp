#pragma once

#include <bub/envelope.hpp>

namespace bub {

/// Optional interface of a channel whose clients wait for what becomes of each message, whichever hook decides about it. Called on the
/// manager's executor; must not throw.
class FollowsMessages {
public:
    virtual ~FollowsMessages() = default;
    /// The message is accepted, and hooks decide about it.
    virtual void accept(const Envelope& message) noexcept = 0;
    /// The message has steered the turn of `turn`, which has ended and answers both.
    virtual void join_turn(const Envelope& message, const Envelope& turn) noexcept = 0;
};

}  // namespace bub
