#pragma once

#include <optional>
#include <string>

#include <bub/envelope.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

/// Decides which messages get a turn. The manager calls it on its executor.
class TurnGate {
public:
    virtual ~TurnGate() = default;
    /// Returns the text for the sender of a message whose turn must not begin; nothing: it begins. `message.receipts` are the ids of
    /// its records; a message that is delivered again has the same ones. Called before each turn, and before a message
    /// becomes part of a running one. An exception is a failure of the turn (cause_of()).
    virtual Task<std::optional<std::string>> refuse(Envelope message) = 0;
    /// Stores what is not stored yet, when the manager ends.
    virtual Task<> flush() = 0;
};

}  // namespace bub
