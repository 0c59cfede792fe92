#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <bub/envelope.hpp>

namespace bub {

/// The action that admission takes on an arriving message.
enum class AdmitAction : std::uint8_t {
    process,    ///< start its own turn, after the turns of earlier messages
    drop,       ///< discard it
    follow_up,  ///< start its own turn after the running turn ends
    steer,      ///< pass it to the running turn; treat it as a follow-up if no turn is running
};
std::string_view to_string(AdmitAction action) noexcept;

/// An admission decision for one message.
struct AdmitDecision {
    AdmitAction action = AdmitAction::process;
    std::string reason = {};
};

/// A snapshot of a message's session, passed to admission hooks.
struct TurnSnapshot {
    std::string session_id = {};
    bool is_running = false;
    std::size_t running_count = 0;
    std::size_t pending_count = 0;
    std::size_t steering_count = 0;
};

/// Queues of messages that are to steer running turns. Shared by all sessions; thread-safe.
class SteeringInbox {
public:
    virtual ~SteeringInbox() = default;
    /// Returns false if the session's queue is full (B14).
    virtual bool enqueue(const std::string& session_id, Envelope message) = 0;
    /// Removes and returns all queued messages, oldest first.
    virtual std::vector<Envelope> drain(const std::string& session_id) = 0;
    virtual std::size_t count(const std::string& session_id) const = 0;
};

}  // namespace bub
